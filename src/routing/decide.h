// decide(): where a unit goes. One pure function, the rules in the order in which people are told
// them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "config/settings.h"
#include "routing/cluster_view.h"
#include "routing/reason.h"
#include "routing/replica_choice.h"
#include "routing/table_rules.h"
#include "sql/statement_class.h"
#include "tokens/commit_log.h"

namespace pgweir::routing {

inline constexpr std::size_t kReplicasMax = 16;  ///< of one cluster; the configuration refuses more

/// What the session adds to the class of its statements.
struct UnitFacts {
  // The statements of the unit, joined: the strictest cause of all, whether all are certain, how
  // many.
  sql::Cause cause = sql::Cause::unparsed;
  sql::Hint hint = sql::Hint::none;
  bool certain = false;
  bool unknown_tables = false;  ///< It reads relations, and no catalog has told yet what these are: a view may call anything.
  bool proven = false;  ///< What is not certain has been run by a standby before.
  std::uint32_t statements = 1;
  bool learned =
      false;  ///< A standby refused a statement of this shape before, and the primary ran it.
  bool healed = false;  ///< A standby refused it just now: it runs again on the primary.
  bool behind = false;  ///< A replica that was asked together with it was not far enough: so does it.
  // The session.
  bool pinned = false;
  bool in_transaction = false;
  bool serializable = false;  ///< default_transaction_isolation of the session is serializable
  bool flushed =
      false;  ///< a Flush came before the Sync and the unit does more than parse and describe
  bool oversize = false;
  NodeId last_replica;  ///< preferred on a tie
  /// When set, only this replica or the primary: it is where the session read last and no token
  /// tells yet what it saw.
  NodeId only_replica;
  /// This replica failed the unit a moment ago.
  NodeId avoid;
  Time now{};
  // What must have been replayed.
  tokens::Need session;  ///< the session's token
  /// What earlier reads have shown, on replicas. The one that was read last shows it again whatever it is asked about its position.
  tokens::Lsn seen{};
  tokens::Lsn seen_elsewhere{};  ///< what others than that one have shown
  NodeId seen_on;
  tokens::Need tables;   ///< last writes of the tables that the unit reads; at level latest: all there was when it came
  /// Since the last commit to a table that the unit reads, and since the session's or key's own last one; at the levels window and pin.
  Duration since_table_write = Duration::max();
  Duration since_own_write = Duration::max();
  /// Tables that rules judge; of these, `tables` and `since_table_write` say nothing.
  std::vector<RuledTables> ruled;
  /// The level in force judges some of its tables, or it reads none.
  bool level_applies = true;
};

struct Policy {
  config::ConsistencyLevel level = config::ConsistencyLevel::table;
  config::LsnCheck lsn_check = config::LsnCheck::cached;
  Duration max_replica_lag{};
  /// In WAL; the largest number is any.
  std::uint64_t max_replica_lag_bytes = std::numeric_limits<std::uint64_t>::max();
  /// How long a read may wait for a replica to get far enough; zero: not at all.
  Duration replica_wait{};
  Duration pin_window{};
  config::TableWindow table_window;
  bool split = false;
  const ReplicaWeights* weights = nullptr;  ///< the database's; null: all alike
  /// How long a replica that has become usable takes to get its full share of reads.
  Duration replica_slow_start{};

  std::uint32_t weight_of(NodeId node) const noexcept { return weights ? weights->of(node) : 1; }
};

/// How busy a node's servers are now, asked of the pool: outstanding units over all its servers.
class Load {
 public:
  virtual std::uint32_t outstanding(NodeId node) const noexcept = 0;
  /// The node refused connections lately and its back-off has not passed.
  virtual bool failing(NodeId node) const noexcept = 0;

 protected:
  ~Load() = default;
};

struct Route {
  sql::Target target = sql::Target::primary;
  Reason reason = Reason::not_split;
  /// For target replica: every replica that may answer, the preferred first.
  std::array<NodeId, kReplicasMax> replicas{};
  std::uint32_t replica_count = 0;
  /// The reason is a consistency need that a capture would help: somebody waits to read what is
  /// pending.
  bool wants_capture = false;
  /// Not 0: the replicas are to be asked together with the unit whether they have replayed this.
  tokens::Lsn check;
  /// Not 0: with `check`, how long each is to wait until it has.
  Duration wait_there{};
  /// A replica is likely to be far enough within replica_wait.
  bool may_wait = false;
};

Route decide(const UnitFacts& unit, const ClusterView& cluster, const Policy& policy,
             const Load& load) noexcept;

/// Whether `node`, as the cluster is now, may still answer what it was chosen for (asked again at
/// dispatch), when it is asked for `check` together with the unit.
bool still_allowed(NodeId node, const UnitFacts& unit, const ClusterView& cluster,
                   const Policy& policy, tokens::Lsn check) noexcept;

}  // namespace pgweir::routing
