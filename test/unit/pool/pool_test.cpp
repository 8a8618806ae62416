#include "pool/pool.h"

#include <catch2/catch.hpp>
#include <deque>

using namespace pgweir;
using namespace pgweir::pool;
using namespace std::chrono_literals;

namespace {

constexpr NodeId kPrimary{1}, kOne{2}, kTwo{3};

/// A pool of three nodes with its tallies, and seats that live as long as it does.
struct Bench {
  Tally database[3], user[3], node[3];
  Pool pool;
  std::deque<ServerSeat> seats;
  std::deque<Waiter> waiters;
  Time now = Time{} + 1h;
  Subpool* primary;
  Subpool* one;
  Subpool* two;

  Bench() {
    pool.limits.pool_size = 2;
    pool.limits.replica_pool_size = 1;
    pool.limits.query_wait_timeout = 120s;
    pool.limits.server_idle_timeout = 600s;
    pool.limits.server_lifetime = 3600s;
    pool.limits.server_connect_timeout = 15s;
    pool.limits.server_login_retry = 15s;
    primary = pool.add(kPrimary, Side::primary, {&database[0], &user[0], &node[0]});
    one = pool.add(kOne, Side::replica, {&database[1], &user[1], &node[1]});
    two = pool.add(kTwo, Side::replica, {&database[2], &user[2], &node[2]});
  }
  ~Bench() {
    for (Waiter& waiter : waiters) pool.leave(waiter);
    for (ServerSeat& seat : seats) pool.closed(seat);
  }
  ServerSeat& open(Subpool& on) {
    ServerSeat& seat = seats.emplace_back();
    pool.opened(seat, on, now);
    return seat;
  }
  ServerSeat& open_idle(Subpool& on) {
    ServerSeat& seat = open(on);
    pool.place(seat, Place::idle, now);
    return seat;
  }
  Waiter& wait(NodeSet nodes, unsigned preferred) {
    Waiter& waiter = waiters.emplace_back();
    pool.wait(waiter, nodes, preferred, now);
    return waiter;
  }
};

}  // namespace

TEST_CASE("a server on its way for one client alone is on its way for nobody else", "[pool]") {
  Bench b;
  ServerSeat& own = b.seats.emplace_back();
  own.dedicated = true;
  b.pool.opened(own, *b.primary, b.now);
  CHECK(b.primary->coming() == 0);
  b.wait(b.primary->bit(), b.primary->index());
  CHECK(b.pool.next_to_open(b.now).subpool == b.primary);
  // But it counts against the size of the pool.
  b.open(*b.primary);
  CHECK(b.primary->coming() == 1);
  CHECK(b.pool.full(*b.primary));
  CHECK_FALSE(b.pool.may_open(*b.primary, b.now, 0s));
  b.pool.place(own, Place::active, b.now);
  CHECK(b.primary->coming() == 1);
  b.pool.closed(own);
  CHECK(b.primary->coming() == 1);
  CHECK_FALSE(b.pool.full(*b.primary));
}

TEST_CASE("a waiter calls for one connection, and the connection on its way is enough for it",
          "[pool]") {
  Bench b;
  b.wait(b.primary->bit(), b.primary->index());
  const Opening opening = b.pool.next_to_open(b.now);
  REQUIRE(opening.subpool == b.primary);
  CHECK_FALSE(opening.from_reserve);
  b.open(*b.primary);
  CHECK_FALSE(b.pool.next_to_open(b.now));
}

TEST_CASE(
    "no more than pool_size connections are opened on the primary and replica_pool_size on a "
    "replica",
    "[pool]") {
  Bench b;
  for (int i = 0; i < 5; ++i) b.wait(b.primary->bit(), b.primary->index());
  for (int i = 0; i < 5; ++i) b.wait(b.one->bit(), b.one->index());
  int opened = 0;
  while (Opening next = b.pool.next_to_open(b.now)) {
    b.open(*next.subpool);
    REQUIRE(++opened < 10);
  }
  CHECK(b.primary->open() == 2);
  CHECK(b.one->open() == 1);
  CHECK(b.two->open() == 0);
}

