#include "net/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/text.h"

namespace pgweir::net {
namespace {

struct Facility {
  std::string_view word;
  int number;
};
constexpr Facility kFacilities[] = {
    {"auth", LOG_AUTH},     {"authpriv", LOG_AUTHPRIV}, {"cron", LOG_CRON},
    {"daemon", LOG_DAEMON}, {"ftp", LOG_FTP},           {"kern", LOG_KERN},
    {"lpr", LOG_LPR},       {"mail", LOG_MAIL},         {"news", LOG_NEWS},
    {"syslog", LOG_SYSLOG}, {"user", LOG_USER},         {"uucp", LOG_UUCP},
    {"local0", LOG_LOCAL0}, {"local1", LOG_LOCAL1},     {"local2", LOG_LOCAL2},
    {"local3", LOG_LOCAL3}, {"local4", LOG_LOCAL4},     {"local5", LOG_LOCAL5},
    {"local6", LOG_LOCAL6}, {"local7", LOG_LOCAL7},
};

Result<int> facility_number(const std::string& word) {
  for (const Facility& facility : kFacilities) {
    if (equals_ignoring_case(facility.word, word)) return facility.number;
  }
  return Error(
      concat({"syslog_facility = \"", word, "\": expected a facility such as daemon or local0"}));
}

int syslog_priority(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::fatal:
      return LOG_CRIT;
    case LogLevel::error:
      return LOG_ERR;
    case LogLevel::warning:
      return LOG_WARNING;
    case LogLevel::log:
      return LOG_INFO;
    case LogLevel::debug:
    case LogLevel::noise:
      return LOG_DEBUG;
  }
  return LOG_INFO;
}

Result<Fd> open_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return Error(concat({"logfile = \"", path, "\": ", error_text(errno)}));
  return file;
}

}  // namespace

std::string log_line(std::string_view time, int pid, LogLevel level, std::string_view message) {
  std::string line = concat({time, " [", std::to_string(pid), "] ", to_string(level), " "});
  line.reserve(line.size() + message.size() + 8);
  for (const char c : message) {
    line += c;
    if (c == '\n') line += '\t';
  }
  line += '\n';
  return line;
}

bool is_journal() noexcept {
  const char* stream = ::getenv("JOURNAL_STREAM");  // "8:31415": device and inode
  if (!stream) return false;
  struct stat here {};
  if (::fstat(STDERR_FILENO, &here) != 0) return false;
  // Somebody in between may have led it elsewhere, so that the variable alone proves nothing.
  return concat({std::to_string(here.st_dev), ":", std::to_string(here.st_ino)}) == stream;
}

std::string journal_lines(LogLevel level, std::string_view message) {
  const std::string prefix = concat({"<", std::to_string(syslog_priority(level)), ">"});
  std::string lines = prefix;
  for (const char c : message) {
    lines += c;
    if (c == '\n') lines += prefix + '\t';
  }
  lines += '\n';
  return lines;
}

LogFile::~LogFile() {
  if (syslog_open_) ::closelog();
}

Status LogFile::configure(const LogOptions& options) {
  Fd file;
  if (!options.file.empty()) {
    Result<Fd> opened = open_file(options.file);
    if (!opened) return opened.error();
    file = *std::move(opened);
  }
  int facility = LOG_DAEMON;
  if (options.syslog) {
    Result<int> number = facility_number(options.syslog_facility);
    if (!number) return number.error();
    facility = *number;
  }
  options_ = options;
  file_ = std::move(file);
  if (syslog_open_) ::closelog();
  syslog_open_ = options_.syslog;
  // openlog() keeps the pointer, so it gets the copy that lives as long as we do.
  if (syslog_open_) ::openlog(options_.syslog_ident.c_str(), LOG_PID, facility);
  return {};
}

Status LogFile::reopen() {
  if (options_.file.empty()) return {};
  Result<Fd> opened = open_file(options_.file);
  if (!opened) return opened.error();
  file_ = *std::move(opened);
  return {};
}

bool LogFile::wants(LogLevel level) const noexcept {
  switch (level) {
    case LogLevel::fatal:
    case LogLevel::error:
    case LogLevel::warning:
    case LogLevel::log:
      return true;
    case LogLevel::debug:
      return options_.verbose >= 1;
    case LogLevel::noise:
      return options_.verbose >= 2;
  }
  return true;
}

void LogFile::write(LogLevel level, std::string_view message) noexcept {
  if (!wants(level)) return;
  const auto put = [](int fd, const std::string& text) {
    // A log that can't be written is no reason to stop serving, and there is nobody to tell.
    if (::write(fd, text.data(), text.size()) < 0) errno = 0;
  };
  const std::string line = log_line(time_of_day(), ::getpid(), level, message);
  if (options_.to_stderr)
    put(STDERR_FILENO, stderr_is_journal_ ? journal_lines(level, message) : line);
  if (file_) put(file_.get(), line);
  if (syslog_open_) {
    ::syslog(syslog_priority(level), "%.*s", static_cast<int>(message.size()), message.data());
  }
}

std::string_view LogFile::time_of_day() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec != second_) {
    second_ = now.tv_sec;
    std::tm local{};
    ::localtime_r(&now.tv_sec, &local);
    char text[64];
    second_text_.assign(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local));
    zone_text_.assign(text, std::strftime(text, sizeof text, " %Z", &local));
  }
  char millis[8];
  std::snprintf(millis, sizeof millis, ".%03d", static_cast<int>(now.tv_nsec / 1'000'000 % 1000));
  time_text_.assign(second_text_).append(millis).append(zone_text_);
  return time_text_;
}

}  // namespace pgweir::net
