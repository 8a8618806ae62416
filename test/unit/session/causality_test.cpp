#include "session/causality.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using session::CausalKeys;
using session::Causality;

TEST_CASE("all who name a key share what it has written and seen") {
  tokens::CaptureLog captures;
  CausalKeys keys;
  const auto one = keys.get("user:1", captures);
  one->need.lsn = {77};
  CHECK(keys.get("user:1", captures) == one);
  CHECK(keys.get("user:2", captures)->need.nothing());
  CHECK(keys.size() == 2);
}

TEST_CASE("what a key that made room has written binds every key that is asked for afterwards") {
  tokens::CaptureLog captures;
  CausalKeys keys(2);
  const auto held = keys.get("held", captures);
  keys.get("idle", captures)->need.pending = captures.mark();
  keys.get("idle", captures)->last_write_at = Time{} + std::chrono::seconds{3};
  const auto fresh = keys.get("fresh", captures);
  CHECK(keys.size() == 2);
  CHECK(keys.get("held", captures) == held);
  CHECK(fresh->need.pending == captures.last_ticket());
  CHECK(fresh->last_write_at == Time{} + std::chrono::seconds{3});
}

TEST_CASE("a key that is held never makes room") {
  tokens::CaptureLog captures;
  CausalKeys keys(1);
  const auto held = keys.get("held", captures);
  const auto other = keys.get("other", captures);
  CHECK(keys.get("held", captures) == held);
  CHECK(keys.get("other", captures) == other);
}

TEST_CASE("reads of one key on two replicas before either was asked again need a capture") {
  tokens::CaptureLog captures;
  Causality key;
  const tokens::Ticket before = captures.last_ticket();
  key.note_read(NodeId{1}, 5, Time{} + std::chrono::seconds{1}, captures);
  key.note_read(NodeId{1}, 5, Time{} + std::chrono::seconds{2}, captures);
  CHECK(key.need.nothing());
  key.note_read(NodeId{2}, 6, Time{} + std::chrono::seconds{3}, captures);
  CHECK(key.need.pending == before + 1);
  key.last_read_at = Time::max();
  key.note_read(NodeId{1}, 5, Time{} + std::chrono::seconds{4}, captures);
  CHECK(key.need.pending == before + 1);
}

TEST_CASE("a replica that is read again is bound by what others have shown") {
  tokens::CaptureLog captures;
  Causality session;
  session.note_read(NodeId{1}, 5, Time{} + std::chrono::seconds{1}, captures);
  session.seen = {100};
  session.last_read_at = Time::max();
  session.note_read(NodeId{1}, 5, Time{} + std::chrono::seconds{2}, captures);
  CHECK(session.seen_elsewhere.value == 0);
  session.last_read_at = Time::max();
  session.note_read(NodeId{2}, 6, Time{} + std::chrono::seconds{3}, captures);
  CHECK(session.seen_elsewhere.value == 100);
}

TEST_CASE("what a key may have written unseen is not forgotten with it", "[session]") {
  tokens::CaptureLog captures;
  CausalKeys keys(1);
  keys.get("first", captures)->doubt.need.pending = captures.mark();
  const auto second = keys.get("second", captures);
  CHECK(keys.size() == 1);
  CHECK(second->need.pending == captures.last_ticket());
}
