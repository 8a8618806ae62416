// What is known of one node: its last observation, its lag, and why it is not used. Pure:
// observations and times in.
#pragma once

#include <optional>
#include <string>

#include "monitor/lag_sampler.h"
#include "monitor/observation.h"
#include "monitor/replay_rate.h"

namespace pgweir::monitor {

class NodeModel {
 public:
  NodeModel(NodeId id, std::string name) : id_(id), name_(std::move(name)) {}

  /// It answered. What is known of another instance behind the same name is forgotten: LSNs only
  /// grow within one identity.
  void observed(const Observation& seen, Time asked, Time now);
  /// It did not answer, or with an error.
  void failed(const Error& why, Time asked);
  void compared(NodeSettings settings) { settings_ = std::move(settings); }
  void follow_primary(tokens::Lsn lsn, Time asked, Time now) { lag_.primary_at(lsn, asked, now); }
  Time behind_since() const noexcept { return lag_.behind_since(); }
  void forget_lag() noexcept { lag_.forget(); }

  /// A server found (system_id, started_at) behind this node's address. If the next poll asked
  /// after that still differs, and the difference is not a restart that the poll now shows, the
  /// address hides several instances.
  ///
  /// A restart that is reported late looks the same. So a mark that may come from one is taken back
  /// when kMatchesToHeal servers in a row were of the polled instance and none of another for
  /// kQuietToHeal: servers of an instance that has ended are gone too. A mark that no restart
  /// explains stays: pools may hold servers of the other instance for hours.
  void server_seen(std::string system_id, std::string started_at, Time now);
  static constexpr int kMatchesToHeal = 3;
  static constexpr Duration kQuietToHeal = std::chrono::seconds{60};
  bool doubted() const noexcept { return doubt_.has_value(); }

  NodeId id() const noexcept { return id_; }
  const std::string& name() const noexcept { return name_; }
  bool answered_ever() const noexcept { return tried_; }  ///< Answered or failed at least once.
  bool up() const noexcept { return up_; }
  bool in_recovery() const noexcept { return up_ && seen_.in_recovery; }
  bool claims_primary() const noexcept { return up_ && !seen_.in_recovery; }
  bool several() const noexcept { return several_; }
  /// It is seen to receive WAL, of the timeline in seen().
  bool streams() const noexcept { return in_recovery() && streams_; }
  /// When the question of the last observation went out.
  Time asked_at() const noexcept { return asked_at_; }
  /// When the last question went out that it answered or failed to answer.
  Time tried_at() const noexcept { return tried_at_; }
  /// The last observation; what it says is stale while the node is down.
  const Observation& seen() const noexcept { return seen_; }
  const std::optional<NodeSettings>& settings() const noexcept { return settings_; }
  /// Its major version; 0 until its settings were read.
  int server_version() const noexcept;
  const std::string& last_error() const noexcept { return last_error_; }

  /// Role, eligibility and exclusion are the cluster's to say.
  routing::NodeView view(Time now);

 private:
  struct Doubt {
    std::string system_id;
    std::string started_at;
    Time at;
  };
  void judge_doubt(const std::string& previous_system, const std::string& previous_start,
                   Time asked);
  bool may_be_former(const std::string& system_id, const std::string& started_at, Time at) const;
  void server_seen_of_several(const std::string& system_id, const std::string& started_at,
                              Time now);

  NodeId id_;
  std::string name_;
  Observation seen_;
  Time asked_at_{};  ///< When the question of that observation went out.
  Time tried_at_{};
  Time advanced_at_{};
  bool tried_ = false;
  bool up_ = false;
  bool streams_ = false;
  bool several_ = false;
  bool may_heal_ = true;  ///< All that speaks for several may be restarts that were told late.
  int matches_ = 0;       ///< Servers in a row that were of the polled instance.
  Time mismatch_at_{};    ///< The last sign of another instance.
  Time restarted_at_{};   ///< When a restart was seen; zero before the first.
  std::optional<NodeSettings> settings_;
  std::optional<Doubt> doubt_;
  LagSampler lag_;
  ReplayRate rate_;
  std::string last_error_;
};

}  // namespace pgweir::monitor
