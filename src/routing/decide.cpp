#include "routing/decide.h"

#include <algorithm>
#include <optional>

namespace pgweir::routing {

std::string_view to_string(Role role) noexcept {
  switch (role) {
    case Role::unknown:
      return "unknown";
    case Role::primary:
      return "primary";
    case Role::replica:
      return "replica";
    case Role::down:
      return "down";
  }
  return "unknown";
}

namespace {

using config::ConsistencyLevel;

/// What a replica must have replayed, by the level in force.
struct Demand {
  tokens::Need session{};
  tokens::Lsn seen{};
  tokens::Lsn seen_elsewhere{};
  NodeId seen_on{};
  tokens::Need tables{};
  NodeId only_replica{};
  Duration max_lag{};  ///< Zero: any.
  Duration since_table_write = Duration::max();
};

Demand demand_of(const UnitFacts& unit, const Policy& policy) noexcept {
  if (unit.hint == sql::Hint::replica)
    return {};  // It overrides lag and consistency, and nothing else.
  Demand demand{.max_lag = policy.max_replica_lag};
  switch (policy.level) {
    case ConsistencyLevel::eventual:
    case ConsistencyLevel::primary:
      break;
    case ConsistencyLevel::pin:  // reason_of_unit() has asked for its own writes to be old.
      break;
    case ConsistencyLevel::window:
      demand.since_table_write = unit.since_table_write;
      break;
    case ConsistencyLevel::session:
      demand.session = unit.session;
      demand.seen = unit.seen;
      demand.seen_elsewhere = unit.seen_elsewhere;
      demand.seen_on = unit.seen_on;
      demand.only_replica = unit.only_replica;
      break;
    case ConsistencyLevel::latest:  // Whatever anybody has written or seen was there when it came.
      demand.tables = unit.tables;
      break;
    case ConsistencyLevel::table:
      demand.session = unit.session;
      demand.seen = unit.seen;
      demand.seen_elsewhere = unit.seen_elsewhere;
      demand.seen_on = unit.seen_on;
      demand.tables = unit.tables;
      demand.only_replica = unit.only_replica;
      break;
  }
  return demand;
}

/// What of the unit itself, or its session, keeps it on the primary. In the order in which people
/// are told.
std::optional<Reason> reason_of_unit(const UnitFacts& unit, const Policy& policy) noexcept {
  if (!policy.split) return Reason::not_split;
  if (unit.healed) return Reason::healed;
  if (unit.behind) return Reason::token_ahead;
  if (unit.pinned) return Reason::pinned;
  if (unit.in_transaction) return Reason::in_transaction;
  if (unit.cause != sql::Cause::none) return reason_of(unit.cause);
  // Rows of the first statement may be out when the second is refused, so nothing could be healed.
  if (unit.statements > 1 && !unit.certain) return Reason::unparsed;
  if (unit.hint == sql::Hint::primary) return Reason::hint;
  if (unit.serializable) return Reason::serializable;
  if (unit.learned) return Reason::learned;
  if (unit.oversize) return Reason::oversize;
  if (unit.flushed) return Reason::flush;
  if (unit.hint == sql::Hint::replica) return std::nullopt;
  if (policy.level == ConsistencyLevel::primary) return Reason::level_primary;
  if (policy.level == ConsistencyLevel::pin && unit.since_own_write < policy.pin_window) return Reason::recent_write;
  return std::nullopt;
}

bool fit(const NodeView& node) noexcept {
  return node.role == Role::replica && node.eligible && node.weight > 0;
}

bool has_replayed(const NodeView& node, const tokens::Need& need) noexcept {
  return need.pending == 0 && node.replayed >= need.lsn;
}

/// Longer than anybody waits for a replica.
constexpr double kLongestWait_s = 3600.0;
/// A replica that is not expected to be far enough by then is not asked together with a read.
constexpr Duration kWorthAsking = std::chrono::milliseconds{2};

/// Where a replica falls out, furthest first: the one that gets furthest names the reason.
enum class Stage : std::uint8_t { unfit, session_behind, tables_behind, lagging, allowed };

/// How long a write may stay unseen on the node.
bool within_window(const NodeView& node, const Demand& demand, const Policy& policy) noexcept {
  if (demand.since_table_write == Duration::max()) return false;
  if (!policy.table_window.measured) return demand.since_table_write < policy.table_window.time;
  return !node.lag_known || demand.since_table_write < std::max(node.lag, node.lag_p999);
}

Stage stage_of(const NodeView& node, const Demand& demand, const Policy& policy) noexcept {
  if (!fit(node)) return Stage::unfit;
  // Behind such an address the next connection may reach another instance, whose LSN nobody asked.
  if (node.several && (demand.only_replica || demand.seen.value != 0 || !demand.session.nothing())) return Stage::session_behind;
  if (demand.only_replica && demand.only_replica != node.id) return Stage::session_behind;
  if (node.replayed < (demand.seen_on == node.id ? demand.seen_elsewhere : demand.seen)) return Stage::session_behind;
  if (!has_replayed(node, demand.session)) return Stage::session_behind;
  if (node.several && !demand.tables.nothing()) return Stage::tables_behind;
  if (!has_replayed(node, demand.tables)) return Stage::tables_behind;
  if (within_window(node, demand, policy)) return Stage::tables_behind;
  if (demand.max_lag > Duration::zero() && (!node.lag_known || node.lag > demand.max_lag))
    return Stage::lagging;
  return Stage::allowed;
}

/// What it must have replayed, as far as that is known.
tokens::Lsn wanted_of(const NodeView& node, const Demand& demand) noexcept {
  const bool seen_there = !node.several && demand.seen_on == node.id;
  return std::max({demand.session.lsn, demand.tables.lsn,
                   seen_there ? demand.seen_elsewhere : demand.seen});
}

/// How long it will take to get there, at the rate at which it has replayed lately. It has gone on
/// since it was asked.
Duration expected_wait(const NodeView& node, const Demand& demand, Time now) noexcept {
  const tokens::Lsn wanted = wanted_of(node, demand);
  if (node.several || node.replay_bytes_per_s <= 0.0 || node.replayed >= wanted) return {};
  const double seconds =
      static_cast<double>(wanted.value - node.replayed.value) / node.replay_bytes_per_s;
  const auto needed = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kLongestWait_s)));
  const Duration passed = now > node.observed_at ? now - node.observed_at : Duration{};
  return std::max(Duration{}, needed - passed);
}