TEST_CASE("a pool size of 0 is no limit", "[pool]") {
  Bench b;
  b.pool.limits.pool_size = 0;
  for (int i = 0; i < 30; ++i) b.open_idle(*b.primary);
  b.wait(b.primary->bit(), b.primary->index());
  CHECK(b.pool.next_to_open(b.now).subpool == b.primary);
}

TEST_CASE("a read that two replicas may answer calls for one connection, on the preferred one",
          "[pool]") {
  Bench b;
  b.wait(b.one->bit() | b.two->bit(), b.two->index());
  const Opening opening = b.pool.next_to_open(b.now);
  REQUIRE(opening.subpool == b.two);
  b.open(*b.two);
  CHECK_FALSE(b.pool.next_to_open(b.now));
}

TEST_CASE("when the preferred replica is full the connection is opened on the other one",
          "[pool]") {
  Bench b;
  b.open_idle(*b.two);
  b.pool.place(b.seats.back(), Place::active, b.now);
  b.wait(b.one->bit() | b.two->bit(), b.two->index());
  CHECK(b.pool.next_to_open(b.now).subpool == b.one);
}

TEST_CASE("pitfall 16: one queue serves whoever came first among those a node may serve",
          "[pool]") {
  Bench b;
  Waiter& write = b.wait(b.primary->bit(), b.primary->index());
  Waiter& either = b.wait(b.one->bit() | b.two->bit(), b.one->index());
  Waiter& only_two = b.wait(b.two->bit(), b.two->index());
  CHECK(b.pool.first_for(*b.primary) == &write);
  CHECK(b.pool.first_for(*b.one) == &either);
  CHECK(b.pool.first_for(*b.two) == &either);
  b.pool.leave(either);
  CHECK(b.pool.first_for(*b.two) == &only_two);
  CHECK(b.pool.first_for(*b.one) == nullptr);
}

TEST_CASE("pitfall 16: an idle server of any allowed node is given, the preferred one first",
          "[pool]") {
  Bench b;
  ServerSeat& on_one = b.open_idle(*b.one);
  CHECK(b.pool.idle_for(b.one->bit() | b.two->bit(), b.two->index()) == &on_one);
  ServerSeat& on_two = b.open_idle(*b.two);
  CHECK(b.pool.idle_for(b.one->bit() | b.two->bit(), b.two->index()) == &on_two);
  CHECK(b.pool.idle_for(b.primary->bit(), b.primary->index()) == nullptr);
}

TEST_CASE("an idle server is not given past somebody who waits for it", "[pool]") {
  Bench b;
  b.open_idle(*b.one);
  b.wait(b.one->bit(), b.one->index());
  CHECK(b.pool.idle_for(b.one->bit(), b.one->index()) == nullptr);
}

TEST_CASE("a waiter whose nodes change keeps its place in the queue", "[pool]") {
  Bench b;
  Waiter& first = b.wait(b.one->bit(), b.one->index());
  b.wait(b.primary->bit(), b.primary->index());
  b.pool.rewrite(first, b.primary->bit(), b.primary->index());
  CHECK(b.pool.first_for(*b.primary) == &first);
  CHECK(b.one->waiting() == 0);
  CHECK(b.primary->waiting() == 2);
}

TEST_CASE("a waiter with no node yet waits and calls for nothing", "[pool]") {
  Bench b;
  Waiter& waiter = b.wait(0, 0);
  CHECK_FALSE(b.pool.next_to_open(b.now));
  b.pool.rewrite(waiter, b.primary->bit(), b.primary->index());
  CHECK(b.pool.next_to_open(b.now).subpool == b.primary);
}

TEST_CASE("the server used last is given first, and the one idle longest with server_round_robin",
          "[pool]") {
  Bench b;
  ServerSeat& older = b.open_idle(*b.primary);
  ServerSeat& newer = b.open_idle(*b.primary);
  CHECK(b.pool.idle_of(*b.primary) == &newer);
  b.pool.limits.round_robin = true;
  CHECK(b.pool.idle_of(*b.primary) == &older);
}

