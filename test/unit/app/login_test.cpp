// Logins that need something from elsewhere: a server's answer, or an outsider's verdict.
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "app/pooler.h"
#include "auth/password_checker.h"
#include "fakes.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

/// Keeps questions until the test answers them.
class FakeChecker final : public auth::PasswordChecker {
 public:
  struct Open final : auth::PasswordCheck {
    Open(FakeChecker& of, auth::PasswordCheckUser& who) : checker(of), user(who) { checker.open.push_back(this); }
    ~Open() override { std::erase(checker.open, this); }
    FakeChecker& checker;
    auth::PasswordCheckUser& user;
  };
  std::unique_ptr<auth::PasswordCheck> ask(auth::PasswordQuestion question, auth::PasswordCheckUser& user) override {
    asked.push_back(question.user + ":" + question.password);
    return std::make_unique<Open>(*this, user);
  }
  std::optional<std::string> account_of(std::int64_t uid) override {
    const auto found = accounts.find(uid);
    return found == accounts.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<Open*> open;
  std::vector<std::string> asked;
  std::map<std::int64_t, std::string> accounts;
};

struct Bench {
  FakeClock clock;
  FakeNetwork network;
  FakeDialer dialer;
  FakeProber prober;
  FakeRandom random;
  KeptLog log;
  MemoryFiles files;
  FakeChecker checker;
  app::Pooler pooler{{clock, network, dialer, prober, random, log, files, 501, &checker}};

  explicit Bench(std::string_view settings, std::string_view options = "") {
    files.files["users"] = "\"asker\" \"pw\"\n";
    files.files["p.ini"] = concat({"[databases]\nshop = host=10.0.0.9 ", options,
                                   "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nunix_socket_dir = /tmp\n"
                                   "pool_mode = transaction\nauth_file = users\nserver_login_retry = 1\n",
                                   settings, "\n"});
    REQUIRE(pooler.configure("p.ini").ok());
    REQUIRE(pooler.start().ok());
    turn();
  }
  void turn() {
    for (int i = 0; i < 10 && pooler.turn() <= clock.at; ++i) {
    }
  }
  void pass(Duration time) {
    clock.at += time;
    turn();
  }
  std::shared_ptr<Wire> client(std::string_view user, std::int64_t uid = -1) {
    std::shared_ptr<Wire> wire = network.connect(uid);
    std::string packet;
    protocol::append_startup(packet, std::vector<std::pair<std::string, std::string>>{{"user", std::string(user)},
                                                                                      {"database", "shop"}});
    wire->say(packet);
    turn();
    return wire;
  }
  void type(Wire& wire, std::string_view password) {
    std::string out;
    protocol::append_password(out, password);
    wire.say(out);
    turn();
  }
  std::shared_ptr<Wire> server_logs_in() {
    std::shared_ptr<Wire> wire = dialer.dialled.back();
    wire->connected();
    std::string out;
    protocol::append_auth_ok(out);
    protocol::append_parameter_status(out, "server_version", "15.9");
    protocol::append_ready(out, 'I');
    wire->say(out);
    turn();
    return wire;
  }
  /// Answers the question that stands on `server`; nullopt is no row.
  void give(Wire& server, std::optional<std::vector<std::optional<Bytes>>> row) {
    std::string out;
    protocol::append_parse_complete(out);
    protocol::append_bind_complete(out);
    if (row) protocol::append_data_row(out, *row);
    protocol::append_command_complete(out, row ? "SELECT 1" : "SELECT 0");
    protocol::append_ready(out, 'I');
    server.say(out);
    turn();
  }
};

constexpr std::string_view kLookUp = "auth_type = plain\nauth_user = asker\nauth_query = SELECT n, s FROM u WHERE n = $1";
const std::string kAskedForPassword("R\0\0\0\x08\0\0\0\x03", 9);

}  // namespace

TEST_CASE("a client waits for what a server knows of its user, and its answer may come ahead", "[login]") {
  Bench b(kLookUp);
  const auto eve = b.client("eve");
  CHECK(eve->sent.empty());
  REQUIRE(b.dialer.dialled.size() == 1);
  b.type(*eve, "secret");  // Impatient: kept until it is known whom it is from.
  CHECK(eve->sent.empty());
  const auto server = b.server_logs_in();
  CHECK(server->has("SELECT n, s FROM u WHERE n = $1"));
  CHECK(server->has("eve"));
  b.give(*server, {{"eve", "secret"}});
  CHECK(eve->has(kAskedForPassword));
  CHECK_FALSE(eve->closing);
  REQUIRE(b.dialer.dialled.size() == 2);  // The pool of shop/eve opens its first server.
  b.server_logs_in();
  CHECK(eve->has("server_version"));
}

TEST_CASE("no row is an unknown user, NULL a user without a password, and more columns a mistake", "[login]") {
  struct Case {
    std::optional<std::vector<std::optional<Bytes>>> row;
    const char* said;
  };
  for (const Case& each : {Case{std::nullopt, "no such user"}, Case{{{"eve", std::nullopt}}, "password authentication failed"},
                           Case{{{"eve", "secret", "more"}}, "bouncer config error"}}) {
    Bench b(kLookUp);
    const auto eve = b.client("eve");
    const auto server = b.server_logs_in();
    b.give(*server, each.row);
    if (!eve->closing) b.type(*eve, "secret");
    CHECK(eve->has(each.said));
    CHECK(eve->closing);
    CHECK(b.dialer.dialled.size() == 1);
  }
}

