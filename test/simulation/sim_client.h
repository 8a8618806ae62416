// An application's connection to the pooler: sends units, and holds every byte that comes back
// against what must come.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "io/io.h"
#include "protocol/framer.h"
#include "sim_cluster.h"
#include "sim_unit.h"
#include "truth.h"

namespace pgweir::sim {

/// What all clients of a run share.
struct ClientWorld {
  SimLoop& loop;
  SimNetwork& network;
  SimCluster& cluster;
  Truth& truth;
  io::Address pooler;
  std::string database = "shop";
  bool session_pooling = false;
  /// Session state of every kind is brought along or pinned: with the split, or one server per
  /// session. Otherwise, as under PgBouncer, clients that share servers keep to what servers
  /// report.
  bool tracks_session_state = true;
  /// A RESET leads back to what the client asked for at login; without the split texts are not
  /// read.
  bool resets_to_login = true;
  /// Names of protocol-level statements are translated; max_prepared_statements = 0 without the
  /// split is not for them.
  bool named_statements = true;
  /// Whether anything may break: otherwise every error that a unit does not ask for is a failure.
  bool trouble = false;
  /// Reads of a block may run by themselves, before it has come to a server.
  bool blocks_move = false;
  /// Reads are routed: pgweir answers to its own settings.
  bool split = false;
  /// The primary may become a standby between two looks of the monitor: a write that hits it then
  /// is refused, without effect.
  bool roles_move = false;
  std::uint32_t last_client = 0;
};

class SimClient final : public io::TransportUser {
 public:
  SimClient(ClientWorld& world, Dice dice, std::string user);
  ~SimClient();

  void connect();
  /// Breaks off without a word, or says goodbye.
  void leave(bool politely);
  void send(Unit unit);
  /// Asks the pooler to cancel what this client runs.
  void cancel();

  bool connected() const noexcept { return ready_; }
  bool busy_connecting() const noexcept { return connecting_; }
  bool idle() const noexcept { return ready_ && units_.empty(); }
  /// The block that is open has read or written something.
  bool block_used() const noexcept { return block_used_; }
  bool repeatable() const noexcept { return repeatable_; }
  bool in_transaction() const noexcept { return status_ != 'I'; }
  char status() const noexcept { return status_; }
  std::size_t outstanding() const noexcept { return units_.size(); }
  /// How the last unit ended: empty is success, else its SQLSTATE.
  const std::string& last_error() const noexcept { return last_error_; }
  /// Of the last row: which node answered, and as of which record.
  const std::string& last_node() const noexcept { return last_node_; }
  RecordId last_snapshot() const noexcept { return last_snapshot_; }
  PlanContext plan() {
    return {dice_,
            id_,
            last_unit_,
            last_statement_,
            prepared_,
            world_.tracks_session_state,
            world_.resets_to_login,
            world_.named_statements,
            in_transaction(),
            read_only_,
            world_.truth.catalog_warns,
            world_.split && !world_.session_pooling};
  }
  Dice& dice() noexcept { return dice_; }
  bool pinned() const noexcept { return pinned_; }
  /// What SQL's PREPARE made: name and tables.
  const std::map<std::string, std::uint32_t>& sql_prepared() const noexcept {
    return sql_prepared_;
  }
  const std::string& name() const noexcept { return name_; }
  std::uint64_t answered() const noexcept { return answered_; }
  std::uint64_t connections() const noexcept { return connections_; }
  std::size_t notifications() const noexcept { return notifications_; }
  SessionMemory& memory() noexcept { return *memory_; }
  void pause_reading(Duration time);
  /// Called, from an event of its own, whenever the client has nothing to do or lost its
  /// connection.
  std::function<void()> on_rest;

  // TransportUser
  void on_connected() noexcept override;
  void on_bytes(Bytes bytes) noexcept override;
  void on_drained() noexcept override {}
  void on_closed(const Error& why) noexcept override;

 private:
  void on_message(char type, Bytes body);
  void on_startup_message(char type, Bytes body);
  void on_asynchronous(char type, Bytes body);
  void on_error(Unit& unit, Bytes body);
  void on_row(Unit& unit, Bytes body);
  void on_copy_row(Unit& unit, Bytes body);
  void on_ready(Unit& unit, Bytes body);
  void step(Unit& unit, char type);
  void apply(const Unit& unit);
  bool fair(const Unit& unit, std::string_view sqlstate, bool fatal) const;
  void check_foreign(std::string_view text, const Marker& own);
  void fail(const std::string& what);
  void rest();
  void reset_session();

  ClientWorld& world_;
  Dice dice_;
  std::string user_;
  std::string name_;
  std::unique_ptr<io::Transport> transport_;
  class Canceller;
  std::vector<std::unique_ptr<Canceller>> cancellers_;
  protocol::Framer framer_;
  protocol::Collector collector_;
  std::uint64_t life_ = 0;
  std::uint32_t id_ = 0;
  std::uint32_t last_unit_ = 0;
  std::uint32_t last_statement_ = 0;
  bool ready_ = false;
  bool connecting_ = false;
  bool leaving_ = false;  ///< Said goodbye: the end of the connection is no surprise.
  char status_ = 'I';
  std::uint32_t pid_ = 0;
  std::uint32_t key_ = 0;
  bool cancelled_ = false;
  bool pinned_ = false;
  bool left_state_ = false;  ///< While it keeps the server, it sees what a procedure has set there.
  std::deque<Unit> units_;
  std::map<std::string, std::pair<std::string, std::uint32_t>> prepared_;
  std::map<std::string, std::uint32_t> sql_prepared_;
  SessionSettings settings_;  ///< What rows must show.
  SessionSettings defaults_;
  SessionSettings before_block_;
  SessionSettings reported_;
  std::set<std::string> listening_;
  std::string block_server_;  ///< Node and pid that serve the open block, once it has come to a server.
  bool read_only_ = false;    ///< The open block is, or repeatable.
  bool repeatable_ = false;
  bool block_used_ = false;   ///< Something was read or written in it.
  std::optional<RecordId> block_snapshot_;  ///< What a repeatable one has seen.
  Due block_must_{};                        ///< What its first statement had to see.
  SessionMemory own_memory_;
  SessionMemory* memory_ = &own_memory_;  ///< a causal key's while one is set
  std::string last_error_;
  std::string last_node_;
  RecordId last_snapshot_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t connections_ = 0;
  std::size_t notifications_ = 0;
};

}  // namespace pgweir::sim
