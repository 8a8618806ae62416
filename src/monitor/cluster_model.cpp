#include "monitor/cluster_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "monitor/queries.h"

namespace pgweir::monitor {

ClusterModel::ClusterModel(const std::vector<Member>& members) {
  for (const Member& member : members)
    entries_.push_back({.node = NodeModel(member.id, member.name),
                        .claims_since = {},
                        .stray = false,
                        .said = {}});
}

NodeModel* ClusterModel::find(NodeId id) noexcept {
  for (Entry& entry : entries_) {
    if (entry.node.id() == id) return &entry.node;
  }
  return nullptr;
}

const NodeModel* ClusterModel::find(NodeId id) const noexcept {
  for (const Entry& entry : entries_) {
    if (entry.node.id() == id) return &entry.node;
  }
  return nullptr;
}

NodeModel& ClusterModel::node(NodeId id) {
  NodeModel* found = find(id);
  ENSURE(found != nullptr);
  return *found;
}

bool ClusterModel::round_done() const noexcept {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.node.answered_ever(); });
}

void ClusterModel::observed(NodeId id, const Observation& seen, Time asked, Time now) {
  NodeModel& seen_node = node(id);
  const bool was_several = seen_node.several();
  seen_node.observed(seen, asked, now);
  if (seen_node.several() && !was_several) {
    say(LogLevel::warning,
        concat({"node ", seen_node.name(),
                ": the address answers for more than one instance, so its "
                "replay position can't be relied on; it serves only reads that need no token"}));
  }
  if (id == primary_ && seen_node.claims_primary()) doubt_primary(seen.started_at, asked, now);
  elect(now);
  if (id == primary_ && primary_healthy()) {
    track_identity(seen_node);
    follow_primary(seen.lsn, asked, now);
  }
  say_exclusions();
}

void ClusterModel::failed(NodeId id, const Error& why, Time asked, Time now) {
  NodeModel& node_failed = node(id);
  node_failed.failed(why, asked);
  elect(now);
}

void ClusterModel::captured(tokens::Lsn lsn, Time asked, Time now) {
  if (lsn > lsn_) captured_at_ = now;
  lsn_ = std::max(lsn_, lsn);
  follow_primary(lsn, asked, now);
}

void ClusterModel::follow_primary(tokens::Lsn lsn, Time asked, Time now) {
  for (Entry& entry : entries_) {
    if (entry.node.in_recovery()) entry.node.follow_primary(lsn, asked, now);
  }
}

void ClusterModel::compared(NodeId id, NodeSettings settings, Time) {
  node(id).compared(std::move(settings));
  say_exclusions();
}

void ClusterModel::server_seen(NodeId id, std::string system_id, std::string started_at, Time now) {
  if (id == primary_ && system_id == system_id_ && started_at != started_at_ &&
      restart_seen_ == Time{}) {
    restart_seen_ = now;
  }
  NodeModel& seen_node = node(id);
  const bool was_several = seen_node.several();
  seen_node.server_seen(std::move(system_id), std::move(started_at), now);
  if (was_several && !seen_node.several()) {
    say(LogLevel::log, concat({"node ", seen_node.name(),
                               ": the address answers for one instance after all; a restart was "
                               "reported late"}));
  }
}

/// What a poll says of a restart: that there was one, or that a server which claimed so is another
/// instance.
void ClusterModel::doubt_primary(const std::string& started_at, Time asked, Time now) {
  if (started_at != started_at_) {
    if (restart_seen_ == Time{}) restart_seen_ = now;
  } else if (asked >= restart_seen_) {
    restart_seen_ = {};
  }
}

bool ClusterModel::must_ask(NodeId id) const noexcept {
  if (restart_seen_ == Time{}) return false;
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const NodeModel& node = entry.node;
    if (node.id() != id || node.asked_at() >= restart_seen_) return false;
    return id == primary_ ? node.seen().started_at == started_at_ : node.up();
  });
}

bool ClusterModel::restart_confirmed() const noexcept {
  return std::none_of(entries_.begin(), entries_.end(),
                      [this](const Entry& entry) { return must_ask(entry.node.id()); });
}

bool ClusterModel::primary_healthy() const noexcept {
  const NodeModel* primary = find(primary_);
  return primary && !deposed_on_ && primary->claims_primary() &&
         primary->seen().system_id == system_id_ && restart_seen_ == Time{};
}

