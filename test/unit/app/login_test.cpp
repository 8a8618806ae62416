// Logins that need something from elsewhere: a server's answer, or an outsider's verdict.
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "app/pooler.h"
#include "admin/world.h"
#include "auth/digest.h"
#include "auth/password_checker.h"
#include "auth/scram.h"
#include "auth/server_login.h"
#include "fakes.h"
#include "protocol/framer.h"
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
  struct OpenAccount final : auth::PasswordCheck {
    OpenAccount(FakeChecker& of, std::int64_t whose, auth::AccountUser& who) : checker(of), uid(whose), user(who) { checker.open_accounts.push_back(this); }
    ~OpenAccount() override { std::erase(checker.open_accounts, this); }
    FakeChecker& checker;
    std::int64_t uid;
    auth::AccountUser& user;
  };
  std::unique_ptr<auth::PasswordCheck> account_of(std::int64_t uid, auth::AccountUser& user) override {
    return std::make_unique<OpenAccount>(*this, uid, user);
  }
  void tell_accounts() {
    for (OpenAccount* each : std::exchange(open_accounts, {})) {
      const auto found = accounts.find(each->uid);
      each->user.on_account(found == accounts.end() ? std::nullopt : std::optional(found->second));
    }
  }
  std::vector<OpenAccount*> open_accounts;
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

  explicit Bench(std::string_view settings, std::string_view options = "", std::string_view rules = "") {
    files.files["users"] = "\"asker\" \"pw\"\n";
    files.files["rules"] = rules;
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
  std::shared_ptr<Wire> client(std::string_view user, std::int64_t uid = -1, std::string_view database = "shop") {
    std::shared_ptr<Wire> wire = network.connect(uid);
    std::string packet;
    protocol::append_startup(packet, std::vector<std::pair<std::string, std::string>>{{"user", std::string(user)},
                                                                                      {"database", std::string(database)}});
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
  for (const Case& each : {Case{std::nullopt, "password authentication failed"}, Case{{{"eve", std::nullopt}}, "password authentication failed"},
                           Case{{{"eve", "secret", "more"}}, "bouncer config error"},
                           Case{{{std::nullopt, "secret"}}, "bouncer config error"}, Case{{{"", "secret"}}, "bouncer config error"}}) {
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
  const auto asker = b.client("asker", 77);
  const auto other = b.client("asker", 78);
  const auto nobody = b.client("asker", 79);
  const auto far = b.client("asker");
  CHECK(far->has("unix socket login rejected"));
  // Nobody waits for the system but those who came by such a socket.
  const auto left = b.client("asker", 77);
  CHECK(b.checker.open_accounts.size() == 4);
  left->hang_up();
  b.turn();
  CHECK(b.checker.open_accounts.size() == 3);
  CHECK(asker->sent.empty());
  CHECK(b.dialer.dialled.empty());
  b.checker.tell_accounts();
  b.turn();
  CHECK_FALSE(asker->closing);
  CHECK(b.dialer.dialled.size() == 1);
  CHECK(other->has("unix socket login rejected"));
  CHECK(nobody->has("unix socket login rejected"));
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

TEST_CASE("rules that hang on roles which nobody can be asked for refuse", "[login]") {
  const char* const rules[] = {"host shop +staff all reject\nhost all all all trust\n", "host shop +staff all md5\nhost all all all trust\n"};
  for (const char* rule : rules) {
    Bench b("auth_type = hba\nauth_hba_file = rules", "", rule);
    CHECK(b.log.has("rules for +role need auth_user"));
    const auto asker = b.client("asker");
    CHECK(asker->closing);
    CHECK(asker->has("no authentication method is found"));
    CHECK(b.log.has("nobody can be asked for the roles of asker"));
  }
  // Where the role's name is the user's own nothing has to be asked.
  Bench b("auth_type = hba\nauth_hba_file = rules", "", "host shop +asker all trust\n");
  CHECK_FALSE(b.client("asker")->closing);
  // Nor in front of such a rule.
  Bench early("auth_type = hba\nauth_hba_file = rules", "", "host shop asker all trust\nhost shop +staff all reject\n");
  CHECK_FALSE(early.client("asker")->closing);
}

TEST_CASE("physical replication without a rule is refused in PostgreSQL's words", "[login]") {
  // `all` does not hold it, and logical replication is an ordinary login to its database.
  for (const char* value : {"true", "database"}) {
    for (std::int64_t uid : {-1, 77}) {
      Bench b("auth_type = hba\nauth_hba_file = rules", "", "host shop asker all trust\nlocal all all trust\n");
      const std::shared_ptr<Wire> wire = b.network.connect(uid);
      std::string packet;
      protocol::append_startup(packet, std::vector<std::pair<std::string, std::string>>{{"user", "asker"}, {"database", "shop"}, {"replication", value}});
      wire->say(packet);
      b.turn();
      const bool physical = std::string_view(value) == "true";
      CHECK(wire->closing == physical);
      const std::string told = concat({"no pg_hba.conf entry for replication connection from host \"", uid < 0 ? "10.0.0.1" : "[local]",
                                       "\", user \"asker\", no encryption"});
      INFO(wire->sent);
      CHECK(wire->has(told) == physical);
      CHECK(wire->has("28000") == physical);
      CHECK(b.log.has("closing because: " + told) == physical);
    }
  }
}

namespace {

/// Types and sizes of the messages, and what an error says: all that tells logins apart but chance.
std::string shape_of(const Wire& wire) {
  std::string shape;
  Bytes rest = wire.sent;
  while (const auto size = protocol::peek_wire_size(rest)) {
    if (*size > rest.size()) break;
    shape += concat({std::string(1, rest[0]), std::to_string(*size), " "});
    if (rest[0] == 'R') shape += concat({"(", std::to_string(load_u32(rest.data() + 5)), ") "});
    if (rest[0] == 'E') shape += std::string(rest.substr(5, *size - 5));
    rest.remove_prefix(*size);
  }
  return shape;
}

/// A login with this password, by whatever method is asked for.
void try_password(Bench& b, Wire& client, std::string_view user, const std::string& password) {
  FakeRandom random;
  auth::SaltedPasswordCache cache;
  auth::ServerLogin login(std::string(user), {.password = password, .md5 = {}, .scram = {}}, random, cache);
  std::size_t read = 0;
  for (int round = 0; round < 3 && !client.closing; ++round) {
    const std::string message = client.sent.substr(read);
    read = client.sent.size();
    const auto size = protocol::peek_wire_size(message);
    if (!size || message[0] != 'R' || message.size() < *size) return;
    const auto answer = login.on_authentication(Bytes(message).substr(5, *size - 5), {.safe = true});
    if (!answer) return;
    client.say(answer->send);
    b.turn();
  }
}

}  // namespace

TEST_CASE("an unknown user of auth_query is led where a wrong password is led, and told the same", "[login]") {
  const std::string scram = auth::to_text(auth::verifier_of(auth::salted_password("secret", "0123456789abcdef", 4096), "0123456789abcdef", 4096));
  for (const char* method : {"plain", "md5", "scram-sha-256"}) {
    for (const std::string& stored : {std::string("secret"), "md5" + auth::md5_of_password("secret", "eve"), scram}) {
      CAPTURE(method, stored);
      Bench b(concat({"auth_user = asker\nauth_type = ", method}));
      const auto known = b.client("eve");
      const auto server = b.server_logs_in();
      b.give(*server, {{"eve", stored}});
      try_password(b, *known, "eve", "wrong");
      const auto stranger = b.client("bob");
      b.give(*server, std::nullopt);
      try_password(b, *stranger, "bob", "wrong");
      CHECK(known->closing);
      CHECK(stranger->closing);
      CHECK(shape_of(*stranger) == shape_of(*known));
      CHECK(b.log.has("no such user: bob"));
    }
  }
}

TEST_CASE("the name that auth_query gives is who logs in", "[login]") {
  Bench b(concat({kLookUp, "\nauth_query_cache_ttl = 10\n"}));
  const auto eve = b.client("EVE");
  const auto server = b.server_logs_in();
  b.give(*server, {{"eve", "secret"}});
  b.type(*eve, "secret");
  REQUIRE(b.dialer.dialled.size() == 2);
  const auto own = b.dialer.dialled.back();
  b.server_logs_in();
  CHECK(own->has(std::string_view("user\0eve\0", 9)));
  CHECK_FALSE(own->has("EVE"));
  CHECK(eve->has("server_version"));
  // The same from what was kept, and the kept one is not eve's own: that is another question.
  server->take();
  const auto again = b.client("EVE");
  CHECK(again->has(kAskedForPassword));
  CHECK(server->sent.empty());
  b.type(*again, "secret");
  CHECK(again->has("server_version"));
}

TEST_CASE("rules are for the name that auth_query gives", "[login]") {
  Bench b("auth_type = hba\nauth_hba_file = rules\nauth_user = asker\nauth_query = SELECT n, s FROM u WHERE n = $1", "",
          "host all root all reject\nhost all all all password\n");
  const auto sneaky = b.client("ROOT");
  const auto server = b.server_logs_in();
  b.give(*server, {{"root", "secret"}});
  CHECK(sneaky->closing);
  CHECK(sneaky->has("login rejected"));
}

TEST_CASE("invented names of databases make no more pools than a bound", "[login]") {
  Bench b(concat({kLookUp, "\nserver_idle_timeout = 0\nclient_login_timeout = 3600\n[databases]\n* = host=10.0.0.9\n"}));
  const auto count = [&] {
    std::size_t pools = 0;
    for (const admin::PoolRow& row : b.pooler.world().pools()) pools += row.database.starts_with("invented");
    return pools;
  };
  // One after another: each is asked about, found to be nobody's, and leaves.
  std::size_t most = 0;
  for (int i = 0; i < 300; ++i) {
    const auto guess = b.client("eve", -1, concat({"invented", std::to_string(i)}));
    if (!guess->closing) {
      const auto server = b.server_logs_in();
      if (server->has("SELECT n, s")) b.give(*server, std::nullopt);
      b.type(*guess, "guess");
    }
    guess->hang_up();
    b.pass(std::chrono::seconds(2));
    most = std::max(most, count());
  }
  CHECK(most <= 100);
  CHECK(most > 1);
  // And all at once: who comes too late is told to come again, and a database with a line of its own is no matter.
  Bench crowd(concat({kLookUp, "\nclient_login_timeout = 3600\n[databases]\n* = host=10.0.0.9\n"}));
  std::vector<std::shared_ptr<Wire>> all;
  for (int i = 0; i < 300; ++i) all.push_back(crowd.client("eve", -1, concat({"invented", std::to_string(i)})));
  CHECK(crowd.dialer.dialled.size() <= 100);
  CHECK(all.back()->closing);
  CHECK(all.back()->has("too many databases that nobody has used yet are being asked about users"));
  const auto real = crowd.client("eve");
  CHECK_FALSE(real->closing);
  // Those that somebody has come in to don't count.
  Bench used(concat({kLookUp, "\nmax_client_conn = 1000\n[databases]\n* = host=10.0.0.9\n"}));
  for (int i = 0; i < 150; ++i) {
    const auto client = used.client("eve", -1, concat({"real", std::to_string(i)}));
    REQUIRE_FALSE(client->closing);
    used.give(*used.server_logs_in(), {{"eve", "secret"}});
    used.type(*client, "secret");
    used.server_logs_in();
    REQUIRE(client->has("server_version"));
  }
}

TEST_CASE("a method that a reload takes away while an outsider judges lets the judged one in by it", "[login]") {
  for (const bool right : {true, false}) {
    Bench b("auth_type = pam\nauth_user = asker");
    const auto eve = b.client("eve");
    b.type(*eve, "secret");
    REQUIRE(b.checker.open.size() == 1);
    std::string text = b.files.files["p.ini"];
    text.replace(text.find("auth_type = pam"), 15, "auth_type = md5");
    b.files.files["p.ini"] = text;
    b.pooler.request_reload();
    b.turn();
    REQUIRE(b.log.has("configuration reloaded"));
    b.checker.open.front()->user.on_checked(right ? Status() : Status(Error("28P01", "PAM authentication failed")));
    b.turn();
    CHECK(eve->closing == !right);
    CHECK(b.dialer.dialled.size() == (right ? 1U : 0U));
  }
}