TEST_CASE("a question whose server is lost is put once more", "[login]") {
  Bench b(kLookUp);
  const auto eve = b.client("eve");
  b.server_logs_in()->hang_up();
  b.turn();
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK_FALSE(eve->closing);
  b.server_logs_in()->hang_up();
  b.turn();
  CHECK(eve->closing);
  CHECK(eve->has("server conn crashed?"));
}

TEST_CASE("a server that refuses auth_user is a matter of the configuration", "[login]") {
  Bench b(kLookUp);
  const auto eve = b.client("eve");
  const auto server = b.dialer.dialled.back();
  server->connected();
  std::string out;
  protocol::append_error(out, "FATAL", "28P01", "password authentication failed for user \"asker\"");
  server->say(out);
  b.turn();
  CHECK(eve->has("bouncer config error"));
  CHECK_FALSE(eve->has("asker"));
  CHECK(b.log.has("auth_query: password authentication failed for user \"asker\""));
}

TEST_CASE("a client may leave at any point of its login", "[login]") {
  SECTION("before there is a server to ask") {
    Bench b(kLookUp);
    b.client("eve")->hang_up();
    b.turn();
    b.server_logs_in();
    CHECK_FALSE(b.dialer.dialled.back()->has("eve"));
  }
  SECTION("while the server answers, which is then free for others") {
    Bench b(kLookUp);
    const auto eve = b.client("eve");
    const auto server = b.server_logs_in();
    eve->hang_up();
    b.turn();
    b.give(*server, {{"eve", "secret"}});
    server->take();
    const auto joe = b.client("joe");
    CHECK(server->has("joe"));
    CHECK(b.dialer.dialled.size() == 1);
    b.give(*server, {{"joe", "x"}});
    CHECK(joe->has(kAskedForPassword));
  }
  SECTION("at its time-out") {
    Bench b(concat({kLookUp, "\nclient_login_timeout = 5"}));
    const auto eve = b.client("eve");
    b.pass(std::chrono::seconds(6));
    CHECK(eve->has("client_login_timeout"));
    b.server_logs_in();
  }
  SECTION("while an outsider judges") {
    Bench b("auth_type = pam");
    const auto eve = b.client("eve");
    b.type(*eve, "secret");
    REQUIRE(b.checker.open.size() == 1);
    eve->hang_up();
    b.turn();
    CHECK(b.checker.open.empty());
  }
  SECTION("never: the process ends first") {
    Bench b(kLookUp);
    b.client("eve");
    const auto server = b.server_logs_in();
    b.client("joe");
  }
}

TEST_CASE("a server that a client has used is not asked about users", "[login]") {
  Bench b(concat({kLookUp, "\ndefault_pool_size = 1"}));
  const auto asker = b.client("asker");
  b.type(*asker, "pw");
  const auto used = b.server_logs_in();
  std::string query;
  protocol::append_query(query, "SET search_path = evil");
  asker->say(query);
  b.turn();
  std::string out;
  protocol::append_command_complete(out, "SET");
  protocol::append_ready(out, 'I');
  used->say(out);
  b.turn();
  b.client("eve");
  CHECK(used->closing);
  REQUIRE(b.dialer.dialled.size() == 2);
  const auto fresh = b.server_logs_in();
  CHECK(fresh->has("eve"));
}

TEST_CASE("what an outsider says decides, and no pool is made before", "[login]") {
  for (const bool right : {true, false}) {
    Bench b("auth_type = pam");
    const auto eve = b.client("eve");
    CHECK(eve->has(kAskedForPassword));
    b.type(*eve, "secret");
    REQUIRE(b.checker.asked == std::vector<std::string>{"eve:secret"});
    CHECK(b.dialer.dialled.empty());
    b.checker.open.front()->user.on_checked(right ? Status() : Status(Error("28P01", "PAM authentication failed")));
    b.turn();
    CHECK(b.checker.open.empty());
    CHECK(eve->closing == !right);
    CHECK(eve->has("PAM authentication failed") == !right);
    CHECK(b.dialer.dialled.size() == (right ? 1 : 0));
  }
}

TEST_CASE("peer takes whom the system names", "[login]") {
  Bench b("auth_type = peer");
  b.checker.accounts = {{77, "asker"}, {78, "eve"}};
  CHECK_FALSE(b.client("asker", 77)->closing);
  CHECK(b.client("asker", 78)->has("unix socket login rejected"));
  CHECK(b.client("asker")->has("unix socket login rejected"));
  CHECK(b.client("asker", 79)->has("unix socket login rejected"));
}

TEST_CASE("found secrets are kept for their time, and a wrong password forgets one", "[login]") {
  Bench b(concat({kLookUp, "\nauth_query_cache_ttl = 10"}));
  const auto first = b.client("eve");
  const auto server = b.server_logs_in();
  b.give(*server, {{"eve", "secret"}});
  server->take();
  CHECK(b.client("eve")->has(kAskedForPassword));
  CHECK(server->sent.empty());
  const auto wrong = b.client("eve");
  b.type(*wrong, "other");
  CHECK(wrong->closing);
  const auto again = b.client("eve");
  CHECK(again->sent.empty());
  CHECK(server->has("eve"));
  b.give(*server, {{"eve", "other"}});
  server->take();
  b.pass(std::chrono::seconds(11));
  CHECK(b.client("eve")->sent.empty());
  b.turn();
  CHECK(server->has("eve"));
}
