// handle: a libuv handle as something that is owned. libuv keeps the memory until its close
// callback, after which no other callback of that handle comes.
#pragma once

#include <uv.h>

#include <memory>

namespace pgweir::net {

struct CloseHandle {
  template <class T>
  void operator()(T* handle) const noexcept {
    uv_close(reinterpret_cast<uv_handle_t*>(handle),
             [](uv_handle_t* closed) { delete reinterpret_cast<T*>(closed); });
  }
};

/// uv_poll_t, uv_timer_t, uv_signal_t; initialised, with `data` pointing at its user.
template <class T>
using Handle = std::unique_ptr<T, CloseHandle>;

/// Initialises with `init(handle)`; null when that fails.
template <class T, class Init>
Handle<T> make_handle(void* data, Init init) {
  auto fresh = std::make_unique<T>();
  if (init(fresh.get()) != 0) return nullptr;
  fresh->data = data;
  return Handle<T>(fresh.release());
}

}  // namespace pgweir::net
