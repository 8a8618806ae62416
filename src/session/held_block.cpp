#include "session/held_block.h"

#include "base/check.h"

namespace pgweir::session {

std::optional<BlockState> next(BlockState from, BlockEvent event) noexcept {
  using enum BlockState;
  switch (from) {
    case none:
      if (event == BlockEvent::begin) return begun;
      if (event == BlockEvent::lose) return failed;
      if (event == BlockEvent::chain) return begun;
      return std::nullopt;
    case begun:
    case reading:
      switch (event) {
        case BlockEvent::begin: return std::nullopt;
        case BlockEvent::read: return reading;
        case BlockEvent::fail: return failed;
        case BlockEvent::leave: return none;
        case BlockEvent::chain: return begun;
        case BlockEvent::lose: return std::nullopt;
      }
      return std::nullopt;
    case failed:
      if (event == BlockEvent::leave) return none;
      if (event == BlockEvent::chain) return begun;
      return std::nullopt;
  }
  return std::nullopt;
}

std::string_view to_string(BlockState state) noexcept {
  switch (state) {
    case BlockState::none: return "none";
    case BlockState::begun: return "begun";
    case BlockState::reading: return "reading";
    case BlockState::failed: return "failed";
  }
  return "?";
}

void HeldBlock::enter(BlockEvent event) noexcept {
  const std::optional<BlockState> to = next(state_, event);
  ENSURE(to.has_value());
  state_ = *to;
  if (state_ != BlockState::failed) lost_ = false;
}

void HeldBlock::lose() noexcept {
  enter(BlockEvent::lose);
  lost_ = true;
}

void HeldBlock::begin(Bytes text, BlockRoute route, Time now) {
  enter(BlockEvent::begin);
  text_ = text;
  route_ = route;
  since_ = now;
}

void HeldBlock::chain(Time now) noexcept {
  enter(BlockEvent::chain);
  since_ = now;
}

void HeldBlock::append_opening(std::string& out) const {
  out += text_;
  // On a line of its own: the text may end in a comment.
  switch (state_) {
    case BlockState::none:
    case BlockState::begun: break;
    case BlockState::reading: out += "\n;SELECT"; break;  // SET TRANSACTION comes too late now, as the client will be told.
    case BlockState::failed: out += "\n;ROLLBACK TO SAVEPOINT pgweir_failed"; break;
  }
}

}  // namespace pgweir::session
