#include "base/log.h"

#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace pgweir {

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::fatal: return "FATAL";
    case LogLevel::error: return "ERROR";
    case LogLevel::warning: return "WARNING";
    case LogLevel::log: return "LOG";
    case LogLevel::debug: return "DEBUG";
    case LogLevel::noise: return "NOISE";
  }
  return "?";
}

void ensure_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace pgweir
