// pool: who may have which server. A Pool is the servers of one (database, user), one Subpool for
// each node, and one queue of waiting clients, first come first served. Pure: time comes in,
// decisions come out as plain values; app opens and closes the connections and tells the pool.
//
//   if (ServerSeat* server = pool.idle_for(nodes, preferred)) …bind…
//   else { pool.wait(client, nodes, preferred, now); }
//   while (Opening next = pool.next_to_open(now)) …dial, pool.opened(seat, *next.subpool, now)…
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/list.h"
#include "base/pooler_error.h"
#include "pool/limits.h"
#include "pool/seat.h"

namespace pgweir::pool {

/// The role decides about the size of a sub-pool and how long a failing node is left alone.
enum class Side : std::uint8_t { primary, replica };

/// The servers of one pool on one node.
class Subpool {
 public:
  struct Tallies {
    Tally* database = nullptr;
    Tally* user = nullptr;
    Tally* node = nullptr;
  };

  Subpool(Pool& pool, unsigned index, NodeId node, Side at_first, Tallies tallies) noexcept
      : side(at_first), pool_(pool), index_(index), node_(node), tallies_(tallies) {}

  Pool& pool() const noexcept { return pool_; }
  unsigned index() const noexcept { return index_; }
  NodeSet bit() const noexcept { return NodeSet{1} << index_; }
  NodeId node() const noexcept { return node_; }

  std::size_t count(Place place) const noexcept {
    return lists_[static_cast<std::size_t>(place)].size();
  }
  /// All servers, logging in or not.
  int open() const noexcept { return open_; }
  /// Those that are not for one client alone.
  int pooled() const noexcept { return open_ - dedicated_; }
  /// Those of them that have logged in.
  int live() const noexcept {
    return pooled() - (static_cast<int>(count(Place::login)) - dedicated_logins_);
  }
  /// On their way to be idle: nobody needs to open another one for as many waiters.
  int coming() const noexcept {
    return static_cast<int>(count(Place::login) + count(Place::testing)) - dedicated_logins_;
  }
  ServerSeat* first(Place place) const noexcept {
    return lists_[static_cast<std::size_t>(place)].front();
  }
  static ServerSeat* next(const ServerSeat& seat) noexcept {
    return List<ServerSeat, &ServerSeat::hook>::next(seat);
  }
  std::uint32_t waiting() const noexcept { return waiting_; }
  /// Nothing can be had here for now: the last attempts failed and no server is left.
  bool failing(Time now) const noexcept { return live() == 0 && backoff.blocked(now); }
  /// The last login was refused by the node itself: it is this pool's user that can't come in, not the node that fails.
  bool refused = false;
  /// One of the three shared limits is reached (not the pool's own size): an idle server of another
  /// pool could make room.
  bool crowded() const noexcept {
    return (tallies_.database && tallies_.database->full()) ||
           (tallies_.user && tallies_.user->full()) || (tallies_.node && tallies_.node->full());
  }
  const Tallies& tallies() const noexcept { return tallies_; }

  Side side;
  Backoff backoff;
  bool retired = false;  ///< the configuration no longer names the node: nothing is opened here
  /// Servers that reach their lifetime together are not closed together.
  Time last_lifetime_close{};

 private:
  friend class Pool;

  Pool& pool_;
  unsigned index_;
  NodeId node_;
  Tallies tallies_;
  int open_ = 0;
  int dedicated_ = 0;          ///< of those: for one client alone
  int dedicated_logins_ = 0;   ///< of those: in Place::login
  std::uint32_t waiting_ = 0;  ///< waiters whose set holds this node
  std::array<List<ServerSeat, &ServerSeat::hook>, kPlaces> lists_;  ///< each in order of `since`
};

/// A connection to be opened now; converts to false when there is none.
struct Opening {
  Subpool* subpool = nullptr;
  bool from_reserve = false;

  explicit operator bool() const noexcept { return subpool != nullptr; }
};

/// A server whose time is over.
struct Expired {
  ServerSeat* seat = nullptr;
  PoolerError why = PoolerError::connect_timeout;

  explicit operator bool() const noexcept { return seat != nullptr; }
};

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Limits limits;
  /// PAUSE: nothing is given or opened, and who wants a server waits.
  bool paused = false;

