#include "net/process.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "net/socket.h"

namespace pgweir::net {

bool is_root() noexcept { return ::geteuid() == 0; }

std::int64_t own_uid() noexcept { return static_cast<std::int64_t>(::geteuid()); }

Status switch_to_user(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  if (!entry) return Error(concat({"user = \"", name, "\": no such user"}));
  if (entry->pw_uid == ::geteuid()) return {};
  // Groups first: afterwards we may not any more.
  if (::initgroups(entry->pw_name, entry->pw_gid) != 0 || ::setgid(entry->pw_gid) != 0 ||
      ::setuid(entry->pw_uid) != 0) {
    return Error(concat({"user = \"", name, "\": can't switch to it: ", error_text(errno)}));
  }
  if (entry->pw_uid != 0 && ::setuid(0) == 0)
    return Error(concat({"user = \"", name, "\": root can be regained"}));
  return {};
}

Status daemonize() {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return Error("/dev/null: " + error_text(errno));
  // Twice: the grandchild leads no session, so no terminal can become its own.
  for (int generation = 0; generation < 2; ++generation) {
    const pid_t child = ::fork();
    if (child < 0) return Error("fork: " + error_text(errno));
    if (child > 0) ::_exit(0);
    if (generation == 0 && ::setsid() < 0) return Error("setsid: " + error_text(errno));
  }
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(null.get(), stream) < 0) return Error("dup2: " + error_text(errno));
  }
  return {};
}

Result<Pidfile::Found> Pidfile::check(const std::string& path) {
  if (path.empty()) return Found{};
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return Found{};
    return Error(concat({"pidfile = \"", path, "\": ", error_text(errno)}));
  }
  char text[64];
  const ssize_t size = ::read(file.get(), text, sizeof text);
  const std::string_view content =
      trimmed(std::string_view(text, size > 0 ? static_cast<std::size_t>(size) : 0));
  Found found;
  const auto [end, error] =
      std::from_chars(content.data(), content.data() + content.size(), found.pid);
  if (error != std::errc() || found.pid <= 0) {
    return Error(concat(
        {"pidfile = \"", path, "\" holds no process id: remove it if no pgweir is running"}));
  }
  if (found.pid == ::getpid() || ::kill(found.pid, 0) == 0 || errno == EPERM) {
    // Our own number from an earlier life, as happens in containers, is no other process.
    if (found.pid != ::getpid()) {
      return Error(concat(
          {"pidfile \"", path, "\" exists and process ", std::to_string(found.pid), " is alive"}));
    }
  }
  if (::unlink(path.c_str()) != 0)
    return Error(concat({"pidfile = \"", path, "\": ", error_text(errno)}));
  found.stale = true;
  return found;
}

Status Pidfile::write(const std::string& path) {
  if (path.empty()) return {};
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const std::string text = std::to_string(::getpid()) + "\n";
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error(concat({"pidfile = \"", path, "\": ", error_text(errno)}));
  }
  path_ = path;
  return {};
}

Pidfile::~Pidfile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

DescriptorLimit raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return {limit.rlim_cur, limit.rlim_max};
}

std::vector<Fd> take_passed_sockets() {
  constexpr int kFirst = 3;  // after the standard streams, says systemd
  constexpr int kPassedMax = 1000;
  const auto number = [](const char* name) {
    const char* text = ::getenv(name);
    return text ? std::atoi(text) : 0;
  };
  const bool for_us = number("LISTEN_PID") == ::getpid();
  const int count = for_us ? std::min(number("LISTEN_FDS"), kPassedMax) : 0;
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  std::vector<Fd> sockets;
  for (int fd = kFirst; fd < kFirst + count; ++fd) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) sockets.emplace_back(fd);
  }
  return sockets;
}

void ignore_broken_pipes() noexcept { (void)::signal(SIGPIPE, SIG_IGN); }

void notify_service_manager(std::string_view state) noexcept {
  const char* path = ::getenv("NOTIFY_SOCKET");
  if (!path || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::strlen(path);
  if (size >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  // Whoever started us may have stopped listening; that is his business.
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size));
}

void notify_reloading() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  notify_service_manager(concat({"RELOADING=1\nMONOTONIC_USEC=",
                                 std::to_string(now.tv_sec * 1'000'000 + now.tv_nsec / 1000)}));
}

}  // namespace pgweir::net
