#include "net/libpq_prober.h"

#include "base/bytes.h"
#include "base/text.h"
#include "harness.h"

namespace pgweir::net {
namespace {

std::string message(char type, std::string_view body) {
  char size[4];
  store_u32(size, static_cast<std::uint32_t>(body.size() + 4));
  return std::string(1, type).append(size, 4).append(body);
}

/// The least of a PostgreSQL that libpq is content with: one text column, scripted answers.
struct ToyPostgres final : io::Acceptor, io::TransportUser {
  explicit ToyPostgres(World& the_world) : world(the_world) {
    listener = *world.network.listen({.host = "127.0.0.1", .port = 0}, *this);
    const std::string name = listener->name();
    port = static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
  }

  void on_accepted(std::unique_ptr<io::Door> door) noexcept override {
    ++logins;
    started = false;
    pending.clear();
    transport = door->admit(*this);
  }
  void on_bytes(Bytes bytes) noexcept override {
    pending += bytes;
    while (!pending.empty() && answer_one()) {
    }
  }
  void on_drained() noexcept override {}
  void on_closed(const Error&) noexcept override {}

  bool answer_one() {
    const std::size_t head = started ? 1 : 0;
    if (pending.size() < head + 4) return false;
    const std::size_t size = head + load_u32(pending.data() + head);
    if (pending.size() < size) return false;
    const std::string whole = pending.substr(0, size);
    pending.erase(0, size);
    if (!started) {
      if (load_u32(whole.data() + 4) == 80877103) {
        transport->send("N");
      } else {
        started = true;
        if (wants_password) {
          transport->send(message('R', std::string("\0\0\0\3", 4)));
          return true;
        }
        transport->send(refusal.empty()
                            ? message('R', std::string(4, '\0')) + message('Z', "I")
                            : message('E', std::string("SFATAL\0VFATAL\0C28P01\0M", 22) + refusal +
                                               std::string(2, '\0')));
      }
      return true;
    }
    if (whole[0] == 'X') return true;
    questions.push_back(whole.substr(5, whole.size() - 6));
    if (questions.back() == "silence") return true;
    if (questions.back() == "die") {
      transport->close();
      return false;
    }
    if (questions.back() == "wrong") {
      transport->send(message('E', std::string("SERROR\0VERROR\0C42601\0Mno sense\0\0", 32)) +
                      message('Z', "I"));
      return true;
    }
    const std::string column =
        std::string("\0\1c\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0", 22);
    std::string value(6, '\0');
    store_u16(value.data(), 1);
    store_u32(value.data() + 2, static_cast<std::uint32_t>(questions.back().size()));
    value += questions.back();
    std::string null(2, '\0');
    store_u16(null.data(), 1);
    null += "\377\377\377\377";
    transport->send(message('T', column) + message('D', value) + message('D', null) +
                    message('C', std::string("SELECT 2\0", 9)) + message('Z', "I"));
    return true;
  }

  World& world;
  std::unique_ptr<io::Listener> listener;
  std::uint16_t port = 0;
  std::unique_ptr<io::Transport> transport;
  std::string pending;
  std::string refusal;
  bool wants_password = false;
  bool started = false;
  int logins = 0;
  std::vector<std::string> questions;
};

struct Asker final : monitor::ProbeUser {
  void on_answer(std::uint64_t question, Result<monitor::Rows> answer) noexcept override {
    numbers.push_back(question);
    if (answer) {
      const auto& rows = *answer;
      words.push_back(rows.empty() ? "nothing" : rows[0][0].value_or("NULL"));
      if (rows.size() == 2) nulls += !rows[1][0].has_value();
    } else {
      words.push_back(concat({"error ", answer.error().sqlstate(), " ", answer.error().text()}));
    }
    if (then) then();
  }
  std::vector<std::uint64_t> numbers;
  std::vector<std::string> words;
  int nulls = 0;
  std::function<void()> then;
};

Time in_seconds(const World& world, int seconds) {
  return world.loop.now() + std::chrono::seconds(seconds);
}

TEST_CASE("a probe connects by name when first asked and answers in order", "[net]") {
  World world;
  ToyPostgres postgres(world);
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "localhost", .port = postgres.port}, {"u", "", "d"}, asker);
  probe->ask(1, "one", in_seconds(world, 5));
  probe->ask(2, "two", in_seconds(world, 5));
  REQUIRE(asker.words.empty());
  REQUIRE(world.until([&] { return asker.words.size() == 2; }));
  REQUIRE(asker.words == std::vector<std::string>{"one", "two"});
  REQUIRE(asker.numbers == std::vector<std::uint64_t>{1, 2});
  REQUIRE(asker.nulls == 2);
  REQUIRE(probe->connected());
  REQUIRE(postgres.logins == 1);
}

