// Time as every module takes it: handed in by the caller, who reads the clock once per loop turn.
#pragma once

#include <chrono>

namespace pgweir {

using Duration = std::chrono::microseconds;
/// Monotonic time. Where it starts means nothing; only differences do.
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;
/// Time of day, for the log and for columns that show one.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

/// Later than everything: a deadline that never comes.
inline constexpr Time kNever = Time::max();

}  // namespace pgweir
