#include "net/system_random.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace pgweir::net {
namespace {

void get_random(std::span<char> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    // Keys and salts are made of this: without chance there is no going on.
    ENSURE(got > 0 || errno == EINTR);
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

void SystemRandom::fill(std::span<char> bytes) noexcept {
  if (bytes.size() > kPortionBytes / 2) {
    get_random(bytes);
    return;
  }
  if (left_ < bytes.size()) {
    get_random(portion_);
    left_ = kPortionBytes;
  }
  char* from = portion_.data() + (kPortionBytes - left_);
  std::memcpy(bytes.data(), from, bytes.size());
  std::memset(from, 0, bytes.size());  // What was given out must not be found here later.
  left_ -= bytes.size();
}

}  // namespace pgweir::net
