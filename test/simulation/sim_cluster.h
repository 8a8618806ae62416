// One primary and its replicas: WAL that grows, replays late, stalls, is lost in a crash or goes on
// elsewhere after a promotion. What runs on a node's connections is sim_backend's business.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dice.h"
#include "sim_loop.h"
#include "sim_network.h"
#include "tokens/lsn.h"
#include "truth.h"

namespace pgweir::sim {

class SimBackend;
class SimCluster;

/// How a node behaves; scenarios and fault plans turn these.
struct NodeHabits {
  Duration replay_delay_min = std::chrono::milliseconds{1};
  Duration replay_delay_max = std::chrono::milliseconds{6};
  /// Of 1000 statements on a standby, those that a conflict with recovery ends.
  int conflicts = 0;
  /// The role is not there yet (pitfall 12), or its password has changed.
  bool refuses_logins = false;
  /// Of 1000 records, those that end exactly at a page's end (pitfall 26).
  int page_ends = 100;
  Duration statement_min = Duration{50};
  Duration statement_max = Duration{2000};
};

class SimNode final : public io::Acceptor {
 public:
  SimNode(SimCluster& cluster, int index, std::string host);
  ~SimNode();

  void on_accepted(std::unique_ptr<io::Door> door) noexcept override;

  const std::string& host() const noexcept { return host_; }
  io::Address address() const {
    return {.kind = io::Address::Kind::tcp, .host = host_, .port = 5432};
  }
  int index() const noexcept { return index_; }
  bool up() const noexcept { return up_; }
  bool is_primary() const noexcept { return is_primary_; }
  std::uint32_t timeline() const noexcept { return timeline_; }
  const std::string& started_at() const noexcept { return started_at_; }

  // WAL.
  /// What a statement sees: the last record that is applied here.
  RecordId applied() const noexcept { return wal_[replayed_ - 1]; }
  RecordId received() const noexcept { return wal_.back(); }
  tokens::Lsn insert_lsn() const;
  tokens::Lsn replay_lsn() const;
  tokens::Lsn receive_lsn() const;
  /// Writes a commit of these tables (none: WAL that changes nothing anybody reads).
  RecordId append(std::uint32_t tables);
  bool replay_paused() const noexcept { return replay_paused_; }

  // What happens to it.
  void start();
  /// Connections break; `keep_flushed` is a crash (what was not flushed is lost), else a clean
  /// stop.
  void stop(bool crash);
  void promote();
  void pause_replay(bool on);
  /// A fresh copy of `source` that follows it.
  void rebuild_from(SimNode& source);
  void follow(SimNode* upstream);
  SimNode* upstream() noexcept { return upstream_; }

  NodeHabits habits;
  /// Excluded from the checkers' view of the cluster: a replica promoted by mistake, an old primary
  /// that came back.
  bool stray = false;

  std::vector<std::unique_ptr<SimBackend>>& backends() noexcept { return backends_; }
  SimCluster& cluster() noexcept { return cluster_; }
  /// A pooled connection of that user has just logged in: are there too many now?
  void check_limits(const std::string& user);
  void cancel(std::uint32_t pid, std::uint32_t key);
  void reap();

 private:
  friend class SimCluster;
  void flush_wal();
  void receive();
  void replay_to(std::size_t count);

  SimCluster& cluster_;
  int index_;
  std::string host_;
  bool up_ = false;
  bool is_primary_ = false;
  bool replay_paused_ = false;
  std::uint32_t timeline_ = 1;
  std::string started_at_;
  std::vector<RecordId> wal_{0};  ///< What is here; the born state first.
  std::size_t replayed_ = 1;      ///< Of wal_; all of it on a primary.
  std::size_t flushed_ = 1;
  std::size_t replay_wanted_ = 1;
  std::uint64_t lives_ = 0;  ///< Events of an earlier life do nothing.
  Time receive_not_before_{};
  Time replay_not_before_{};
  bool flush_scheduled_ = false;
  SimNode* upstream_ = nullptr;
  std::vector<std::unique_ptr<SimBackend>> backends_;
};

class SimCluster {
 public:
  SimCluster(SimLoop& loop, SimNetwork& network, Truth& truth, Dice dice, int nodes);
  ~SimCluster();

  SimLoop& loop() noexcept { return loop_; }
  SimNetwork& network() noexcept { return network_; }
  Truth& truth() noexcept { return truth_; }
  Dice& dice() noexcept { return dice_; }
  SimNode& node(std::size_t i) noexcept { return *nodes_[i]; }
  std::size_t size() const noexcept { return nodes_.size(); }
  /// The one whose history counts, also while it is down.
  SimNode& primary() noexcept { return *primary_; }
  SimNode* find(const std::string& host);

  /// The primary dies, and `heir` (a replica) takes over.
  void fail_over(SimNode& heir);
  /// Standbys of a new primary follow it when their WAL allows, else are rebuilt.
  void realign();

  /// Bounds of connections per node: of one user, and of all. 0: none.
  int user_servers_max = 0;
  int servers_max = 0;
  /// Commits are acknowledged before they are flushed.
  bool asynchronous_commit = false;
  std::string password;  ///< Empty: trust.
  /// As PostgreSQL up to 13: ParameterStatus comes with the statement, not ahead of ReadyForQuery.
  bool reports_at_once = false;
  std::uint32_t next_pid() noexcept { return ++last_pid_; }
  std::string next_start() { return "2026-01-01 00:00:" + std::to_string(10 + ++starts_) + "+00"; }
  std::uint32_t next_timeline() noexcept { return ++last_timeline_; }
  static constexpr const char* kSystemId = "7300000000000000001";

 private:
  friend class SimNode;
  SimLoop& loop_;
  SimNetwork& network_;
  Truth& truth_;
  Dice dice_;
  std::uint32_t last_pid_ = 100;
  int starts_ = 0;
  std::uint32_t last_timeline_ = 1;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  SimNode* primary_ = nullptr;
};

}  // namespace pgweir::sim
