// net: the only module that touches the operating system. It implements what others declare: io's
// transports, dialer, network and clock over libuv, monitor's Prober over libpq, the log, chance,
// signals and the process itself. Nothing but main.cpp knows it, and it knows nothing of sessions
// and pools.
//
// loop: one thread, one libuv loop, one Turner.
//
//        ┌──────────────────────────────────────────────────────────────┐
//        ▼                                                              │
//   wait in epoll ─► sockets: on_bytes, on_connected, … ─► notices ─► turn() ─► flush ─► arm the
//   timer
//
// The clock is read at most once between two waits, by whoever asks first.
#pragma once

#include <uv.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/list.h"
#include "base/time.h"
#include "io/io.h"

namespace pgweir::net {

/// What the loop does for a transport, without knowing transports: each of the three happens only
/// while the object hangs on the list of that name.
class LoopUser {
 public:
  ListHook<LoopUser> staged_hook;
  ListHook<LoopUser> notice_hook;
  ListHook<LoopUser> closing_hook;
  Time closing_until = kNever;

  /// Writes what was gathered. Calls no user back.
  virtual void flush() noexcept = 0;
  /// Tells the user what happened while he could not be called.
  virtual void deliver() noexcept = 0;
  /// The time to close politely is over.
  virtual void give_up_closing() noexcept = 0;

 protected:
  ~LoopUser() = default;
};

/// A piece of memory for bytes that are gathered within one turn. Borrowed while there are any.
struct Block {
  static constexpr std::size_t kBytes = std::size_t{16} * 1024;
  std::array<char, kBytes> bytes;
};

class Loop final : public io::Clock {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  /// Every transport, listener and prober of this loop is gone by now.
  ~Loop() override;
  /// A loop has died while a thread still worked for it (a name server, PAM, a directory that does not answer). libuv
  /// waits for such threads when the process returns from main(), maybe for ever: leave by _exit() then.
  static bool died_at_work() noexcept;

  /// Turns until stop().
  void run(io::Turner& turner) noexcept;
  void stop() noexcept;

  Time now() const noexcept override;
  WallTime wall() const noexcept override;

  // For the rest of net.
  uv_loop_t* uv() noexcept { return &core_->loop; }
  /// Where every socket is read into: valid until the next read.
  std::span<char> read_buffer() noexcept { return {read_buffer_.get(), kReadBufferBytes}; }
  /// Where encrypted bytes are decrypted to, beside the one they were read into. Made when first used.
  std::span<char> plain_buffer() {
    if (!plain_buffer_) plain_buffer_.reset(new char[kReadBufferBytes]);
    return {plain_buffer_.get(), kReadBufferBytes};
  }
  std::unique_ptr<Block> borrow_block();
  void return_block(std::unique_ptr<Block> block) noexcept;

  void stage(LoopUser& user) noexcept { staged_.push_back(user); }
  void unstage(LoopUser& user) noexcept;
  /// turn() comes at once. For who calls users from a timer: timers run before the wait, turn()
  /// after it.
  void hurry() noexcept {
    uv_idle_start(&core_->hurry, [](uv_idle_t*) {});
  }
  /// Calls deliver() before the next turn().
  void notice(LoopUser& user) noexcept;
  void close_until(LoopUser& user, Time deadline) noexcept;
  /// Takes a dying user off every list.
  void forget(LoopUser& user) noexcept;
  /// Writes all that was gathered; transports call it after each on_bytes(), so that an answer does
  /// not wait for the other sockets of the same poll.
  void flush_staged() noexcept {
    while (!staged_.empty()) staged_.pop_front()->flush();
  }

 private:
  static constexpr std::size_t kReadBufferBytes = std::size_t{64} * 1024;
  static constexpr std::size_t kSpareBlocksMax = 64;

  /// On the heap by itself: a resolver thread that is still busy when the process ends may touch
  /// it.
  struct Core {
    uv_loop_t loop;
    uv_prepare_t before_wait;
    uv_check_t after_wait;
    uv_timer_t timer;
    uv_idle_t hurry;
  };

  void after_wait() noexcept;
  void deliver_notices() noexcept;
  void expire_closing() noexcept;
  void arm(Time next) noexcept;

  Core* core_;
  io::Turner* turner_ = nullptr;
  std::unique_ptr<char[]> read_buffer_;
  std::unique_ptr<char[]> plain_buffer_;
  std::vector<std::unique_ptr<Block>> spare_blocks_;
  List<LoopUser, &LoopUser::staged_hook> staged_;
  List<LoopUser, &LoopUser::notice_hook> notices_;
  /// Ordered by deadline: all get the same time.
  List<LoopUser, &LoopUser::closing_hook> closing_;
  Time armed_for_ = kNever;
  mutable Time now_{};
  mutable WallTime wall_{};
  mutable bool now_is_fresh_ = false;
  mutable bool wall_is_fresh_ = false;
};

}  // namespace pgweir::net