/// What the node itself would have to confirm so that it may answer, its cached position being too
/// old or worth nothing; nullopt: it may not whatever it says. Of an answer that is thrown away
/// nobody learns that it was a refusal, so what may be one waits.
std::optional<tokens::Lsn> worth_asking(const NodeView& node, const UnitFacts& unit,
                                        const Demand& demand, const Policy& policy) noexcept {
  if (!unit.certain && !unit.proven) return std::nullopt;
  if (policy.lsn_check != config::LsnCheck::inline_ || !fit(node)) return std::nullopt;
  if (demand.only_replica && (node.several || demand.only_replica != node.id)) return std::nullopt;
  if (demand.session.pending != 0 || demand.tables.pending != 0) return std::nullopt;
  if (within_window(node, demand, policy)) return std::nullopt;
  if (demand.max_lag > Duration::zero() && (!node.lag_known || node.lag > demand.max_lag))
    return std::nullopt;
  if (expected_wait(node, demand, unit.now) > kWorthAsking) return std::nullopt;
  return wanted_of(node, demand);
}

Reason reason_of(Stage furthest, ConsistencyLevel level) noexcept {
  switch (furthest) {
    case Stage::unfit:
      return Reason::no_replica;
    case Stage::session_behind:
      return Reason::token_ahead;
    case Stage::tables_behind:
      return level == ConsistencyLevel::latest ? Reason::latest_wait : Reason::table_written;
    case Stage::lagging:
      return Reason::lag;
    case Stage::allowed:
      return Reason::read;
  }
  return Reason::no_replica;
}

struct Candidate {
  NodeId id;
  std::uint32_t outstanding = 0;
  std::uint32_t weight = 1;
};

