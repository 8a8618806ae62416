#include "routing/decide.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "base/text.h"

namespace pgweir::routing {

std::string wait_for_query(tokens::Lsn lsn, Duration time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return concat({"WAIT FOR LSN '", tokens::to_string(lsn), "' WITH (TIMEOUT '", std::to_string(std::max<std::int64_t>(milliseconds, 1)),
                 "ms', NO_THROW)"});
}

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

constexpr std::uint64_t kAnyLagBytes = std::numeric_limits<std::uint64_t>::max();

/// What a replica must have replayed, by one level.
struct Demand {
  tokens::Need session{};
  tokens::Lsn seen{};
  tokens::Lsn seen_elsewhere{};
  NodeId seen_on{};
  tokens::Need tables{};
  NodeId only_replica{};
  Duration max_lag{};  ///< Zero: any.
  std::uint64_t max_lag_bytes = kAnyLagBytes;
  Duration since_table_write = Duration::max();
  config::TableWindow window;
};

/// The tables that one level judges.
struct Judged {
  ConsistencyLevel level{};
  tokens::Need tables;
  Duration since_table_write = Duration::max();
};

Demand demand_of(const UnitFacts& unit, const Policy& policy, const Judged& judged) noexcept {
  if (unit.hint == sql::Hint::replica)
    return {};  // It overrides lag and consistency, and nothing else.
  Demand demand{.max_lag = policy.max_replica_lag, .max_lag_bytes = policy.max_replica_lag_bytes, .window = policy.table_window};
  switch (judged.level) {
    case ConsistencyLevel::eventual:
    case ConsistencyLevel::primary:
      break;
    case ConsistencyLevel::pin:  // reason_of_unit() has asked for its own writes to be old.
      break;
    case ConsistencyLevel::window:
      demand.since_table_write = judged.since_table_write;
      break;
    case ConsistencyLevel::session:
      demand.session = unit.session;
      demand.seen = unit.seen;
      demand.seen_elsewhere = unit.seen_elsewhere;
      demand.seen_on = unit.seen_on;
      demand.only_replica = unit.only_replica;
      break;
    case ConsistencyLevel::latest:  // Whatever anybody has written or seen was there when it came.
      demand.tables = judged.tables;
      break;
    case ConsistencyLevel::table:
      demand.session = unit.session;
      demand.seen = unit.seen;
      demand.seen_elsewhere = unit.seen_elsewhere;
      demand.seen_on = unit.seen_on;
      demand.tables = judged.tables;
      demand.only_replica = unit.only_replica;
      break;
  }
  return demand;
}

Demand demand_of(const UnitFacts& unit, const Policy& policy) noexcept {
  return demand_of(unit, policy, {policy.level, unit.tables, unit.since_table_write});
}

Demand demand_of(const UnitFacts& unit, const Policy& policy, const RuledTables& ruled) noexcept {
  Demand demand = demand_of(unit, policy, {ruled.level, ruled.tables, ruled.since_table_write});
  if (unit.hint == sql::Hint::replica) return demand;
  using Kind = config::TableRule::Kind;
  if (ruled.rule->kind == Kind::window) demand.window = ruled.rule->window;
  if (ruled.rule->kind == Kind::lag_time) demand.max_lag = ruled.rule->lag;
  if (ruled.rule->kind == Kind::lag_bytes) demand.max_lag_bytes = static_cast<std::uint64_t>(ruled.rule->lag_bytes);
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
  if (unit.unknown_tables) return Reason::unparsed;
  if (unit.hint == sql::Hint::primary) return Reason::hint;
  if (unit.serializable) return Reason::serializable;
  if (unit.learned) return Reason::learned;
  if (unit.oversize) return Reason::oversize;
  if (unit.flushed) return Reason::flush;
  const bool wrote_lately = unit.since_own_write < policy.pin_window;
  for (const RuledTables& ruled : unit.ruled) {
    if (ruled.level == ConsistencyLevel::primary) return Reason::table_rule;  // A hint does not overrule the operator.
  }
  if (unit.hint == sql::Hint::replica) return std::nullopt;
  for (const RuledTables& ruled : unit.ruled) {
    if (ruled.level == ConsistencyLevel::pin && wrote_lately) return Reason::table_rule;
  }
  if (!unit.level_applies) return std::nullopt;
  if (policy.level == ConsistencyLevel::primary) return Reason::level_primary;
  if (policy.level == ConsistencyLevel::pin && wrote_lately) return Reason::recent_write;
  return std::nullopt;
}

bool fit(const NodeView& node) noexcept {
  return node.role == Role::replica && node.eligible;
}

bool has_replayed(const NodeView& node, const tokens::Need& need) noexcept {
  return need.pending == 0 && node.replayed >= need.lsn;
}

/// Longer than anybody waits for a replica.
constexpr double kLongestWait_s = 3600.0;
/// A replica that is not expected to be far enough by then is not asked together with a read.
constexpr Duration kWorthAsking = std::chrono::milliseconds{2};
/// The first major version that knows WAIT FOR LSN.
constexpr int kKnowsWaitFor = 19;

bool asks_replicas(const Policy& policy) noexcept { return policy.lsn_check != config::LsnCheck::cached; }

/// How long a replica itself waits with a read until it is far enough.
Duration wait_there(const Policy& policy, const ClusterView& cluster) noexcept {
  return policy.lsn_check == config::LsnCheck::wait && cluster.server_version >= kKnowsWaitFor ? policy.replica_wait : Duration{};
}

/// By the last polls of both; a primary that is not known is not known to be ahead.
std::uint64_t bytes_behind(const NodeView& node, const ClusterView& cluster) noexcept {
  const NodeView* primary = cluster.find(cluster.primary);
  return primary && primary->replayed > node.replayed ? primary->replayed.value - node.replayed.value : 0;
}

/// Where a replica falls out, furthest first: the one that gets furthest names the reason.
enum class Stage : std::uint8_t { unfit, session_behind, tables_behind, lagging, allowed };

/// How long a write may stay unseen on the node.
bool within_window(const NodeView& node, const Demand& demand) noexcept {
  if (demand.since_table_write == Duration::max()) return false;
  if (!demand.window.measured) return demand.since_table_write < demand.window.time;
  return !node.lag_known || demand.since_table_write < std::max(node.lag, node.lag_p999);
}

Stage stage_of(const NodeView& node, const Demand& demand, const ClusterView& cluster) noexcept {
  if (!fit(node)) return Stage::unfit;
  // Behind such an address the next connection may reach another instance, whose LSN nobody asked.
  if (node.several && (demand.only_replica || demand.seen.value != 0 || !demand.session.nothing())) return Stage::session_behind;
  if (demand.only_replica && demand.only_replica != node.id) return Stage::session_behind;
  if (node.replayed < (demand.seen_on == node.id ? demand.seen_elsewhere : demand.seen)) return Stage::session_behind;
  if (!has_replayed(node, demand.session)) return Stage::session_behind;
  if (node.several && !demand.tables.nothing()) return Stage::tables_behind;
  if (!has_replayed(node, demand.tables)) return Stage::tables_behind;
  if (within_window(node, demand)) return Stage::tables_behind;
  if (demand.max_lag > Duration::zero() && (!node.lag_known || node.lag > demand.max_lag))
    return Stage::lagging;
  if (demand.max_lag_bytes != kAnyLagBytes && bytes_behind(node, cluster) > demand.max_lag_bytes) return Stage::lagging;
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

/// How far one replica gets, and what stops it there.
struct Verdict {
  Stage stage = Stage::allowed;
  bool by_rule = false;
  bool by_window = false;
  Duration wait{};  ///< until it is expected to be there
};

/// All that judge the unit's tables have to allow the node; `in_force` is what the level in force asks for.
Verdict verdict_of(const NodeView& node, const Demand& in_force, const UnitFacts& unit, const Policy& policy, const ClusterView& cluster) noexcept {
  Verdict verdict;
  if (policy.weight_of(node.id) == 0) return {.stage = Stage::unfit};
  const auto take = [&](const Demand& demand, bool by_rule) {
    const Stage stage = stage_of(node, demand, cluster);
    if (stage == Stage::session_behind || stage == Stage::tables_behind) verdict.wait = std::max(verdict.wait, expected_wait(node, demand, unit.now));
    if (stage < verdict.stage) verdict = {stage, by_rule, stage == Stage::tables_behind && within_window(node, demand), verdict.wait};
  };
  if (unit.level_applies) take(in_force, false);
  for (const RuledTables& ruled : unit.ruled) take(demand_of(unit, policy, ruled), true);
  return verdict;
}

/// What the node would have to confirm for one demand; nullopt: it may not answer whatever it says.
std::optional<tokens::Lsn> worth_asking(const NodeView& node, const Demand& demand, const Policy& policy, const ClusterView& cluster, Time now) noexcept {
  if (demand.only_replica && (node.several || demand.only_replica != node.id)) return std::nullopt;
  if (demand.session.pending != 0 || demand.tables.pending != 0) return std::nullopt;
  if (within_window(node, demand)) return std::nullopt;
  if (demand.max_lag > Duration::zero() && (!node.lag_known || node.lag > demand.max_lag))
    return std::nullopt;
  if (demand.max_lag_bytes != kAnyLagBytes && bytes_behind(node, cluster) > demand.max_lag_bytes) return std::nullopt;
  if (expected_wait(node, demand, now) > std::max(kWorthAsking, wait_there(policy, cluster))) return std::nullopt;
  return wanted_of(node, demand);
}

/// What the node itself would have to confirm so that it may answer, its cached position being too
/// old or worth nothing; nullopt: it may not whatever it says. Of an answer that is thrown away
/// nobody learns that it was a refusal, so what may be one waits.
std::optional<tokens::Lsn> worth_asking(const NodeView& node, const UnitFacts& unit, const Demand& in_force, const Policy& policy,
                                        const ClusterView& cluster) noexcept {
  if (!unit.certain && !unit.proven) return std::nullopt;
  if (!asks_replicas(policy) || !fit(node) || policy.weight_of(node.id) == 0) return std::nullopt;
  tokens::Lsn all{};
  const auto take = [&](const Demand& demand) {
    const std::optional<tokens::Lsn> one = worth_asking(node, demand, policy, cluster, unit.now);
    if (one) all = std::max(all, *one);
    return one.has_value();
  };
  if (unit.level_applies && !take(in_force)) return std::nullopt;
  for (const RuledTables& ruled : unit.ruled) {
    if (!take(demand_of(unit, policy, ruled))) return std::nullopt;
  }
  return all;
}

Reason reason_of(const Verdict& furthest, ConsistencyLevel level) noexcept {
  if (furthest.by_rule && furthest.stage != Stage::unfit) return Reason::table_rule;
  switch (furthest.stage) {
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

/// Something that it has to see is not in any capture yet.
bool waits_for_capture(const UnitFacts& unit, const Policy& policy, const Demand& in_force) noexcept {
  const auto waits = [](const Demand& demand) { return demand.session.pending != 0 || demand.tables.pending != 0; };
  return (unit.level_applies && waits(in_force)) ||
         std::any_of(unit.ruled.begin(), unit.ruled.end(), [&](const RuledTables& ruled) { return waits(demand_of(unit, policy, ruled)); });
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
  Verdict furthest{.stage = Stage::unfit};
  std::array<Candidate, kReplicasMax> candidates;
  std::array<Candidate, kReplicasMax> to_ask;
  std::size_t count = 0;
  std::size_t to_ask_count = 0;
  tokens::Lsn check;
  bool may_wait = false;
  for (const NodeView& node : cluster.nodes) {
    if (load.failing(node.id) || node.id == unit.avoid) continue;
    const Verdict verdict = verdict_of(node, demand, unit, policy, cluster);
    const Stage stage = verdict.stage;
    if (stage > furthest.stage) furthest = verdict;
    // One that is known to be further behind than a read would wait is not waited for.
    const bool by_position = stage == Stage::session_behind || (stage == Stage::tables_behind && !verdict.by_window);
    const bool position_counts = !node.several || asks_replicas(policy);
    may_wait = may_wait || (by_position && policy.replica_wait > Duration::zero() && position_counts && node.lag <= policy.replica_wait &&
                            verdict.wait <= policy.replica_wait);
    const Candidate candidate{node.id, load.outstanding(node.id),
                              share_of(policy.weight_of(node.id), node.usable_since, policy.replica_slow_start, unit.now)};
    if (stage == Stage::allowed) {
      if (count < kReplicasMax) candidates[count++] = candidate;
    } else if (by_position && to_ask_count < kReplicasMax) {
      if (const std::optional<tokens::Lsn> lsn = worth_asking(node, unit, demand, policy, cluster)) {
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
    const bool somebody_could = furthest.stage != Stage::unfit;
    const bool pending = waits_for_capture(unit, policy, demand);
    Route route = to_primary(reason_of(furthest, policy.level), somebody_could && pending);
    route.may_wait = may_wait;
    return route;
  }

  order(std::span(candidates.data(), count), unit.last_replica);
  Route route;
  route.target = sql::Target::replica;
  route.reason = Reason::read;
  route.check = check;
  if (check.value != 0) route.wait_there = wait_there(policy, cluster);
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
  if (verdict_of(*view, demand, unit, policy, cluster).stage == Stage::allowed) return true;
  const std::optional<tokens::Lsn> asked = worth_asking(*view, unit, demand, policy, cluster);
  return asked && check.value != 0 && *asked <= check;
}

}  // namespace pgweir::routing