bool ClusterModel::claim_unchecked() const noexcept {
  const NodeModel* primary = find(primary_);
  if (!primary || deposed_on_ || (primary->up() && !primary_healthy())) return false;
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.node.claims_primary() && &entry.node != primary && !entry.stray &&
           primary->tried_at() < entry.claims_since;
  });
}

/// A stray is one whose claim the primary has outlived: it answered a question that was asked after
/// the claim was seen. Who was promoted because the primary is gone is seen before that is known.
///
///     primary:   answers              hangs, refuses      is an old primary now
///     replica:             claims                         took over
void ClusterModel::note_claims(Time now) {
  const NodeModel* primary = find(primary_);
  const bool healthy = primary_healthy();
  for (Entry& entry : entries_) {
    if (entry.node.in_recovery()) {
      entry.claims_since = {};
      entry.stray = false;
    }
    if (!entry.node.claims_primary()) continue;
    if (entry.claims_since == Time{}) entry.claims_since = now;
    if (healthy) entry.stray = &entry.node != primary && primary->asked_at() >= entry.claims_since;
  }
}

void ClusterModel::elect(Time now) {
  if (const NodeModel* known = find(primary_); known && known->in_recovery())
    deposed_on_ = known->seen().timeline;
  note_claims(now);
  if (!primary_) {
    if (NodeModel* first = elect_first()) adopt(*first, "is the primary");
    return;
  }
  if (primary_healthy()) {
    primary_lost_ = {};
    said_waiting_.clear();
    return;
  }
  if (primary_lost_ == Time{}) primary_lost_ = now;
  if (NodeModel* successor = elect_successor(now)) {
    const bool of_new_cluster = successor->seen().system_id != system_id_;
    adopt(*successor, of_new_cluster ? "is the primary of a new cluster"
                                     : "was promoted and is the primary now");
    return;
  }
  NodeModel& restarted = node(primary_);
  if (restart_seen_ != Time{} && !deposed_on_ && restarted.claims_primary() &&
      restart_confirmed() && restarted.seen().system_id == system_id_) {
    restart_seen_ = primary_lost_ = {};
    return track_identity(restarted);
  }
  say_waiting(now - primary_lost_ >= kStrayPatience);
}

NodeModel* ClusterModel::elect_first() {
  if (!round_done()) return nullptr;
  std::vector<NodeModel*> claimants;
  for (Entry& entry : entries_) {
    if (entry.node.claims_primary()) claimants.push_back(&entry.node);
  }
  if (claimants.size() == 1) return claimants.front();
  std::vector<NodeModel*> followed;
  for (NodeModel* claimant : claimants) {
    if (followers(*claimant) > 0) followed.push_back(claimant);
  }
  if (followed.size() == 1) return followed.front();
  const bool undecided = !claimants.empty();
  if (undecided && !undecided_) {
    std::string names;
    for (const NodeModel* claimant : claimants)
      names += (names.empty() ? "" : ", ") + claimant->name();
    say(LogLevel::error, concat({"several nodes say that they are the primary (", names,
                                 ") and the replicas don't tell which: "
                                 "nothing is written until only one does"}));
  }
  undecided_ = undecided;
  return nullptr;
}

NodeModel* ClusterModel::elect_successor(Time now) {
  NodeModel* best = nullptr;
  bool tie = false;
  const auto rank = [this](const NodeModel& claimant) {
    return std::pair(followers(claimant) > 0, claimant.seen().timeline);
  };
  for (Entry& entry : entries_) {
    if (!may_succeed(entry, now)) continue;
    if (best && rank(entry.node) < rank(*best)) continue;
    tie = best && rank(entry.node) == rank(*best);
    best = &entry.node;
  }
  return tie ? nullptr : best;
}

bool ClusterModel::may_succeed(const Entry& entry, Time now) const noexcept {
  const NodeModel& claimant = entry.node;
  if (!claimant.claims_primary()) return false;
  const bool patience_over = now - primary_lost_ >= kStrayPatience;
  const NodeModel* known = find(primary_);
  const bool made_anew = known && known->up() && known->seen().system_id != system_id_;
  if (made_anew && claimant.seen().system_id == known->seen().system_id)
    return patience_over && (&claimant == known || known->in_recovery());
  if (claimant.seen().system_id != system_id_) return false;
  if (&claimant == known && !deposed_on_) return false;  // Not its own successor.
  const bool chance_over = deposed_on_ || known->up() || known->tried_at() >= entry.claims_since ||
                           now - entry.claims_since >= kSecondChance;
  if (!chance_over) return false;
  if (claimant.seen().timeline < timeline_needed())
    return patience_over && leads_older_timeline(claimant);
  return !entry.stray || patience_over || followers(claimant) > 0;
}

