#include "net/libpq_prober.h"

#include "base/bytes.h"
#include "base/text.h"
#include "harness.h"
#include "net/cleartext_guard.h"

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
          transport->send(asks_how);
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
  std::string asks_how = message('R', std::string("\0\0\0\3", 4));  ///< in clear text
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

TEST_CASE("a password is not given in clear text where somebody may read along", "[net]") {
  const std::string in_clear = message('R', std::string("\0\0\0\3", 4));
  const std::string notice = message('N', std::string("SNOTICE\0Mhello\0\0", 16));
  // libpq reads four bytes of salt, or the names up to an empty one, and takes what is behind for a message.
  const std::string in_md5 = message('R', std::string("\0\0\0\5salt", 8) + in_clear);
  const std::string in_sasl = message('R', std::string("\0\0\0\12SCRAM-SHA-256\0\0", 19) + in_clear);
  for (const std::string& asks : {in_clear, in_md5, in_sasl, message('R', std::string("\0\0\0\2", 4))}) {
    for (const bool prefers_tls : {false, true}) {
      World world;
      ToyPostgres postgres(world);
      postgres.wants_password = true;
      postgres.asks_how = asks;
      LibpqProber prober(world.loop, world.resolver);
      Asker asker;
      io::SharedTlsSettings tls;
      if (prefers_tls) tls = std::make_shared<const io::TlsSettings>(io::TlsSettings{.mode = io::TlsMode::prefer});
      auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "a secret", "d", tls, monitor::Cleartext::nowhere}, asker);
      probe->ask(1, "one", in_seconds(world, 5));
      REQUIRE(world.until([&] { return asker.words.size() == 1; }));
      CHECK(asker.words[0].find("asks for the password in clear text over a connection that is not encrypted") != std::string::npos);
      CHECK(postgres.questions.empty());
      // The next question tries again, and a node that asks for nothing is fine.
      postgres.wants_password = false;
      probe->ask(2, "two", in_seconds(world, 5));
      REQUIRE(world.until([&] { return asker.words.size() == 2; }));
      CHECK(asker.words[1] == "two");
      probe->ask(3, std::string(100'000, 'x'), in_seconds(world, 5));
      REQUIRE(world.until([&] { return asker.words.size() == 3; }));
      CHECK(asker.words[2] == std::string(100'000, 'x'));
    }
  }
  for (const auto where : {monitor::Cleartext::within_machine, monitor::Cleartext::anywhere}) {
    World world;
    ToyPostgres postgres(world);
    postgres.wants_password = true;
    LibpqProber prober(world.loop, world.resolver);
    Asker asker;
    auto probe = prober.probe({.host = "127.0.0.1", .port = postgres.port}, {"u", "a secret", "d", {}, where}, asker);
    probe->ask(1, "one", in_seconds(world, 5));
    REQUIRE(world.until([&] { return !postgres.questions.empty(); }));
    CHECK(postgres.questions[0] == "a secret");
  }
}

TEST_CASE("what a server says during a login passes in any pieces, up to what must not", "[net]") {
  using Next = LoginWatch::Next;
  const std::string notice = message('N', "hello");
  const std::string md5 = message('R', std::string("\0\0\0\5salt", 8));
  const std::string sasl = message('R', std::string("\0\0\0\12SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0", 38));
  const std::string ok = message('R', std::string(4, '\0'));
  const std::string in_clear = message('R', std::string("\0\0\0\3", 4));
  struct Case {
    Next first;
    std::string said;
    std::size_t passes;
    bool refuses;
  };
  const Case cases[] = {
      {Next::message, notice + md5 + ok + in_clear, (notice + md5 + ok + in_clear).size(), false},  // behind the login it means nothing
      {Next::message, sasl + message('R', std::string("\0\0\0\13", 4) + "r=…") + ok, (sasl + ok).size() + 14, false},
      {Next::message, notice + in_clear + ok, notice.size(), true},
      {Next::message, md5 + in_clear, md5.size(), true},
      {Next::message, message('R', std::string(4, '\0') + "x"), 0, true},
      // Names of SASL without an end: libpq would read on in what comes behind.
      {Next::message, message('R', std::string("\0\0\0\12S", 5)) + std::string("CRAM-SHA-256\0\0", 14) + in_clear, 0, true},
      {Next::message, message('R', std::string("\0\0\0\12", 4)) + in_clear, 0, true},
      {Next::message, message('R', std::string("\0\0\0\12SCRAM-SHA-256\0", 18)) + in_clear, 0, true},
      {Next::message, std::string("R\0\0\0\4", 5), 0, true},
      {Next::message, std::string("R\0\1\0\0", 5), 0, true},
      {Next::message, std::string("X\0\0\0\0", 5) + in_clear, 5, true},
      {Next::answer_to_ssl_request, "S" + in_clear, in_clear.size() + 1, false},  // TLS, whatever it looks like
      {Next::answer_to_ssl_request, "N" + in_clear, 1, true},
      {Next::answer_to_ssl_request, "N" + md5 + ok, (md5 + ok).size() + 1, false},
      {Next::answer_to_ssl_request, message('E', "no") + in_clear, 7, true},
  };
  for (const Case& each : cases) {
    for (std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{1000}}) {
      CAPTURE(each.said, piece);
      LoginWatch watch(each.first);
      std::string waiting;
      std::size_t passed = 0;
      for (std::size_t at = 0; at < each.said.size(); at += piece) {
        waiting += each.said.substr(at, piece);
        const std::size_t part = watch.passes(waiting);
        passed += part;
        waiting.erase(0, part);
      }
      CHECK(passed == each.passes);
      CHECK(watch.refuses() == each.refuses);
    }
  }
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
