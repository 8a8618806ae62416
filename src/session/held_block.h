// A transaction block whose BEGIN was answered here while no server knows of it: until it is known where it is to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/time.h"

namespace pgweir::session {

//   none ──BEGIN──► begun ──answer of a replica──► reading ──error that the client was told──► failed
//    ▲                └────────────────────────────────────────────────────────────────────────► ▲
//    └── COMMIT or ROLLBACK answered here, or a server has begun it ◄── begun, reading, failed
//
// AND CHAIN leads back to begun, also from none when a replica has run the block to its end. A replica that is lost with the
// transaction leads from none to failed.
enum class BlockState : std::uint8_t { none, begun, reading, failed };
enum class BlockEvent : std::uint8_t { begin, read, fail, leave, chain, lose };

/// Where `event` leads from `from`; nullopt when it can't happen there.
std::optional<BlockState> next(BlockState from, BlockEvent event) noexcept;
std::string_view to_string(BlockState state) noexcept;

/// How its reads come to a replica.
enum class BlockRoute : std::uint8_t {
  by_statement,  ///< READ COMMITTED: each has a snapshot of its own, so each may be run by itself, wherever it is fresh enough
  whole,         ///< one snapshot for all of them: the transaction begins on a replica, and ends there
};

class HeldBlock {
 public:
  /// Keeps the memory of the last one.
  void begin(Bytes text, BlockRoute route, Time now);
  void enter(BlockEvent event) noexcept;

  BlockState state() const noexcept { return state_; }
  bool open() const noexcept { return state_ != BlockState::none; }
  BlockRoute route() const noexcept { return route_; }
  Time since() const noexcept { return since_; }
  void chain(Time now) noexcept;
  /// The replica that had begun it is gone. The client is told when it asks for something.
  void lose() noexcept;
  /// True once: it has not been told.
  bool take_loss() noexcept { return std::exchange(lost_, false); }
  /// The transaction status that the client is told.
  char status() const noexcept { return state_ == BlockState::failed ? 'E' : 'T'; }
  /// What a server is sent so that it stands where the client does: in a transaction that has had its snapshot if one was read, and
  /// has failed if it has.
  void append_opening(std::string& out) const;

 private:
  BlockState state_ = BlockState::none;
  BlockRoute route_ = BlockRoute::by_statement;
  std::string text_;
  Time since_{};
  bool lost_ = false;
};

}  // namespace pgweir::session
