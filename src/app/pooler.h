// app: the Pooler owns every part (clients, servers, pools, clusters, the console's world) and
// wires them. It sees the outside world only through what Parts hands in, so the simulator runs it
// as it is.
//
//   Pooler pooler({clock, network, dialer, prober, random, log, files, getuid()});
//   if (Status ok = pooler.configure("pgweir.ini"); !ok) …    // settings() is there from here on
//   if (Status ok = pooler.start(); !ok) …                    // listens
//   loop.run(pooler);                                         // until finished()
//
// All that rearranges the world happens in turn(); callbacks of sessions only take note.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "admin/world.h"
#include "auth/password_checker.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "config/settings.h"
#include "io/io.h"
#include "monitor/prober.h"

namespace pgweir::app {

/// The outside world; borrowed for the Pooler's life.
struct Parts {
  io::Clock& clock;
  io::Network& network;
  io::Dialer& dialer;
  monitor::Prober& prober;
  Random& random;
  Log& log;
  const config::IniSource& files;  ///< Opens the configuration and auth_file.
  std::int64_t own_uid =
      -1;  ///< Whose Unix-socket peers may be the console user `pgbouncer` without a password.
  auth::PasswordChecker* passwords = nullptr;  ///< PAM, LDAP and accounts; null: nobody comes in by them.
  io::Tls* tls = nullptr;  ///< Null: nobody gets encryption.
};

/// How the process ends: at once; when no client holds a server (as SIGINT); when all clients have
/// left (as SIGTERM).
enum class Shutdown : std::uint8_t { now, wait_for_servers, wait_for_clients };

class Pooler final : public io::Turner {
 public:
  class Impl;  // impl.h: for app alone

  explicit Pooler(const Parts& parts);
  ~Pooler();
  Pooler(const Pooler&) = delete;
  Pooler& operator=(const Pooler&) = delete;

  /// Reads the configuration at `path` (with no console around, an error is the caller's to tell).
  Status configure(const std::string& path);
  /// Opens the listening sockets and begins to watch the clusters. Fails when not one address can
  /// be listened on.
  Status start();
  /// In force now. Valid until the next reload: don't keep the reference.
  const config::Settings& settings() const noexcept;

  // What signals ask for; done in the next turn.
  /// Reads the files again; a bad file changes nothing and the log says why.
  void request_reload() noexcept;
  void pause_all() noexcept;
  void resume_all() noexcept;
  /// A second request while one waits ends the process at once.
  void request_shutdown(Shutdown how) noexcept;
  /// The statistics of the period that has ended since this was asked last; empty when none has.
  std::string take_stats_line() noexcept;
  /// Nothing is left to do: stop the loop, the process may end.
  bool finished() const noexcept;

  Time turn() noexcept override;

  /// What the console and the metrics show.
  admin::World& world() noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgweir::app