/// What a claimant must not be behind of: the timeline that the primary wrote, or the older one it
/// was rebuilt on since.
std::uint32_t ClusterModel::timeline_needed() const noexcept {
  return std::min(timeline_, deposed_on_.value_or(timeline_));
}

/// The known primary's timeline was a mistake, as far as the replicas can tell: one streams what
/// this claimant writes, asked since the primary is away, and none was seen on the primary's
/// timeline, whose primary may be one that only we can't reach.
bool ClusterModel::leads_older_timeline(const NodeModel& claimant) const noexcept {
  bool followed = false;
  for (const Entry& entry : entries_) {
    const Observation& seen = entry.node.seen();
    if (!entry.node.in_recovery() || seen.system_id != system_id_) continue;
    if (seen.timeline >= timeline_needed()) return false;
    if (entry.node.streams() && entry.node.asked_at() >= primary_lost_ &&
        seen.timeline == claimant.seen().timeline)
      followed = true;
  }
  return followed;
}

/// Claimants are there and none may take over: only a person can tell what is right.
void ClusterModel::say_waiting(bool patience_over) {
  if (!patience_over) return;
  std::string claimants;
  for (const Entry& entry : entries_) {
    if (!entry.node.claims_primary() || entry.node.seen().system_id != system_id_) continue;
    claimants += concat({claimants.empty() ? "" : ", ", entry.node.name(), " (timeline ",
                         std::to_string(entry.node.seen().timeline), ")"});
  }
  if (claimants == said_waiting_) return;
  said_waiting_ = claimants;
  if (claimants.empty()) return;
  say(LogLevel::error,
      concat({"nothing is written: ", find(primary_)->name(), ", the primary on timeline ",
              std::to_string(timeline_), ", is gone, and it can't be told that ", claimants,
              " may take over; it would if replicas were seen to follow it, or if ",
              find(primary_)->name(), " were taken out of the configuration"}));
}

std::size_t ClusterModel::followers(const NodeModel& claimant) const noexcept {
  std::size_t count = 0;
  for (const Entry& entry : entries_) {
    const bool follows = entry.node.in_recovery() &&
                         entry.node.seen().system_id == claimant.seen().system_id &&
                         entry.node.seen().timeline == claimant.seen().timeline;
    if (follows) ++count;
  }
  return count;
}

void ClusterModel::adopt(NodeModel& chosen, std::string_view how) {
  say(LogLevel::log, concat({"node ", chosen.name(), " ", how, " (timeline ",
                             std::to_string(chosen.seen().timeline), ")"}));
  primary_ = chosen.id();
  primary_lost_ = restart_seen_ = {};
  deposed_on_.reset();
  said_waiting_.clear();
  undecided_ = false;
  system_id_ = chosen.seen().system_id;
  started_at_.clear();  // So that the identity is a new one.
  for (Entry& entry : entries_) entry.stray = false;
  track_identity(chosen);
}

void ClusterModel::track_identity(NodeModel& primary) {
  const Observation& seen = primary.seen();
  const bool same =
      seen.started_at == started_at_ && seen.timeline == timeline_ && seen.system_id == system_id_;
  // The page-boundary rule takes an LSN back by a header at most; beyond that the WAL was cut off.
  constexpr std::uint64_t kHeaderBytesMax = 40;
  // A poll that was asked before a capture had answered may come in behind it, and tells of an earlier moment.
  const bool overtaken = primary.asked_at() <= captured_at_;
  const bool fell_back = !overtaken && seen.lsn.value + kHeaderBytesMax < lsn_.value;
  if (same && !fell_back) {
    lsn_ = std::max(lsn_, seen.lsn);
    return;
  }
  if (identity_ != 0 && !started_at_.empty()) {
    say(LogLevel::warning,
        concat({"node ", primary.name(),
                " was restarted: commits of its asynchronous transactions may be lost; "
                "tokens are taken back to ",
                tokens::to_string(seen.lsn)}));
  }
  ++identity_;
  started_at_ = seen.started_at;
  timeline_ = seen.timeline;
  system_id_ = seen.system_id;
  geometry_ = seen.geometry;
  lsn_ = identity_lsn_ = seen.lsn;
  captured_at_ = {};
  for (Entry& entry : entries_) entry.node.forget_lag();
}

