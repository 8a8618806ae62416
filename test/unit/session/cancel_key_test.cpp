#include "session/cancel_key.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace pgweir;
using session::CancelKey;

namespace {

struct Filler final : Random {
  explicit Filler(int with) : byte(with) {}
  void fill(std::span<char> bytes) noexcept override { std::memset(bytes.data(), byte, bytes.size()); }
  int byte;
};

}  // namespace

TEST_CASE("a cancel key holds the peer's id in its second and third byte, low byte first", "[cancel]") {
  Filler ones(0xff);
  const CancelKey key = CancelKey::draw(ones, 0x1234);
  CHECK(key.pid == 0x7f3412ff);
  CHECK(key.key == 0xffffffff);
  CHECK(key.peer_id() == 0x1234);
  Filler zeros(0);
  CHECK(CancelKey::draw(zeros, 16383).pid == 0x00ff3f00);
}

TEST_CASE("without a peer id all of a cancel key is random but its sign", "[cancel]") {
  Filler ones(0xff);
  CHECK(CancelKey::draw(ones, 0).pid == 0x7fffffff);
  Filler zeros(0);
  CHECK(CancelKey::draw(zeros, 0).pid == 1);
}

TEST_CASE("a request makes three hops and stays the same client's", "[cancel]") {
  Filler ones(0x55);
  const CancelKey key = CancelKey::draw(ones, 7);
  CancelKey passed = key;
  for (std::uint32_t left = CancelKey::kHopsMax; left > 0; --left) {
    CHECK(passed.hops_left() == left);
    passed = passed.after_hop();
    CHECK(passed.is_of_same_client(key));
  }
  CHECK(passed.hops_left() == 0);
  CHECK_FALSE(CancelKey{key.pid, key.key ^ 4}.is_of_same_client(key));
  CHECK_FALSE(CancelKey{key.pid ^ 1, key.key}.is_of_same_client(key));
}
