// Which node is the primary, when its identity changes, and which replicas may answer. Pure:
// observations in, ClusterView out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "monitor/node_model.h"

namespace pgweir::monitor {

/// Rules (docs/internals/decisions.md):
///  - At start the one node that is not in recovery is the primary, once every node has answered or
///  failed. Of two, it is the one that replicas
///    follow (they are on its timeline and not on the other's); if that leaves a doubt there is no
///    primary, and it is said loudly.
///  - A known primary stays it while it answers and is not in recovery, whatever others claim.
///  - When it is down or in recovery, a claimant that is not on an older timeline takes over, at
///  once: one that replicas follow before others, then the highest timeline.
///  Who is down is asked once more when the claim is seen, and has kSecondChance to answer: it may
///  be back, and the claim a mistake.
///  - A claimant beside which the primary was seen to answer was promoted by mistake, or before its
///  time: it takes over only when replicas follow it, or the primary has been away for
///  kStrayPatience.
///  - A known primary that was restarted is nobody's until every node that answers has been asked
///  since: meanwhile another may have been promoted.
///  - A primary that was seen in recovery has left the timeline it wrote, and is one claimant among
///  others if it is promoted again: who is on the timeline that it follows now may take over.
///  - While the primary is down, a claimant on an older timeline lacks what was written since. It
///  takes over only after kStrayPatience, when a replica is seen to stream from it and none is on
///  the primary's timeline.
///  - A primary that comes back with another system identifier belongs to a new cluster, which is
///  taken after kStrayPatience.
///  - While nobody is known, the first configured node that is not seen in recovery is assumed to
///  be it; no replica is eligible then.
class ClusterModel {
 public:
  static constexpr Duration kStrayPatience = std::chrono::seconds{10};
  static constexpr Duration kSecondChance = std::chrono::milliseconds{200};
  /// Replicas that become usable one so soon after another, as at the start, are equally cold.
  static constexpr Duration kComesTogether = std::chrono::seconds{5};

  struct Member {
    NodeId id;
    std::string name;
  };
  struct Notice {
    LogLevel level;
    std::string text;
  };

  explicit ClusterModel(const std::vector<Member>& members);

  void observed(NodeId node, const Observation& seen, Time asked, Time now);
  void failed(NodeId node, const Error& why, Time asked, Time now);
  /// The primary's insert LSN, learnt by a capture asked at `asked`: as good as a poll for telling
  /// who lags.
  void captured(tokens::Lsn lsn, Time asked, Time now);
  void compared(NodeId node, NodeSettings settings, Time now);
  void server_seen(NodeId node, std::string system_id, std::string started_at, Time now);

  NodeModel& node(NodeId id);
  /// A restart of the primary is to be confirmed, and this node has not been asked since.
  bool must_ask(NodeId id) const noexcept;
  /// Since when; zero when none is.
  Time restart_seen() const noexcept { return restart_seen_; }
  /// Nobody while none is known; never an assumed one.
  NodeId known_primary() const noexcept { return primary_; }
  std::uint64_t identity() const noexcept { return identity_; }
  const std::string& primary_started_at() const noexcept { return started_at_; }
  tokens::WalGeometry geometry() const noexcept { return geometry_; }
  bool round_done() const noexcept;
  /// Somebody else claims to be primary, and the known one, which answered last or is down, has not
  /// been asked since: it is to be asked now.
  bool claim_unchecked() const noexcept;

  routing::ClusterView view(Time now);
  /// What is to be logged; each text once until it changes.
  std::vector<Notice> take_notices() { return std::move(notices_); }

 private:
  void elect(Time now);
  void follow_primary(tokens::Lsn lsn, Time asked, Time now);
  NodeModel* elect_first();
  NodeModel* elect_successor(Time now);
  void note_claims(Time now);
  bool leads_older_timeline(const NodeModel& claimant) const noexcept;
  void say_waiting(bool patience_over);
  void adopt(NodeModel& node, std::string_view how);
  void track_identity(NodeModel& primary);
  bool primary_healthy() const noexcept;
  void doubt_primary(const std::string& started_at, Time asked, Time now);
  bool restart_confirmed() const noexcept;
  std::size_t followers(const NodeModel& claimant) const noexcept;
  std::uint32_t timeline_needed() const noexcept;
  std::string exclusion(const NodeModel& node) const;
  NodeModel* find(NodeId id) noexcept;
  const NodeModel* find(NodeId id) const noexcept;
  NodeId assumed_primary() const noexcept;
  void say_exclusions();
  void say(LogLevel level, std::string text) { notices_.push_back({level, std::move(text)}); }

  struct Entry {
    NodeModel node;
    Time claims_since{};  ///< When it was first seen not in recovery; zero while it is.
    Time usable_since{};  ///< Since when it may answer reads; zero while it may not.
    bool came_later = false;  ///< Others could already then, for more than kComesTogether.
    bool stray = false;   ///< Claimed to be primary beside the healthy one.
    std::string said;     ///< The exclusion that was logged last.
  };
  void note_usable(Entry& entry, bool usable, Time now) noexcept;
  bool may_succeed(const Entry& entry, Time now) const noexcept;

  std::vector<Entry> entries_;  ///< In the order of the configuration.
  NodeId primary_;
  Time primary_lost_{};  ///< Since when it is down or in recovery; zero while it is healthy.
  /// It was seen in recovery, on this timeline: what it knew as primary is no privilege any more.
  std::optional<std::uint32_t> deposed_on_;
  Time restart_seen_{};  ///< Since when it is known to have another start than started_at_; else
                         ///< zero.
  std::uint64_t identity_ = 0;
  std::string system_id_;
  std::string started_at_;
  std::uint32_t timeline_ = 0;
  tokens::Lsn lsn_;  ///< The highest insert LSN seen with this identity.
  Time captured_at_{};  ///< When a capture brought it.
  tokens::Lsn identity_lsn_;
  tokens::WalGeometry geometry_;
  bool undecided_ = false;    ///< Several claimants and no way to tell.
  std::string said_waiting_;  ///< What was logged last about claimants that can't take over.
  std::vector<Notice> notices_;
};

}  // namespace pgweir::monitor
