// The log as everybody writes it. Where lines go is the sink's business; net has the real one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pgweir {

/// PgBouncer's levels, loudest first; the words are what stands in the log.
enum class LogLevel : std::uint8_t { fatal, error, warning, log, debug, noise };

std::string_view to_string(LogLevel level) noexcept;

class Log {
 public:
  virtual ~Log() = default;
  /// Takes one message without time, pid or level; a newline in it becomes newline and tab.
  virtual void write(LogLevel level, std::string_view message) noexcept = 0;
  /// Whether a message of this level would be seen: ask before building a costly one.
  virtual bool wants(LogLevel level) const noexcept = 0;

  void error(std::string_view message) noexcept { write(LogLevel::error, message); }
  void warning(std::string_view message) noexcept { write(LogLevel::warning, message); }
  void log(std::string_view message) noexcept { write(LogLevel::log, message); }
  void debug(std::string_view message) noexcept {
    if (wants(LogLevel::debug)) write(LogLevel::debug, message);
  }
};

}  // namespace pgweir
