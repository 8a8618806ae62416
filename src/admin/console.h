// One client of the admin console: messages in, bytes out. Speaks the simple and the extended
// protocol, so psql and drivers that know only prepared statements both work.
//
//   ConsoleSession console(world, access_of(settings, user));
//   console.append_welcome(out);                     // ParameterStatus rows; R, K and Z are the
//   caller's. console.on_message(type, body, out);             // Q P B D E S C H X
//   console.complete(status, out);                   // From the World, when an order was answered
//   `later`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "admin/commands.h"
#include "admin/world.h"
#include "base/bytes.h"

namespace pgweir::admin {

/// By admin_users and stats_users; auth_type=any makes everybody an admin.
Access access_of(const config::Settings& settings, std::string_view user) noexcept;
/// `pgbouncer` or `pgweir`: the names of the virtual database.
bool is_console_database(std::string_view name) noexcept;

class ConsoleSession {
 public:
  ConsoleSession(World& world, Access access);
  ConsoleSession(const ConsoleSession&) = delete;
  ConsoleSession& operator=(const ConsoleSession&) = delete;
  ~ConsoleSession();

  /// The parameters PgBouncer's console announces after login.
  void append_welcome(std::string& out) const;
  /// One whole message of the client; what it gets is appended to `out`. While an order is under
  /// way (busy()), messages are kept and answered after it.
  void on_message(char type, Bytes body, std::string& out);
  /// The order that was answered `later` is done, or failed. Answers the messages that were kept,
  /// too.
  void complete(const Status& how, std::string& out);
  /// A cancel request of this client: the order under way is given up, and a pause undone.
  void cancel(std::string& out);

  bool busy() const noexcept { return busy_with_ != nullptr; }
  /// The client said goodbye, broke the protocol, or the command ends its session: close once `out`
  /// was sent.
  bool finished() const noexcept { return finished_; }

 private:
  struct Statement {
    const Command* command = nullptr;
    std::string argument;
  };
  struct Portal {
    Statement statement;
    std::vector<std::uint16_t> formats;  // Of the result's columns.
    bool ran = false;
    Answer answer;
    std::size_t next_row = 0;
  };
  struct Kept {
    char type;
    std::string body;
  };

  void handle(char type, Bytes body, std::string& out);
  void on_query(Bytes body, std::string& out);
  void on_parse(Bytes body, std::string& out);
  void on_bind(Bytes body, std::string& out);
  void on_describe(Bytes body, std::string& out);
  void on_execute(Bytes body, std::string& out);
  void on_close(Bytes body, std::string& out);
  void on_sync(std::string& out);
  /// Runs what a statement says, after the check of access. Marks the session busy or finished.
  Result<Answer> run(const Statement& statement);
  /// The rows of an Execute up to its limit, and what ends it.
  void send_rows(Portal& portal, std::uint32_t rows_max, std::string& out);
  /// An error within the extended protocol: all is skipped up to the Sync.
  void fail(const Error& error, std::string& out);
  /// The client does not speak the protocol: an error, and the end.
  void break_off(std::string_view what, std::string& out);

  World& world_;
  Access access_;
  std::map<std::string, Statement, std::less<>> statements_;
  std::map<std::string, Portal, std::less<>> portals_;
  const Command* busy_with_ = nullptr;
  bool busy_in_query_ = false;  // The order came by a simple Query: Z follows at once.
  std::deque<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  bool skip_to_sync_ = false;
  bool finished_ = false;
};

}  // namespace pgweir::admin
