// routing: where a unit may run, and why. Pure: class, session facts, view of the cluster and
// policy in, route out. It knows no connection, no pool and no clock; start with decide.h.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "tokens/lsn.h"

namespace pgweir::routing {

enum class Role : std::uint8_t { unknown, primary, replica, down };
std::string_view to_string(Role role) noexcept;

/// Which instance a connection has reached: (system identifier, when it began to serve). The second
/// is the postmaster's start and, as a crash of a backend loses asynchronous commits without
/// restarting it, the time at which statistics were last reset, which a crash does. A number each,
/// so no setting of the session changes the text.
inline constexpr std::string_view kIdentityQuery =
    "SELECT system_identifier, "
    "concat(extract(epoch FROM pg_postmaster_start_time()), '/', extract(epoch FROM "
    "pg_stat_get_bgwriter_stat_reset_time())) "
    "FROM pg_control_system()";

/// Whether the instance that a server belongs to has replayed enough: (where it is, NULL when it is
/// no standby; its timeline, which the control file may tell late, and never early).
inline constexpr std::string_view kPositionQuery =
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END";
inline constexpr std::string_view kPositionOfSeveralQuery =
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END, timeline_id "
    "FROM pg_control_checkpoint()";

/// Waits until the instance has replayed `lsn`, for `time` at most, and fails neither then nor where there is nothing to wait for.
/// For a transaction of its own: the statement must hold no snapshot.
std::string wait_for_query(tokens::Lsn lsn, Duration time);

/// Tells instances apart as `started_at` does, in a number. 0 is none.
inline std::uint64_t instance_of(std::string_view started_at) noexcept {
  return started_at.empty() ? 0 : std::hash<std::string_view>{}(started_at) | 1U;
}

/// What is known of one node at one moment. Immutable in a view.
struct NodeView {
  NodeId id;
  std::string name;  ///< host:port, as configured
  Role role = Role::unknown;
  bool eligible =
      false;  ///< A replica that may answer reads: same system, right timeline, settings alike.
  std::string excluded;  ///< Why a node that answers is not used; for people.
  tokens::Lsn replayed;  ///< A replica's replay LSN; a primary's insert LSN. Only grows while the
                         ///< identity stays.
  tokens::Lsn received;
  Time advanced_at{};  ///< When a replica's replay LSN was last seen to have grown.
  /// How fast it replays what it has; 0 when it has nothing left to replay, or nobody knows.
  double replay_bytes_per_s = 0.0;
  Time observed_at{};  ///< When the question was sent whose answer gave the LSNs.
  std::uint32_t timeline = 0;
  std::string system_id;
  std::string started_at;  ///< When this instance began to serve, see kIdentityQuery: with
                           ///< system_id the node's identity
  /// instance_of(started_at).
  std::uint64_t instance = 0;
  bool several =
      false;  ///< The address answers for more than one instance: no cached LSN is to be trusted.
  bool lag_known = false;
  Duration
      lag{};  ///< Newest true lag sample; grows while the replica does not pass the sampled LSN.
  Duration lag_p50{}, lag_p99{}, lag_p999{};
  /// Since when it may answer reads: it starts slowly. The zero Time: since the cluster was first looked at.
  Time usable_since{};
  std::string last_error;
};

/// The nodes of one cluster as the monitor last saw them. A new one is made for each change.
struct ClusterView {
  std::uint64_t version = 0;
  /// Changes with the primary's identity (promotion, restart, crash): tokens are clamped to
  /// identity_lsn then, before anything else is done with this view. 0 while no primary was ever
  /// seen.
  std::uint64_t identity = 0;
  tokens::Lsn
      identity_lsn;  ///< The primary's insert LSN when it was first seen with this identity.
  /// Nobody while none is known: writes wait. A primary that is down stays named, so its pools go
  /// on trying, until another one is found or it is seen in recovery.
  NodeId primary;
  std::uint32_t timeline = 0;
  std::string system_id;
  tokens::WalGeometry geometry;
  int server_version = 0;  ///< the primary's major version, and so that of all that are eligible; 0: not known
  std::vector<NodeView> nodes;  ///< In the order of the configuration.

  const NodeView* find(NodeId id) const noexcept {
    for (const NodeView& node : nodes) {
      if (node.id == id) return &node;
    }
    return nullptr;
  }
};

using ClusterSnapshot = std::shared_ptr<const ClusterView>;

}  // namespace pgweir::routing
