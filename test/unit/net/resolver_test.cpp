// How long names are believed. The system's resolver is this file's own for the names that it knows.
#include "net/resolver.h"

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>

#include "harness.h"

namespace {

std::atomic<int> lookups{0};
std::atomic<const char*> address{"127.0.0.1"};

}  // namespace

/// libuv calls this one, as the program's comes before the library's.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  using Real = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host ? host : "";
  if (name == "gone.test") return ++lookups, EAI_NONAME;
  if (name == "db.test") return ++lookups, real(address, service, hints, found);
  return real(host, service, hints, found);
}

namespace pgweir::net {
namespace {

using namespace std::chrono_literals;

struct Asker final : NameUser {
  void on_resolved(const Result<std::vector<SocketAddress>>& answer) noexcept override {
    ++answers;
    found = answer.ok() ? to_address(answer->front()).host : "nothing";
  }
  int answers = 0;
  std::string found;
};

/// Asks until the system has been asked `times` times.
bool asked_again(World& world, const std::string& host, int times) {
  Asker asker;
  return world.until([&] {
    if (!asker.queue) world.resolver.resolve(host, asker);
    return lookups >= times && !asker.queue;
  });
}

std::string ask(World& world, const std::string& host) {
  Asker asker;
  world.resolver.resolve(host, asker);
  REQUIRE(world.until([&] { return asker.answers == 1; }));
  return asker.found;
}

TEST_CASE("addresses are believed for dns_max_ttl, and looked up again after it", "[net]") {
  World world;
  lookups = 0;
  address = "127.0.0.1";
  world.resolver.configure(1h, 0ms);
  CHECK(ask(world, "db.test") == "127.0.0.1");
  address = "127.0.0.2";
  for (int i = 0; i < 3; ++i) CHECK(ask(world, "db.test") == "127.0.0.1");
  CHECK(lookups == 1);
  const std::vector<io::KnownName> known = world.resolver.names();
  REQUIRE(known.size() == 1);
  CHECK(known[0].host == "db.test");
  CHECK(known[0].addresses == std::vector<std::string>{"127.0.0.1"});
  CHECK(known[0].believed_for > 3500s);
  CHECK(known[0].believed_for <= 3600s);

  World quick;
  lookups = 0;
  quick.resolver.configure(20ms, 1h);
  CHECK(ask(quick, "db.test") == "127.0.0.2");
  address = "127.0.0.3";
  REQUIRE(asked_again(quick, "db.test", 2));
  CHECK(ask(quick, "db.test") == "127.0.0.3");
}

TEST_CASE("that a name does not exist is believed for dns_nxdomain_ttl", "[net]") {
  World world;
  lookups = 0;
  world.resolver.configure(0ms, 1h);
  for (int i = 0; i < 3; ++i) CHECK(ask(world, "gone.test") == "nothing");
  CHECK(lookups == 1);
  const std::vector<io::KnownName> known = world.resolver.names();
  REQUIRE(known.size() == 1);
  CHECK(known[0].addresses.empty());
  CHECK_FALSE(known[0].pending);

  World quick;
  lookups = 0;
  quick.resolver.configure(1h, 20ms);
  CHECK(ask(quick, "gone.test") == "nothing");
  REQUIRE(asked_again(quick, "gone.test", 3));
}

TEST_CASE("a new dns_max_ttl holds for answers that come after it", "[net]") {
  World world;
  lookups = 0;
  world.resolver.configure(0ms, 0ms);
  (void)ask(world, "db.test");
  (void)ask(world, "db.test");
  CHECK(lookups == 2);
  world.resolver.configure(1h, 1h);
  (void)ask(world, "db.test");
  (void)ask(world, "db.test");
  CHECK(lookups == 3);
}

}  // namespace
}  // namespace pgweir::net