std::string ClusterModel::exclusion(const NodeModel& node) const {
  if (!primary_ || node.id() == primary_ || !node.up()) return {};
  const NodeModel* primary = find(primary_);
  const Observation& seen = node.seen();
  if (seen.system_id != system_id_) {
    return concat({"it belongs to another cluster: system identifier ", seen.system_id,
                   ", on the primary ", system_id_});
  }
  if (!seen.in_recovery)
    return concat({"it says that it is a primary (timeline ", std::to_string(seen.timeline),
                   "), but ", primary->name(), " is"});
  if (seen.timeline != timeline_) {
    std::string text = concat({"it is on timeline ", std::to_string(seen.timeline),
                               ", the primary on ", std::to_string(timeline_)});
    if (!seen.timeline_certain) {
      text += ", as far as this login may see: ";
      text += kGrantHelp;
      text += "the monitor's role tells at once";
    }
    return text;
  }
  if (!node.settings() || !primary->settings())
    return "its settings are not compared with the primary's yet";
  return difference(*node.settings(), *primary->settings());
}

void ClusterModel::say_exclusions() {
  if (!primary_healthy()) return;
  for (Entry& entry : entries_) {
    std::string why = exclusion(entry.node);
    const bool transient = why.empty() || !entry.node.settings();
    if (transient && !entry.node.claims_primary()) why.clear();
    if (why == entry.said) continue;
    if (!why.empty()) {
      const LogLevel level = entry.node.claims_primary() ? LogLevel::error : LogLevel::warning;
      say(level, concat({"node ", entry.node.name(), " is not used: ", why}));
    } else if (entry.node.id() != primary_ && entry.node.in_recovery() && entry.node.settings()) {
      say(LogLevel::log, concat({"node ", entry.node.name(), " is used again"}));
    } else {
      continue;  // Not judged yet: say nothing until it is.
    }
    entry.said = std::move(why);
  }
}

NodeId ClusterModel::assumed_primary() const noexcept {
  if (undecided_ || !round_done()) return {};
  for (const Entry& entry : entries_) {
    if (!entry.node.in_recovery()) return entry.node.id();
  }
  return {};
}

/// A replica that comes back, or is new, has cold caches, and perhaps reasons for having been away. Where nobody else answers reads it
/// gets them all whatever its share.
void ClusterModel::note_usable(Entry& entry, bool usable, Time now) noexcept {
  if (usable == (entry.usable_since != Time{})) return;
  entry.usable_since = usable ? now : Time{};
  entry.came_later = usable && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& other) {
    return &other != &entry && other.usable_since != Time{} && now - other.usable_since > kComesTogether;
  });
}

routing::ClusterView ClusterModel::view(Time now) {
  routing::ClusterView view;
  view.identity = identity_;
  view.identity_lsn = identity_lsn_;
  view.timeline = timeline_;
  view.system_id = system_id_;
  view.geometry = geometry_;
  view.primary = primary_ ? primary_ : assumed_primary();
  if (deposed_on_ || restart_seen_ != Time{}) view.primary = {};
  if (view.primary) view.server_version = node(view.primary).server_version();
  for (Entry& entry : entries_) {
    routing::NodeView node = entry.node.view(now);
    node.excluded = exclusion(entry.node);
    if (entry.node.answered_ever()) {
      node.role = !entry.node.up()                      ? routing::Role::down
                  : entry.node.in_recovery()            ? routing::Role::replica
                  : node.id == primary_ && !deposed_on_ ? routing::Role::primary
                                                        : routing::Role::unknown;
    }
    if (node.id == primary_) node.replayed = lsn_;
    node.eligible = primary_ && node.role == routing::Role::replica && node.id != primary_ &&
                    node.excluded.empty();
    note_usable(entry, node.eligible, now);
    if (entry.came_later) node.usable_since = entry.usable_since;
    view.nodes.push_back(std::move(node));
  }
  return view;
}

}  // namespace pgweir::monitor