TEST_CASE("the limits of database, user and node each keep a connection from being opened",
          "[pool]") {
  Bench b;
  b.wait(b.primary->bit(), b.primary->index());
  for (Tally* tally : {&b.database[0], &b.user[0], &b.node[0]}) {
    tally->max = 3;
    tally->open = 3;
    CHECK_FALSE(b.pool.next_to_open(b.now));
    CHECK(b.primary->crowded());
    tally->open = 2;
    CHECK(b.pool.next_to_open(b.now));
    tally->open = 0;
  }
}

TEST_CASE("tallies follow servers as they open and close", "[pool]") {
  Bench b;
  ServerSeat& seat = b.open(*b.one);
  b.open(*b.one);
  CHECK(b.database[1].open == 2);
  CHECK(b.user[1].open == 2);
  CHECK(b.node[1].open == 2);
  CHECK(b.pool.open() == 2);
  b.pool.closed(seat);
  CHECK(b.node[1].open == 1);
  CHECK(b.one->open() == 1);
}

TEST_CASE("the reserve is opened only for who has waited reserve_pool_timeout", "[pool]") {
  Bench b;
  b.pool.limits.reserve_pool_size = 1;
  b.pool.limits.reserve_pool_timeout = 5s;
  for (int i = 0; i < 2; ++i) b.pool.place(b.open_idle(*b.primary), Place::active, b.now);
  b.wait(b.primary->bit(), b.primary->index());
  CHECK_FALSE(b.pool.next_to_open(b.now));
  CHECK(b.pool.next_deadline(b.now) == b.now + 5s);
  b.now += 5s;
  const Opening opening = b.pool.next_to_open(b.now);
  REQUIRE(opening.subpool == b.primary);
  CHECK(opening.from_reserve);
  b.pool.place(b.open(*b.primary), Place::active, b.now);
  CHECK_FALSE(b.pool.next_to_open(b.now));
}

TEST_CASE("min_pool_size is filled one connection at a time on each node", "[pool]") {
  Bench b;
  b.pool.limits.min_pool_size = 2;
  b.pool.limits.replica_pool_size = 2;
  const Opening first = b.pool.next_to_fill(b.now);
  REQUIRE(first.subpool == b.primary);
  b.open(*b.primary);
  CHECK(b.pool.next_to_fill(b.now).subpool == b.one);
  b.pool.place(b.seats.back(), Place::idle, b.now);
  CHECK(b.pool.next_to_fill(b.now).subpool == b.primary);
  b.open_idle(*b.primary);
  CHECK(b.pool.next_to_fill(b.now).subpool == b.one);
}

TEST_CASE("a paused pool gives nothing and opens nothing", "[pool]") {
  Bench b;
  b.open_idle(*b.primary);
  b.pool.paused = true;
  CHECK(b.pool.idle_for(b.primary->bit(), b.primary->index()) == nullptr);
  b.wait(b.primary->bit(), b.primary->index());
  CHECK_FALSE(b.pool.next_to_open(b.now));
  b.now += 1h;
  CHECK(b.pool.overdue(b.now) == nullptr);
}

TEST_CASE("a failing node is left alone for a pause that doubles, and a success ends it",
          "[pool]") {
  Bench b;
  b.wait(b.one->bit(), b.one->index());
  b.one->backoff.failed(b.now, 1s, 15s);
  CHECK(b.one->failing(b.now));
  CHECK_FALSE(b.pool.next_to_open(b.now));
  CHECK(b.pool.next_deadline(b.now) == b.now + 1s);
  b.now += 1s;
  CHECK_FALSE(b.one->failing(b.now));
  CHECK(b.pool.next_to_open(b.now));
  b.one->backoff.failed(b.now, 1s, 15s);
  CHECK(b.one->backoff.until() == b.now + 2s);
  for (int i = 0; i < 40; ++i) b.one->backoff.failed(b.now, 1s, 15s);
  CHECK(b.one->backoff.until() == b.now + 15s);
  b.one->backoff.clear();
  CHECK(b.pool.next_to_open(b.now));
}

