// Chance, handed in: the system's in production, a seed's in the simulator.
#pragma once

#include <cstdint>
#include <span>

namespace pgweir {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<char> bytes) noexcept = 0;

  std::uint64_t next() noexcept;
  std::uint32_t next_u32() noexcept { return static_cast<std::uint32_t>(next()); }
};

}  // namespace pgweir
