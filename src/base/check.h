// ENSURE: an invariant whose breach could show one client's data to another. On in every build.
#pragma once

namespace pgweir {

/// Writes what was broken and where to standard error and aborts.
[[noreturn]] void ensure_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace pgweir

#define ENSURE(condition) \
  ((condition) ? static_cast<void>(0) : ::pgweir::ensure_failed(#condition, __FILE__, __LINE__))