TEST_CASE("a node that still has servers is not failing, though nothing new is opened there",
          "[pool]") {
  Bench b;
  b.open_idle(*b.one);
  b.one->backoff.failed(b.now, 1s, 15s);
  CHECK_FALSE(b.one->failing(b.now));
  CHECK_FALSE(b.pool.may_open(*b.one, b.now, 0s));
}

TEST_CASE("a node that has failed is tried with one login at a time", "[pool]") {
  Bench b;
  b.pool.limits.pool_size = 10;
  b.primary->backoff.failed(b.now, 1s, 15s);
  b.now += 2s;
  for (int i = 0; i < 3; ++i) b.wait(b.primary->bit(), b.primary->index());
  REQUIRE(b.pool.next_to_open(b.now));
  b.open(*b.primary);
  CHECK_FALSE(b.pool.next_to_open(b.now));
}

TEST_CASE("who waits longer than query_wait_timeout is overdue, the first one first", "[pool]") {
  Bench b;
  Waiter& first = b.wait(b.primary->bit(), b.primary->index());
  b.now += 1s;
  Waiter& second = b.wait(b.one->bit(), b.one->index());
  CHECK(b.pool.overdue(b.now + 118s) == nullptr);
  CHECK(b.pool.overdue(b.now + 119s) == &first);
  b.pool.leave(first);
  CHECK(b.pool.overdue(b.now + 119s) == nullptr);
  CHECK(b.pool.overdue(b.now + 120s) == &second);
}

TEST_CASE("a login that takes longer than server_connect_timeout expires", "[pool]") {
  Bench b;
  ServerSeat& seat = b.open(*b.primary);
  CHECK(b.pool.next_deadline(b.now) == b.now + 15s);
  CHECK_FALSE(b.pool.next_expired(b.now + 14s));
  const Expired expired = b.pool.next_expired(b.now + 15s);
  REQUIRE(expired.seat == &seat);
  CHECK(expired.why == PoolerError::connect_timeout);
}

TEST_CASE("an idle server expires, but min_pool_size of them stay", "[pool]") {
  Bench b;
  b.pool.limits.server_lifetime = 0s;
  ServerSeat& first = b.open_idle(*b.primary);
  b.now += 1s;
  b.open_idle(*b.primary);
  b.pool.limits.min_pool_size = 1;
  const Expired expired = b.pool.next_expired(b.now + 600s);
  REQUIRE(expired.seat == &first);
  b.pool.closed(first);
  CHECK_FALSE(b.pool.next_expired(b.now + 600s));
}

TEST_CASE("servers of the same age are not all closed at once when their lifetime is over",
          "[pool]") {
  Bench b;
  b.pool.limits.server_idle_timeout = 0s;
  ServerSeat& first = b.open_idle(*b.primary);
  ServerSeat& second = b.open_idle(*b.primary);
  b.now += 3600s;
  const Expired expired = b.pool.next_expired(b.now);
  REQUIRE(expired.seat == &first);
  CHECK(expired.why == PoolerError::server_lifetime_over);
  b.pool.closed(first);
  CHECK_FALSE(b.pool.next_expired(b.now));
  CHECK(b.pool.next_deadline(b.now) == b.now + 1800s);
  CHECK(b.pool.next_expired(b.now + 1800s).seat == &second);
}

TEST_CASE("an idle server that must be closed expires at once", "[pool]") {
  Bench b;
  ServerSeat& seat = b.open_idle(*b.primary);
  seat.close_needed = true;
  CHECK(b.pool.next_expired(b.now).seat == &seat);
}

TEST_CASE("a retired node takes no connection, and its bit is used again once it is empty",
          "[pool]") {
  Bench b;
  ServerSeat& last = b.open_idle(*b.two);
  b.two->retired = true;
  b.wait(b.two->bit(), b.two->index());
  CHECK_FALSE(b.pool.next_to_open(b.now));
  const unsigned index = b.two->index();
  b.pool.leave(b.waiters.back());
  CHECK(b.pool.add(NodeId{9}, Side::replica, {})->index() != index);
  b.pool.closed(last);
  CHECK(b.pool.add(NodeId{10}, Side::replica, {})->index() == index);
}
