// One client of the admin console: messages in, bytes out. Speaks the simple and the extended protocol,
// so psql and drivers that know only prepared statements both work.
//
//   ConsoleSession console(world, access_of(settings, user));
//   console.append_welcome(out);                     // ParameterStatus rows; R, K and Z are the caller's.
//   console.on_message(type, body, out);             // Q P B D E S C H X
//   console.complete(status, out);                   // From the World, when an order was answered `later`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "admin/world.h"
#include "base/bytes.h"

namespace pgweir::admin {

/// What a user may do: nothing, SHOW, everything.
enum class Access : std::uint8_t { none, stats, admin };

/// By admin_users and stats_users; auth_type=any makes everybody an admin.
Access access_of(const config::Settings& settings, std::string_view user) noexcept;
/// `pgbouncer` or `pgweir`: the names of the virtual database.
bool is_console_database(std::string_view name) noexcept;

class ConsoleSession {
 public:
  ConsoleSession(World& world, Access access) noexcept : world_(world), access_(access) {}
  ConsoleSession(const ConsoleSession&) = delete;
  ConsoleSession& operator=(const ConsoleSession&) = delete;
  ~ConsoleSession();

  /// The parameters PgBouncer's console announces after login.
  void append_welcome(std::string& out) const;
  /// One whole message of the client; what it gets is appended to `out`. While an order is under way
  /// (busy()), messages are kept and answered after it.
  void on_message(char type, Bytes body, std::string& out);
  /// The order that was answered `later` is done, or failed. Answers kept messages too.
  void complete(const Status& how, std::string& out);

  bool busy() const noexcept { return busy_; }
  /// The client said goodbye, broke the protocol, or the command ends its session: close after `out`
  /// was sent.
  bool finished() const noexcept { return finished_; }

 private:
  struct Statement;
  struct Portal;
  struct Kept {
    char type;
    std::string body;
  };

  World& world_;
  Access access_;
  bool busy_ = false;
  bool finished_ = false;
};

}  // namespace pgweir::admin
