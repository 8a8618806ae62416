// Chance without chance, for tests: each draw differs from the last and is the same on each run.
#pragma once

#include "base/random.h"

namespace pgweir::auth {

class FixedRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = static_cast<char>(state_ = state_ * 1103515245 + 12345);
  }

 private:
  unsigned state_ = 1;
};

}  // namespace pgweir::auth
