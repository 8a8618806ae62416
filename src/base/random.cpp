#include "base/random.h"

#include <cstring>

namespace pgweir {

std::uint64_t Random::next() noexcept {
  char bytes[sizeof(std::uint64_t)];
  fill(bytes);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace pgweir
