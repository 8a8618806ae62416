// system_random: chance from the kernel, fetched in portions.
#pragma once

#include <array>

#include "base/random.h"

namespace pgweir::net {

class SystemRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override;

 private:
  /// What getrandom() gives without being interrupted.
  static constexpr std::size_t kPortionBytes = 256;
  std::array<char, kPortionBytes> portion_{};
  std::size_t left_ = 0;
};

}  // namespace pgweir::net
