// log_file: where the log goes: standard error, a file, syslog, each when asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/log.h"
#include "io/io.h"
#include "net/socket.h"

namespace pgweir::net {

struct LogOptions {
  std::string file = {};  ///< Empty: no file.
  bool to_stderr = true;
  bool syslog = false;
  std::string syslog_ident = "pgbouncer";
  std::string syslog_facility = "daemon";
  int verbose = 0;  ///< 1 shows DEBUG, 2 and more also NOISE.

  bool operator==(const LogOptions&) const = default;
};

/// Whether standard error leads to systemd's journal, which keeps time and pid itself and takes the
/// priority from a line's beginning.
bool is_journal() noexcept;
/// What the journal is given: "<4>message", and the same before every further line of it.
std::string journal_lines(LogLevel level, std::string_view message);

/// Lines as PgBouncer's: `2026-11-29 20:38:14.973 UTC [pid] LEVEL message`; the journal's own form
/// when standard error leads there.
class LogFile final : public Log {
 public:
  LogFile() = default;
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  ~LogFile() override;

  /// Opens what the options name; on an error what was open stays open.
  Status configure(const LogOptions& options);
  /// Opens the file anew, for those who moved it away.
  Status reopen();

  void write(LogLevel level, std::string_view message) noexcept override;
  bool wants(LogLevel level) const noexcept override;

 private:
  std::string_view time_of_day() noexcept;

  LogOptions options_;
  const bool stderr_is_journal_ = is_journal();
  Fd file_;
  bool syslog_open_ = false;
  /// The local time up to the second: made once for all lines of that second.
  std::int64_t second_ = -1;
  std::string second_text_;
  std::string zone_text_;
  std::string time_text_;
};

/// One line as it stands in the file, for the tests and for those who write without a Log.
std::string log_line(std::string_view time, int pid, LogLevel level, std::string_view message);

}  // namespace pgweir::net
