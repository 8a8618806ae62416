#include "net/loop.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace pgweir::net {

namespace chrono = std::chrono;

namespace {
bool a_loop_died_at_work = false;
}  // namespace

Loop::Loop() : core_(new Core), read_buffer_(new char[kReadBufferBytes]) {
  ENSURE(uv_loop_init(&core_->loop) == 0);
  core_->loop.data = this;
  uv_prepare_init(&core_->loop, &core_->before_wait);
  uv_check_init(&core_->loop, &core_->after_wait);
  uv_timer_init(&core_->loop, &core_->timer);
  uv_idle_init(&core_->loop, &core_->hurry);
  uv_prepare_start(&core_->before_wait, [](uv_prepare_t* handle) {
    auto* self = static_cast<Loop*>(handle->loop->data);
    self->now_is_fresh_ = self->wall_is_fresh_ = false;
  });
  uv_check_start(&core_->after_wait,
                 [](uv_check_t* handle) { static_cast<Loop*>(handle->loop->data)->after_wait(); });
}

Loop::~Loop() {
  ENSURE(staged_.empty() && notices_.empty() && closing_.empty());
  turner_ = nullptr;
  for (uv_handle_t* handle : {reinterpret_cast<uv_handle_t*>(&core_->before_wait),
                              reinterpret_cast<uv_handle_t*>(&core_->after_wait),
                              reinterpret_cast<uv_handle_t*>(&core_->timer),
                              reinterpret_cast<uv_handle_t*>(&core_->hurry)}) {
    uv_close(handle, nullptr);
  }
  // Close callbacks of what died before us run now. A resolver thread may be stuck in a name
  // server's time-out; waiting for it would delay the end of the process, so its loop is left
  // behind.
  for (int round = 0; round < 3; ++round) uv_run(&core_->loop, UV_RUN_NOWAIT);
  if (uv_loop_close(&core_->loop) == 0) {
    delete core_;
  } else {
    a_loop_died_at_work = true;
  }
}

bool Loop::died_at_work() noexcept { return a_loop_died_at_work; }

void Loop::run(io::Turner& turner) noexcept {
  turner_ = &turner;
  now_is_fresh_ = wall_is_fresh_ = false;
  uv_update_time(&core_->loop);
  after_wait();
  uv_run(&core_->loop, UV_RUN_DEFAULT);
  turner_ = nullptr;
}

void Loop::stop() noexcept { uv_stop(&core_->loop); }

Time Loop::now() const noexcept {
  if (!now_is_fresh_) {
    now_ = chrono::time_point_cast<Duration>(chrono::steady_clock::now());
    now_is_fresh_ = true;
  }
  return now_;
}

WallTime Loop::wall() const noexcept {
  if (!wall_is_fresh_) {
    wall_ = chrono::time_point_cast<Duration>(chrono::system_clock::now());
    wall_is_fresh_ = true;
  }
  return wall_;
}

std::unique_ptr<Block> Loop::borrow_block() {
  // make_unique would write zeros over memory that is about to be overwritten.
  if (spare_blocks_.empty()) return std::unique_ptr<Block>(new Block);
  std::unique_ptr<Block> block = std::move(spare_blocks_.back());
  spare_blocks_.pop_back();
  return block;
}

void Loop::return_block(std::unique_ptr<Block> block) noexcept {
  if (block && spare_blocks_.size() < kSpareBlocksMax) spare_blocks_.push_back(std::move(block));
}

void Loop::unstage(LoopUser& user) noexcept {
  if (user.staged_hook.linked) staged_.remove(user);
}

void Loop::notice(LoopUser& user) noexcept {
  if (user.notice_hook.linked) return;
  notices_.push_back(user);
  // The wait must not last while somebody has to be told something.
  hurry();
}

void Loop::close_until(LoopUser& user, Time deadline) noexcept {
  if (user.closing_hook.linked) return;
  user.closing_until = deadline;
  closing_.push_back(user);
  if (deadline < armed_for_) arm(deadline);
}

void Loop::forget(LoopUser& user) noexcept {
  if (user.staged_hook.linked) staged_.remove(user);
  if (user.notice_hook.linked) notices_.remove(user);
  if (user.closing_hook.linked) closing_.remove(user);
}

void Loop::after_wait() noexcept {
  uv_idle_stop(&core_->hurry);
  deliver_notices();
  expire_closing();
  Time next = turner_ ? turner_->turn() : kNever;
  flush_staged();
  if (!closing_.empty()) next = std::min(next, closing_.front()->closing_until);
  if (!notices_.empty()) hurry();
  arm(next);
}

void Loop::deliver_notices() noexcept {
  // What is noticed while these are delivered waits for the next round, so that this one ends.
  for (std::size_t left = notices_.size(); left > 0; --left) {
    LoopUser* user = notices_.pop_front();
    if (!user) return;
    user->deliver();
  }
}

void Loop::expire_closing() noexcept {
  while (!closing_.empty() && closing_.front()->closing_until <= now()) {
    closing_.pop_front()->give_up_closing();
  }
}

void Loop::arm(Time next) noexcept {
  // A timer that fires too early costs one idle turn; moving it with every turn would cost more.
  if (armed_for_ > now() && armed_for_ <= next && armed_for_ != kNever) return;
  armed_for_ = next;
  if (next == kNever) {
    uv_timer_stop(&core_->timer);
    return;
  }
  // libuv counts from the time it read last, which is older than now() by as long as this process was held up since. Both are readings of
  // CLOCK_MONOTONIC, so the moment itself is what both agree on.
  const auto due = static_cast<std::uint64_t>(chrono::ceil<chrono::milliseconds>(next.time_since_epoch()).count());
  const std::uint64_t known = uv_now(&core_->loop);
  uv_timer_start(
      &core_->timer,
      [](uv_timer_t* timer) {
        auto* self = static_cast<Loop*>(timer->loop->data);
        self->armed_for_ = kNever;
        self->hurry();
      },
      due > known ? due - known : 0, 0);
}

}  // namespace pgweir::net
