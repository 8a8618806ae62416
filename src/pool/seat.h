// The places of servers and of waiting clients in a pool: app's entries derive from them, so that a
// pool needs no look-up and no allocation to find or move one.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/list.h"
#include "base/time.h"

namespace pgweir::pool {

class Pool;
class Subpool;

/// What a server of a sub-pool is doing, as far as handing it out is concerned.
///
///   login ──► idle ◄──────► active
///               ▲ │            │
///      testing ◄┴─┘            ▼
///               ▲────── being_canceled      (given back while a cancel request for it is still on
///               its way)
enum class Place : std::uint8_t { login, idle, active, testing, being_canceled };
inline constexpr std::size_t kPlaces = 5;
std::string_view to_string(Place place) noexcept;

struct ServerSeat {
  ListHook<ServerSeat> hook;
  Subpool* subpool = nullptr;  ///< null before it is opened and after it is closed
  Place place = Place::login;
  Time since{};  ///< when it came to its place
  Time born{};
  bool close_needed = false;  ///< closed as soon as nobody uses it
  bool dedicated = false;     ///< opened for one client, to whose end it stays; never idle
};

/// A set of the pool's sub-pools, one bit for each.
using NodeSet = std::uint64_t;
inline constexpr unsigned kNodesMax = 64;

/// A client in the wait queue, with the nodes any of which may serve it.
struct Waiter {
  ListHook<Waiter> hook;
  Pool* pool = nullptr;    ///< null while it does not wait
  NodeSet nodes = 0;       ///< empty: no node is known yet
  unsigned preferred = 0;  ///< the sub-pool where a connection is opened first
  Time since{};            ///< kept when the set changes, and so is the place in the queue
};

}  // namespace pgweir::pool
