// process: what a service does to itself at start: whose it is, whether it stays in the foreground,
// its pidfile, how many descriptors it may have, and what it tells systemd.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/socket.h"

namespace pgweir::net {

/// Becomes that user, with his groups. Nothing happens when we are him already.
Status switch_to_user(const std::string& name);
bool is_root() noexcept;
std::int64_t own_uid() noexcept;

/// Leaves the terminal: the caller goes on in a grandchild, standard streams are /dev/null. Threads
/// and loops are made after this.
Status daemonize();

/// The pid in a file, kept while the process lives.
class Pidfile {
 public:
  Pidfile() = default;
  Pidfile(const Pidfile&) = delete;
  Pidfile& operator=(const Pidfile&) = delete;
  ~Pidfile();

  struct Found {
    bool stale = false;  ///< A file of a dead process was removed.
    int pid = 0;
  };
  /// Refuses when the file names a living process; removes it when that one is dead. An empty path
  /// is fine.
  static Result<Found> check(const std::string& path);
  /// Writes our own pid. Call it in the process that stays.
  Status write(const std::string& path);

 private:
  std::string path_;
};

/// Soft and hard limit of open descriptors, after the soft one was raised as far as it goes.
struct DescriptorLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};
DescriptorLimit raise_descriptor_limit() noexcept;

/// The sockets that systemd opened for us (LISTEN_FDS); empty when it did not. Call it before
/// daemonize(), which changes our pid, and only once: the environment forgets them.
std::vector<Fd> take_passed_sockets();

/// Writing to a connection that is gone must be an error, not the end.
void ignore_broken_pipes() noexcept;

/// Tells systemd, when it listens: "READY=1", "STOPPING=1", "STATUS=…".
void notify_service_manager(std::string_view state) noexcept;
/// "RELOADING=1" with the monotonic time that systemd wants beside it.
void notify_reloading() noexcept;

}  // namespace pgweir::net
