#include "net/loop.h"

#include "harness.h"
#include "net/system_random.h"

namespace pgweir::net {
namespace {

struct Sleeper final : io::Turner {
  explicit Sleeper(Loop& the_loop) : loop(the_loop) {}
  Time turn() noexcept override {
    times.push_back(loop.now());
    if (times.size() == 4) loop.stop();
    return loop.now() + std::chrono::milliseconds(20);
  }
  Loop& loop;
  std::vector<Time> times;
};

TEST_CASE("turn is called when the time it asked for has come, and not before", "[net]") {
  Loop loop;
  Sleeper sleeper(loop);
  loop.run(sleeper);
  REQUIRE(sleeper.times.size() == 4);
  for (std::size_t i = 1; i < 4; ++i) {
    const auto waited = sleeper.times[i] - sleeper.times[i - 1];
    REQUIRE(waited >= std::chrono::milliseconds(19));
    REQUIRE(waited < std::chrono::seconds(20));  // However busy the machine is.
  }
}

TEST_CASE("the clock stands still within one turn", "[net]") {
  Loop loop;
  const Time first = loop.now();
  const Time start = Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
  while (Time(std::chrono::duration_cast<Duration>(
             std::chrono::steady_clock::now().time_since_epoch())) -
             start <
         std::chrono::milliseconds(2)) {
  }
  REQUIRE(loop.now() == first);
}

TEST_CASE("an earlier deadline replaces a later one and a later one does not lose the earlier",
          "[net]") {
  struct Steps final : io::Turner {
    explicit Steps(Loop& the_loop) : loop(the_loop) {}
    Time turn() noexcept override {
      ++turns;
      if (turns == 1) return loop.now() + std::chrono::seconds(10);
      loop.stop();
      return kNever;
    }
    Loop& loop;
    int turns = 0;
  };
  World world;
  Pair pair(world);
  Steps steps(world.loop);
  pair.say("x");  // The event brings the second turn long before the ten seconds.
  world.loop.run(steps);
  REQUIRE(steps.turns == 2);
  REQUIRE(pair.user.got == "x");
}

TEST_CASE("chance does not repeat itself", "[net]") {
  SystemRandom random;
  std::vector<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.push_back(random.next());
  std::sort(seen.begin(), seen.end());
  REQUIRE(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  std::string large(1000, '\0');
  random.fill(std::span<char>(large.data(), large.size()));
  REQUIRE(large != std::string(1000, '\0'));
}

}  // namespace
}  // namespace pgweir::net