/// Fewer outstanding units for its weight first, then where the session read last, then as
/// configured.
bool before(const Candidate& a, const Candidate& b, NodeId last_replica) noexcept {
  const std::uint64_t load_a = std::uint64_t{a.outstanding} * b.weight;
  const std::uint64_t load_b = std::uint64_t{b.outstanding} * a.weight;
  if (load_a != load_b) return load_a < load_b;
  return a.id == last_replica && b.id != last_replica;
}

Route to_primary(Reason reason, bool wants_capture = false) noexcept {
  Route route;
  route.reason = reason;
  route.wants_capture = wants_capture;
  return route;
}

}  // namespace

Route decide(const UnitFacts& unit, const ClusterView& cluster, const Policy& policy,
             const Load& load) noexcept {
  if (const std::optional<Reason> reason = reason_of_unit(unit, policy)) return to_primary(*reason);

  const Demand demand = demand_of(unit, policy);
  Stage furthest = Stage::unfit;
  std::array<Candidate, kReplicasMax> candidates;
  std::array<Candidate, kReplicasMax> to_ask;
  std::size_t count = 0;
  std::size_t to_ask_count = 0;
  tokens::Lsn check;
  bool may_wait = false;
  for (const NodeView& node : cluster.nodes) {
    if (load.failing(node.id) || node.id == unit.avoid) continue;
    const Stage stage = stage_of(node, demand, policy);
    furthest = std::max(furthest, stage);
    // One that is known to be further behind than a read would wait is not waited for.
    const bool by_position = stage == Stage::session_behind || (stage == Stage::tables_behind && !within_window(node, demand, policy));
    const bool position_counts = !node.several || policy.lsn_check == config::LsnCheck::inline_;
    may_wait = may_wait || (by_position && policy.replica_wait > Duration::zero() && position_counts && node.lag <= policy.replica_wait &&
                            expected_wait(node, demand, unit.now) <= policy.replica_wait);
    const Candidate candidate{node.id, load.outstanding(node.id), static_cast<std::uint32_t>(node.weight)};
    if (stage == Stage::allowed) {
      if (count < kReplicasMax) candidates[count++] = candidate;
    } else if (by_position && to_ask_count < kReplicasMax) {
      if (const std::optional<tokens::Lsn> lsn = worth_asking(node, unit, demand, policy)) {
        check = std::max(check, *lsn);
        to_ask[to_ask_count++] = candidate;
      }
    }
  }
  if (count > 0) check = {};
  if (count == 0 && to_ask_count > 0) {
    candidates = to_ask;
    count = to_ask_count;
  }
  if (count == 0) {
    const bool somebody_could = furthest != Stage::unfit;
    const bool pending = demand.session.pending != 0 || demand.tables.pending != 0;
    Route route = to_primary(reason_of(furthest, policy.level), somebody_could && pending);
    route.may_wait = may_wait;
    return route;
  }

  // Insertion sort: a handful of entries, stable, and no allocation.
  for (std::size_t i = 1; i < count; ++i) {
    for (std::size_t at = i;
         at > 0 && before(candidates[at], candidates[at - 1], unit.last_replica); --at) {
      std::swap(candidates[at], candidates[at - 1]);
    }
  }
  Route route;
  route.target = sql::Target::replica;
  route.reason = Reason::read;
  route.check = check;
  route.replica_count = static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) route.replicas[i] = candidates[i].id;
  return route;
}

bool still_allowed(NodeId node, const UnitFacts& unit, const ClusterView& cluster,
                   const Policy& policy, tokens::Lsn check) noexcept {
  if (reason_of_unit(unit, policy)) return false;
  const NodeView* view = cluster.find(node);
  if (view == nullptr) return false;
  const Demand demand = demand_of(unit, policy);
  if (stage_of(*view, demand, policy) == Stage::allowed) return true;
  const std::optional<tokens::Lsn> asked = worth_asking(*view, unit, demand, policy);
  return asked && check.value != 0 && *asked <= check;
}

}  // namespace pgweir::routing