TEST_CASE("a node's error is the answer to that question alone, with its SQLSTATE", "[net]") {
  World world;
  ToyPostgres postgres(world);
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "", "d"}, asker);
  probe->ask(1, "wrong", in_seconds(world, 5));
  probe->ask(2, "right", in_seconds(world, 5));
  REQUIRE(world.until([&] { return asker.words.size() == 2; }));
  REQUIRE(asker.words == std::vector<std::string>{"error 42601 no sense", "right"});
}

TEST_CASE("a refused login carries the node's SQLSTATE and words", "[net]") {
  World world;
  ToyPostgres postgres(world);
  postgres.refusal = "password authentication failed for user \"u\"";
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "x", "d"}, asker);
  probe->ask(1, "one", in_seconds(world, 5));
  REQUIRE(world.until([&] { return asker.words.size() == 1; }));
  REQUIRE(asker.words[0].rfind("error 28P01 ", 0) == 0);
  REQUIRE(asker.words[0].find("FATAL:  password authentication failed for user \"u\"") !=
          std::string::npos);
  REQUIRE(asker.words[0].find("LOCATION") == std::string::npos);
}

TEST_CASE("a login that lacks the password which the node asks for counts as refused", "[net]") {
  World world;
  ToyPostgres postgres(world);
  postgres.wants_password = true;
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "", "d"}, asker);
  probe->ask(1, "one", in_seconds(world, 5));
  REQUIRE(world.until([&] { return asker.words.size() == 1; }));
  REQUIRE(asker.words[0].rfind("error 28P01 ", 0) == 0);
  REQUIRE(asker.words[0].find("no password supplied") != std::string::npos);
}

TEST_CASE("nobody there is an error, never from within ask", "[net]") {
  World world;
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = 1}, {"u", "", "d"}, asker);
  probe->ask(1, "one", in_seconds(world, 5));
  REQUIRE(asker.words.empty());
  REQUIRE(world.until([&] { return asker.words.size() == 1; }));
  REQUIRE(asker.words[0].find("Connection refused") != std::string::npos);
}

TEST_CASE("a failure brings the next turn, though nothing else happens", "[net]") {
  struct Sleeper final : io::Turner {
    Time turn() noexcept override {
      if (!asker->words.empty()) loop->stop();
      return loop->now() + std::chrono::seconds(3);
    }
    Loop* loop = nullptr;
    Asker* asker = nullptr;
  };
  World world;
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  Sleeper sleeper;
  sleeper.loop = &world.loop;
  sleeper.asker = &asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = 1}, {"u", "", "d"}, asker);
  const Time begun = world.loop.now();
  probe->ask(1, "one", in_seconds(world, 5));
  world.loop.run(sleeper);
  REQUIRE(asker.words.size() == 1);
  REQUIRE(world.loop.now() - begun < std::chrono::seconds(2));
}

TEST_CASE("a question past its deadline fails, and the next one connects anew", "[net]") {
  World world;
  ToyPostgres postgres(world);
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "", "d"}, asker);
  probe->ask(1, "silence", world.loop.now() + std::chrono::milliseconds(100));
  probe->ask(2, "next", in_seconds(world, 5));
  REQUIRE(world.until([&] { return asker.words.size() == 2; }));
  REQUIRE(asker.words[0].find("within the time allowed") != std::string::npos);
  REQUIRE(asker.words[1] == "next");
  REQUIRE(postgres.logins == 2);
}

TEST_CASE("a connection that breaks fails its question, and the next one connects anew", "[net]") {
  World world;
  ToyPostgres postgres(world);
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "", "d"}, asker);
  probe->ask(1, "die", in_seconds(world, 5));
  probe->ask(2, "alive", in_seconds(world, 5));
  REQUIRE(world.until([&] { return asker.words.size() == 2; }));
  REQUIRE(asker.words[0].rfind("error", 0) == 0);
  REQUIRE(asker.words[1] == "alive");
  REQUIRE(postgres.logins == 2);
}

TEST_CASE("a probe can be destroyed in the middle of a question and by its own answer", "[net]") {
  World world;
  ToyPostgres postgres(world);
  LibpqProber prober(world.loop, world.resolver);
  Asker asker;
  auto probe = prober.probe({.host = "localhost", .port = postgres.port}, {"u", "", "d"}, asker);
  probe->ask(1, "silence", in_seconds(world, 5));
  REQUIRE(world.until([&] { return postgres.questions.size() == 1; }));
  probe.reset();
  probe = prober.probe({.host = "localhost", .port = postgres.port}, {"u", "", "d"}, asker);
  asker.then = [&] { probe.reset(); };
  probe->ask(2, "last", in_seconds(world, 5));
  REQUIRE(world.until([&] { return asker.words.size() == 1; }));
  REQUIRE(asker.words[0] == "last");
  REQUIRE_FALSE(probe);
}

}  // namespace
}  // namespace pgweir::net
