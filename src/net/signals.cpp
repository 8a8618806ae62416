#include "net/signals.h"

#include "base/check.h"

namespace pgweir::net {

Signals::Signals(Loop& loop, const std::vector<int>& signals, Handler handler)
    : handler_(std::move(handler)) {
  for (const int signal : signals) {
    auto watched = make_handle<uv_signal_t>(
        this, [&](uv_signal_t* handle) { return uv_signal_init(loop.uv(), handle); });
    ENSURE(watched);
    ENSURE(uv_signal_start(
               watched.get(),
               [](uv_signal_t* handle, int number) {
                 static_cast<Signals*>(handle->data)->handler_(number);
               },
               signal) == 0);
    watched_.push_back(std::move(watched));
  }
}

}  // namespace pgweir::net