  /// The sub-pool of `node`, made when new. Null when the pool has kNodesMax of them already.
  Subpool* add(NodeId node, Side side, Subpool::Tallies tallies);
  /// Null: no such node.
  Subpool* find(NodeId node) const noexcept;
  const std::vector<std::unique_ptr<Subpool>>& subpools() const noexcept { return subpools_; }
  /// Bit of each node that the pool knows; others are left out.
  NodeSet set_of(std::span<const NodeId> nodes) const noexcept;

  // Servers.
  void opened(ServerSeat& seat, Subpool& on, Time now) noexcept;
  void place(ServerSeat& seat, Place to, Time now) noexcept;
  void closed(ServerSeat& seat) noexcept;
  /// An idle server for somebody who comes now: of `preferred`, else of any other in the set. Null
  /// when there is none, or when others wait for it already.
  ServerSeat* idle_for(NodeSet nodes, unsigned preferred) const noexcept;
  /// The idle server of one node that is to be given next.
  ServerSeat* idle_of(const Subpool& subpool) const noexcept;
  int open() const noexcept { return open_; }

  // Waiters.
  void wait(Waiter& waiter, NodeSet nodes, unsigned preferred, Time now) noexcept;
  /// Other nodes may serve it now; its place in the queue stays.
  void rewrite(Waiter& waiter, NodeSet nodes, unsigned preferred) noexcept;
  void leave(Waiter& waiter) noexcept;
  /// Who is served next by a server of `subpool`; null when nobody waits for it.
  Waiter* first_for(const Subpool& subpool) const noexcept;
  Waiter* front() const noexcept { return queue_.front(); }
  static Waiter* next(const Waiter& waiter) noexcept {
    return List<Waiter, &Waiter::hook>::next(waiter);
  }
  std::size_t waiting() const noexcept { return queue_.size(); }

  // Opening.
  /// Whether a connection may be opened on `subpool`: limits, back-off, attempts under way.
  /// `waited` is how long the oldest who wants it has waited: past reserve_pool_timeout the reserve
  /// counts too.
  bool may_open(const Subpool& subpool, Time now, Duration waited,
                bool* from_reserve = nullptr) const noexcept;
  /// The pool's own size is reached; an idle server could make room.
  bool full(const Subpool& subpool) const noexcept {
    const int size = size_limit(subpool);
    return size > 0 && subpool.open() >= size;
  }
  /// Only a limit that is shared with other pools keeps a connection from being opened here.
  bool needs_room(const Subpool& subpool, Time now) const noexcept;
  /// The next connection that the queue calls for; ask until there is none.
  Opening next_to_open(Time now) const noexcept;
  /// A node is below min_pool_size: a connection to open, one at a time.
  Opening next_to_fill(Time now) const noexcept;

  // Deadlines.
  /// Who has waited longer than query_wait_timeout; null when nobody has.
  Waiter* overdue(Time now) const noexcept;
  /// A server past server_idle_timeout or server_lifetime, or one that has not answered a login or a
  /// query of the pooler's own within server_connect_timeout. Close it and ask again.
  Expired next_expired(Time now) noexcept;
  /// Whether an unused server has outlived server_lifetime and may go now (one in lifetime /
  /// pool_size at most). It is then taken to be closed.
  bool outlived(const ServerSeat& seat, Time now) noexcept;
  /// When outlived() may say so; kNever without a server_lifetime.
  Time outlived_at(const ServerSeat& seat) const noexcept;
  /// When next_expired(), overdue() or next_to_open() may have a new answer by time alone.
  Time next_deadline(Time now) const noexcept;

 private:
  /// Logins under way on one node at the same time; one only while the node has been failing.
  static constexpr int kLoginsMax = 4;
  /// How far into the queue next_to_open() looks for somebody who could use a new connection.
  static constexpr int kLookAheadMax = 64;

  int size_limit(const Subpool& subpool) const noexcept;
  Duration lifetime_gap(const Subpool& subpool) const noexcept;
  void count_waiting(NodeSet nodes, int by) noexcept;
  Duration longest_wait(const Subpool& subpool, Time now) const noexcept;

  std::vector<std::unique_ptr<Subpool>> subpools_;
  List<Waiter, &Waiter::hook> queue_;
  int open_ = 0;
};

}  // namespace pgweir::pool
