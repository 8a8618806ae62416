// signals: Unix signals as events of the loop. Made before anything listens, so that none arrives
// unhandled.
#pragma once

#include <functional>
#include <vector>

#include "net/handle.h"
#include "net/loop.h"

namespace pgweir::net {

class Signals {
 public:
  using Handler = std::function<void(int signal)>;

  Signals(Loop& loop, const std::vector<int>& signals, Handler handler);

 private:
  Handler handler_;
  std::vector<Handle<uv_signal_t>> watched_;
};

}  // namespace pgweir::net
