#include "net/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "harness.h"
#include "net/signals.h"

namespace pgweir::net {
namespace {

TEST_CASE("a pidfile is written, refused while its process lives, and goes with its owner",
          "[net]") {
  const std::string path = "/tmp/pgweir-pid-" + std::to_string(::getpid());
  {
    Pidfile pidfile;
    REQUIRE(pidfile.write(path).ok());
    std::ifstream in(path);
    int pid = 0;
    in >> pid;
    REQUIRE(pid == ::getpid());
    REQUIRE_FALSE(Pidfile().write(path).ok());
  }
  REQUIRE(::access(path.c_str(), F_OK) != 0);

  std::ofstream(path) << "1\n";
  const Result<Pidfile::Found> alive = Pidfile::check(path);
  REQUIRE_FALSE(alive.ok());
  REQUIRE(alive.error().text().find("process 1 is alive") != std::string::npos);
  std::ofstream(path) << "what\n";
  REQUIRE_FALSE(Pidfile::check(path).ok());
  ::unlink(path.c_str());
}

TEST_CASE("a pidfile of a dead process is removed", "[net]") {
  const std::string path = "/tmp/pgweir-stale-" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  std::ofstream(path) << child << "\n";
  const Result<Pidfile::Found> found = Pidfile::check(path);
  REQUIRE(found.ok());
  REQUIRE(found->stale);
  REQUIRE(found->pid == child);
  REQUIRE(::access(path.c_str(), F_OK) != 0);
  REQUIRE(Pidfile::check(path).ok());
}

TEST_CASE("an unknown user is an error that names him", "[net]") {
  const Status status = switch_to_user("no-such-user-here");
  REQUIRE_FALSE(status.ok());
  REQUIRE(status.error().text() == "user = \"no-such-user-here\": no such user");
}

TEST_CASE("a signal is an event of the loop", "[net]") {
  World world;
  int got = 0;
  const Signals signals(world.loop, {SIGUSR1, SIGHUP}, [&](int signal) { got = signal; });
  ::kill(::getpid(), SIGUSR1);
  REQUIRE(world.until([&] { return got == SIGUSR1; }));
}

TEST_CASE("the limit of descriptors is raised to what is allowed", "[net]") {
  const DescriptorLimit limit = raise_descriptor_limit();
  REQUIRE(limit.soft > 0);
  REQUIRE(limit.soft == limit.hard);
}

TEST_CASE("the service manager hears what it is told", "[net]") {
  const std::string name = "@pgweir-notify-" + std::to_string(::getpid());
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  address.sun_path[0] = '\0';
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0);
  ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  notify_service_manager("READY=1");
  ::unsetenv("NOTIFY_SOCKET");
  char text[64];
  const ssize_t size = ::recv(socket.get(), text, sizeof text, MSG_DONTWAIT);
  REQUIRE(std::string_view(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))) ==
          "READY=1");
}

}  // namespace
}  // namespace pgweir::net
