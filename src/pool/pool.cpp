#include "pool/pool.h"

#include <bit>

namespace pgweir::pool {

std::string_view to_string(Place place) noexcept {
  switch (place) {
    case Place::login:
      return "login";
    case Place::idle:
      return "idle";
    case Place::active:
      return "active";
    case Place::testing:
      return "tested";
    case Place::being_canceled:
      return "being_canceled";
  }
  return "";
}

Subpool* Pool::add(NodeId node, Side side, Subpool::Tallies tallies) {
  if (Subpool* known = find(node)) {
    known->retired = false;
    known->side = side;
    return known;
  }
  for (std::size_t i = 0; i < subpools_.size(); ++i) {
    // A node that is gone for good leaves its bit to a new one.
    Subpool& old = *subpools_[i];
    if (!old.retired || old.open() > 0 || old.waiting() > 0) continue;
    subpools_[i] = std::make_unique<Subpool>(*this, static_cast<unsigned>(i), node, side, tallies);
    return subpools_[i].get();
  }
  if (subpools_.size() >= kNodesMax) return nullptr;
  const auto index = static_cast<unsigned>(subpools_.size());
  return subpools_.emplace_back(std::make_unique<Subpool>(*this, index, node, side, tallies)).get();
}

Subpool* Pool::find(NodeId node) const noexcept {
  for (const auto& subpool : subpools_) {
    if (subpool->node() == node) return subpool.get();
  }
  return nullptr;
}

NodeSet Pool::set_of(std::span<const NodeId> nodes) const noexcept {
  NodeSet set = 0;
  for (const NodeId node : nodes) {
    if (const Subpool* subpool = find(node)) set |= subpool->bit();
  }
  return set;
}

// --- servers
// -------------------------------------------------------------------------------------------------------

void Pool::opened(ServerSeat& seat, Subpool& on, Time now) noexcept {
  ENSURE(seat.subpool == nullptr && &on.pool() == this);
  seat.subpool = &on;
  seat.place = Place::login;
  seat.since = seat.born = now;
  on.lists_[static_cast<std::size_t>(Place::login)].push_back(seat);
  if (seat.dedicated) {
    ++on.dedicated_;
    ++on.dedicated_logins_;
  }
  ++on.open_;
  ++open_;
  for (Tally* tally : {on.tallies_.database, on.tallies_.user, on.tallies_.node}) {
    if (tally) ++tally->open;
  }
}

void Pool::place(ServerSeat& seat, Place to, Time now) noexcept {
  Subpool& subpool = *seat.subpool;
  subpool.lists_[static_cast<std::size_t>(seat.place)].remove(seat);
  if (seat.dedicated && seat.place == Place::login) --subpool.dedicated_logins_;
  seat.place = to;
  seat.since = now;
  subpool.lists_[static_cast<std::size_t>(to)].push_back(seat);
}

void Pool::closed(ServerSeat& seat) noexcept {
  if (!seat.subpool) return;
  Subpool& subpool = *seat.subpool;
  subpool.lists_[static_cast<std::size_t>(seat.place)].remove(seat);
  if (seat.dedicated) {
    --subpool.dedicated_;
    if (seat.place == Place::login) --subpool.dedicated_logins_;
  }
  seat.subpool = nullptr;
  --subpool.open_;
  --open_;
  for (Tally* tally : {subpool.tallies_.database, subpool.tallies_.user, subpool.tallies_.node}) {
    if (tally) --tally->open;
  }
}

ServerSeat* Pool::idle_of(const Subpool& subpool) const noexcept {
  const auto& idle = subpool.lists_[static_cast<std::size_t>(Place::idle)];
  return limits.round_robin ? idle.front() : idle.back();
}

ServerSeat* Pool::idle_for(NodeSet nodes, unsigned preferred) const noexcept {
  if (paused) return nullptr;
  const auto free = [&](unsigned index) -> ServerSeat* {
    const Subpool& subpool = *subpools_[index];
    return subpool.waiting_ > 0 ? nullptr : idle_of(subpool);
  };
  if (preferred < subpools_.size() && (nodes & (NodeSet{1} << preferred)) != 0) {
    if (ServerSeat* seat = free(preferred)) return seat;
  }
  for (NodeSet left = nodes; left != 0; left &= left - 1) {
    if (ServerSeat* seat = free(static_cast<unsigned>(std::countr_zero(left)))) return seat;
  }
  return nullptr;
}

// --- waiters
// -------------------------------------------------------------------------------------------------------

void Pool::count_waiting(NodeSet nodes, int by) noexcept {
  for (; nodes != 0; nodes &= nodes - 1) {
    subpools_[static_cast<std::size_t>(std::countr_zero(nodes))]->waiting_ +=
        static_cast<std::uint32_t>(by);
  }
}

void Pool::wait(Waiter& waiter, NodeSet nodes, unsigned preferred, Time now) noexcept {
  ENSURE(waiter.pool == nullptr);
  waiter.pool = this;
  waiter.nodes = nodes;
  waiter.preferred = preferred;
  waiter.since = now;
  queue_.push_back(waiter);
  count_waiting(nodes, 1);
}

void Pool::rewrite(Waiter& waiter, NodeSet nodes, unsigned preferred) noexcept {
  ENSURE(waiter.pool == this);
  count_waiting(waiter.nodes, -1);
  waiter.nodes = nodes;
  waiter.preferred = preferred;
  count_waiting(nodes, 1);
}

void Pool::leave(Waiter& waiter) noexcept {
  if (waiter.pool == nullptr) return;
  ENSURE(waiter.pool == this);
  count_waiting(waiter.nodes, -1);
  queue_.remove(waiter);
  waiter.pool = nullptr;
  waiter.nodes = 0;
}

Waiter* Pool::first_for(const Subpool& subpool) const noexcept {
  if (subpool.waiting_ == 0) return nullptr;
  for (Waiter* waiter = queue_.front(); waiter; waiter = next(*waiter)) {
    if ((waiter->nodes & subpool.bit()) != 0) return waiter;
  }
  return nullptr;
}

// --- opening
// -------------------------------------------------------------------------------------------------------

int Pool::size_limit(const Subpool& subpool) const noexcept {
  switch (subpool.side) {
    case Side::primary:
      return limits.pool_size;
    case Side::replica:
      return limits.replica_pool_size;
  }
  return limits.pool_size;
}

bool Pool::may_open(const Subpool& subpool, Time now, Duration waited,
                    bool* from_reserve) const noexcept {
  if (paused || subpool.retired || subpool.crowded() || subpool.backoff.blocked(now)) return false;
  const int logins_max = subpool.backoff.failures() > 0 ? 1 : kLoginsMax;
  if (static_cast<int>(subpool.count(Place::login)) >= logins_max) return false;
  const int size = size_limit(subpool);
  if (size <= 0 || subpool.open() < size) return true;
  if (limits.reserve_pool_size <= 0 || waited < limits.reserve_pool_timeout) return false;
  if (subpool.open() >= size + limits.reserve_pool_size) return false;
  if (from_reserve) *from_reserve = true;
  return true;
}

bool Pool::needs_room(const Subpool& subpool, Time now) const noexcept {
  if (paused || subpool.retired || !subpool.crowded() || subpool.backoff.blocked(now)) return false;
  const int size = size_limit(subpool);
  return size <= 0 || subpool.open() < size;
}

Duration Pool::longest_wait(const Subpool& subpool, Time now) const noexcept {
  const Waiter* waiter = first_for(subpool);
  return waiter ? now - waiter->since : Duration{};
}

Opening Pool::next_to_open(Time now) const noexcept {
  if (queue_.empty() || paused) return {};
  // Which nodes could take another connection at all: none, usually, and then the queue is not
  // walked.
  NodeSet openable = 0;
  NodeSet reserve = 0;
  std::array<int, kNodesMax> coming{};
  for (const auto& subpool : subpools_) {
    if (subpool->waiting_ == 0) continue;
    coming[subpool->index()] = subpool->coming();
    bool from_reserve = false;
    const Duration waited = limits.reserve_pool_size > 0 ? longest_wait(*subpool, now) : Duration{};
    if (!may_open(*subpool, now, waited, &from_reserve)) continue;
    openable |= subpool->bit();
    if (from_reserve) reserve |= subpool->bit();
  }
  if (openable == 0) return {};
  int looked_at = 0;
  for (const Waiter* waiter = queue_.front(); waiter && looked_at < kLookAheadMax;
       waiter = next(*waiter), ++looked_at) {
    // A connection that is on its way serves one waiter; only who is left over calls for another
    // one.
    bool served = false;
    for (NodeSet left = waiter->nodes; left != 0 && !served; left &= left - 1) {
      int& here = coming[static_cast<std::size_t>(std::countr_zero(left))];
      if (here > 0) {
        --here;
        served = true;
      }
    }
    const NodeSet possible = waiter->nodes & openable;
    if (served || possible == 0) continue;
    const NodeSet wish = NodeSet{1} << waiter->preferred;
    const NodeSet bit = (possible & wish) != 0 ? wish : possible & (~possible + 1);
    return {subpools_[static_cast<std::size_t>(std::countr_zero(bit))].get(), (reserve & bit) != 0};
  }
  return {};
}

Opening Pool::next_to_fill(Time now) const noexcept {
  if (limits.min_pool_size <= 0) return {};
  for (const auto& subpool : subpools_) {
    if (subpool->open() >= limits.min_pool_size || subpool->count(Place::login) > 0) continue;
    if (may_open(*subpool, now, Duration{})) return {subpool.get(), false};
  }
  return {};
}

// --- deadlines
// -----------------------------------------------------------------------------------------------------

Waiter* Pool::overdue(Time now) const noexcept {
  if (limits.query_wait_timeout <= Duration{} || paused) return nullptr;
  Waiter* waiter = queue_.front();
  return waiter && now - waiter->since >= limits.query_wait_timeout ? waiter : nullptr;
}

Duration Pool::lifetime_gap(const Subpool& subpool) const noexcept {
  const int size = size_limit(subpool);
  return size > 1 ? limits.server_lifetime / size : Duration{};
}

Time Pool::outlived_at(const ServerSeat& seat) const noexcept {
  if (limits.server_lifetime <= Duration{}) return kNever;
  const Subpool& subpool = *seat.subpool;
  const Time not_before = subpool.last_lifetime_close == Time{}
                              ? Time{}
                              : subpool.last_lifetime_close + lifetime_gap(subpool);
  return std::max(seat.born + limits.server_lifetime, not_before);
}

bool Pool::outlived(const ServerSeat& seat, Time now) noexcept {
  if (now < outlived_at(seat)) return false;
  seat.subpool->last_lifetime_close = now;
  return true;
}

Expired Pool::next_expired(Time now) noexcept {
  for (const auto& subpool : subpools_) {
    ServerSeat* login = subpool->first(Place::login);
    if (login && limits.server_connect_timeout > Duration{} &&
        now - login->since >= limits.server_connect_timeout) {
      return {login, PoolerError::connect_timeout};
    }
    ServerSeat* asked = subpool->first(Place::testing);
    if (asked && limits.server_connect_timeout > Duration{} && now - asked->since >= limits.server_connect_timeout)
      return {asked, PoolerError::own_query_timeout};
    ServerSeat* idle = subpool->first(Place::idle);
    // min_pool_size servers stay: they would only be opened again.
    const bool spare = subpool->retired || subpool->open() > limits.min_pool_size;
    if (idle && spare && limits.server_idle_timeout > Duration{} &&
        now - idle->since >= limits.server_idle_timeout) {
      return {idle, PoolerError::server_idle_timeout};
    }
    for (; idle; idle = Subpool::next(*idle)) {
      if (idle->close_needed) return {idle, PoolerError::database_changed};
      if (outlived(*idle, now)) return {idle, PoolerError::server_lifetime_over};
    }
  }
  return {};
}

Time Pool::next_deadline(Time now) const noexcept {
  Time soonest = kNever;
  const auto at = [&](Time time) {
    soonest = std::min(soonest, std::max(time, now + Duration{1}));
  };
  if (const Waiter* first = queue_.front(); first && !paused) {
    if (limits.query_wait_timeout > Duration{}) at(first->since + limits.query_wait_timeout);
    if (limits.reserve_pool_size > 0) {
      for (const auto& subpool : subpools_) {
        const Waiter* waiter = first_for(*subpool);
        if (waiter && now - waiter->since < limits.reserve_pool_timeout)
          at(waiter->since + limits.reserve_pool_timeout);
      }
    }
  }
  for (const auto& subpool : subpools_) {
    if (subpool->waiting_ > 0 && subpool->backoff.blocked(now)) at(subpool->backoff.until());
    for (const ServerSeat* unanswered : {subpool->first(Place::login), subpool->first(Place::testing)}) {
      if (unanswered && limits.server_connect_timeout > Duration{})
        at(unanswered->since + limits.server_connect_timeout);
    }
    const ServerSeat* idle = subpool->first(Place::idle);
    if (!idle) continue;
    if (limits.server_idle_timeout > Duration{} &&
        (subpool->retired || subpool->open() > limits.min_pool_size)) {
      at(idle->since + limits.server_idle_timeout);
    }
    if (limits.server_lifetime <= Duration{}) continue;
    for (; idle; idle = Subpool::next(*idle)) at(outlived_at(*idle));
  }
  return soonest;
}

}  // namespace pgweir::pool
