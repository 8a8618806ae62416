// One connection to a simulated PostgreSQL: login, simple and extended queries, pipelines,
// transactions, COPY, settings, prepared statements, LISTEN, cancel.
//
// What a statement does happens when it begins, and its answer goes out when its time is over: so
// commits are visible before they are acknowledged, and an answer is as old as it can be.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/io.h"
#include "protocol/framer.h"
#include "protocol/startup.h"
#include "sim_network.h"
#include "sim_sql.h"
#include "truth.h"

namespace pgweir::sim {

class SimNode;

/// Settings that a server reports, as PostgreSQL writes their names, with their defaults.
inline constexpr std::pair<std::string_view, std::string_view> kReportedSettings[] = {
    {"application_name", ""},      {"client_encoding", "UTF8"},
    {"DateStyle", "ISO, MDY"},     {"default_transaction_read_only", "off"},
    {"in_hot_standby", "off"},     {"integer_datetimes", "on"},
    {"IntervalStyle", "postgres"}, {"is_superuser", "off"},
    {"server_encoding", "UTF8"},   {"server_version", "15.8"},
    {"session_authorization", ""}, {"standard_conforming_strings", "on"},
    {"TimeZone", "UTC"},
};

class SimBackend final : public io::TransportUser {
 public:
  SimBackend(SimNode& node, std::unique_ptr<io::Door> door);
  ~SimBackend();

  void on_bytes(Bytes bytes) noexcept override;
  void on_drained() noexcept override {}
  void on_closed(const Error& why) noexcept override;

  bool gone() const noexcept { return gone_; }
  /// Whether the pooler still holds its end of a connection that is logged in.
  bool held_by_pooler() const noexcept { return logged_in() && transport_->peer_holds(); }
  bool logged_in() const noexcept { return phase_ == Phase::ready && !gone_; }
  const std::string& user() const noexcept { return user_; }
  std::uint32_t pid() const noexcept { return pid_; }
  std::uint32_t key() const noexcept { return key_; }
  bool idle() const noexcept { return !waiting_ && block_ == Block::none && messages_.empty(); }
  /// Another session's query is to be cancelled; one that is idle takes no notice.
  void cancel();
  /// The node stops (or crashes): a last word when there is time for one.
  void shut_down(bool crash);
  /// A notification from `pid`, told when the backend is idle.
  void notify(const std::string& channel, const std::string& payload, std::uint32_t pid);
  bool listens(const std::string& channel) const { return listening_.count(channel) != 0; }

 private:
  enum class Phase : std::uint8_t { startup, password, ready };
  /// The transaction that the session is in: none, that of one message, or a block.
  enum class Block : std::uint8_t { none, implicit, open, failed };
  struct Message {
    char type;
    std::string body;
  };
  struct Portal {
    Statement statement;
    std::string query;
  };

  void on_startup(Bytes& input);
  void on_login(const protocol::Startup& startup);
  void login_done();
  void pump();
  void take(const Message& message);
  void on_query(const std::string& text);
  void on_extended(const Message& message);
  bool refused_in_failed_block(const Statement& statement);
  void on_sync();
  void on_copy_message(const Message& message);

  /// False: it failed, and nothing more of the message or unit is run.
  bool run(const Statement& statement, bool extended);
  bool run_select(const Statement& statement, bool extended);
  bool run_write(const Statement& statement, bool extended);
  bool run_setting(const Statement& statement);
  bool run_copy(const Statement& statement, bool extended);
  bool run_system(const Statement& statement, bool extended);
  bool refused_here(const Statement& statement, std::string_view command);
  void die(std::string_view sqlstate, std::string_view message);
  bool fail(std::string_view sqlstate, const std::string& message,
            std::string_view routine = "sim");

  void begin_implicit();
  void commit(std::optional<Marker> unit);
  void rollback();
  void end_of_message();
  /// Of servers of version 19 on: answers when the node has replayed it, or the time is over.
  void wait_for_lsn(const std::string& text);
  void go_on_waiting(tokens::Lsn lsn, Time until);
  void set(const std::string& name, const std::string& value);
  void report_changes();
  std::string setting(const std::string& name) const;
  void describe_rows();
  void end_block(const Statement& statement, std::string_view tag);
  RecordId take_snapshot();
  void row(const Statement& statement);
  void complete(std::string_view tag);
  void ready();
  char status() const noexcept;
  /// Sends what was said so far after the time that it took, and goes on with the next message
  /// then.
  void answer();
  void say_now();
  void deliver_notifications();
  void close();
  void check_owner(const Statement& statement);

  SimNode& node_;
  std::unique_ptr<SimTransport> transport_;
  protocol::Framer framer_;
  protocol::Collector collector_;
  std::string startup_;
  Phase phase_ = Phase::startup;
  bool gone_ = false;
  bool canceller_ = false;
  std::string user_;
  std::uint32_t pid_ = 0;
  std::uint32_t key_ = 0;

  std::deque<Message> messages_;
  bool waiting_ = false;  ///< An answer is on its way: nothing is read meanwhile.
  std::uint64_t wait_number_ = 0;
  std::string out_;
  Duration busy_{};  ///< What the statements so far take.
  std::optional<std::size_t>
      cancel_at_;  ///< Where in out_ the answer of a statement that can be cancelled begins.
  bool cancel_ends_query_ = false;  ///< It came as a simple query.
  bool skip_to_sync_ = false;
  bool extended_used_ = false;
  enum class Copy : std::uint8_t { none, simple, extended };
  Copy copy_ = Copy::none;
  Statement copying_;

  Block block_ = Block::none;
  /// Of the block.
  struct Characteristics {
    bool read_only = false;
    bool repeatable = false;
  };
  Characteristics begun_as_;
  std::optional<RecordId> snapshot_;  ///< Once one was taken; what later ones show when repeatable.
  std::uint32_t written_ = 0;     ///< Tables of the open transaction.
  std::optional<Marker> writer_;  ///< The last unit that wrote in it.
  std::set<Marker> writers_;
  std::optional<std::uint32_t> owner_;  ///< The client whose block it is.
  std::map<std::string, std::string> settings_;
  std::map<std::string, std::string> defaults_;
  bool settings_changed_ = false;
  std::map<std::string, std::string> reported_;  ///< What the other side has been told.
  std::map<std::string, std::string> settings_before_;
  std::map<std::string, std::string> local_before_;
  std::map<std::string, std::string> prepared_;
  std::map<std::string, Portal> portals_;
  std::set<std::string> listening_;
  std::vector<std::pair<std::string, std::string>> to_notify_;
  std::vector<std::string> notifications_;
};

}  // namespace pgweir::sim
