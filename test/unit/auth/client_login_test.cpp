#include "auth/client_login.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "auth/digest.h"
#include "auth/server_login.h"
#include "fixed_random.h"
#include "protocol/framer.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::auth;

namespace {

const std::string kMd5Secret = "md54a0a68b43b6cd5cf266fa02f196e2371";  // Of "secret", for alice.

struct World {
  FixedRandom random;
  ServerSecret server_secret = ServerSecret::draw(random);
  SaltedPasswordCache cache;
  LoginContext context{
      .random = random, .server_secret = server_secret, .cache = cache, .scram_iterations = 10};
};

std::string scram_secret(std::string_view password) {
  return to_text(
      verifier_of(salted_password(password, "0123456789abcdef", 10), "0123456789abcdef", 10));
}

Bytes body_of(const std::string& message) { return Bytes(message).substr(protocol::kHeaderSize); }

/// How a login ended, and how many rounds it took.
struct Outcome {
  Step::State state;
  std::string why;
  int rounds;
};

/// Runs a login of ours, as a client, against `login`: both halves of the module against each
/// other.
Outcome run(ClientLogin& login, ServerLogin& client, const Channel& channel = {.safe = true}) {
  Outcome outcome{Step::State::more, "", 0};
  Step step = login.start();
  for (; step.state == Step::State::more && outcome.rounds < 5; ++outcome.rounds) {
    Result<ServerLogin::Answer> answer = client.on_authentication(body_of(step.send), channel);
    REQUIRE(answer.ok());
    step = login.on_password_message(body_of(answer->send));
  }
  if (step.state == Step::State::accepted && !step.send.empty()) {
    CHECK(client.on_authentication(body_of(step.send), channel).ok());
  }
  outcome.state = step.state;
  if (step.why) outcome.why = step.why->text();
  return outcome;
}

Outcome run(World& world, ClientLogin& login, const std::string& password) {
  ServerLogin client("alice", {.password = password, .md5 = {}, .scram = {}}, world.random,
                     world.cache);
  return run(login, client);
}

}  // namespace

TEST_CASE("each method accepts the right password and refuses a wrong one, for each form of secret",
          "[auth]") {
  struct Case {
    Method method;
    std::string secret;
    bool possible;
    int rounds;
    const char* refusal;
  };
  const char* const kPassword = "password authentication failed";
  const char* const kSasl = "SASL authentication failed";
  const Case cases[] = {
      {Method::plain, "secret", true, 1, kPassword},
      {Method::plain, kMd5Secret, true, 1, kPassword},
      {Method::plain, scram_secret("secret"), true, 1, kPassword},
      {Method::plain, "", false, 1, kPassword},
      {Method::md5, "secret", true, 1, kPassword},
      {Method::md5, kMd5Secret, true, 1, kPassword},
      {Method::md5, scram_secret("secret"), true, 2, kSasl},
      {Method::md5, "", false, 1, kPassword},
      {Method::scram_sha_256, "secret", true, 2, kSasl},
      {Method::scram_sha_256, kMd5Secret, false, 2, kSasl},
      {Method::scram_sha_256, scram_secret("secret"), true, 2, kSasl},
      {Method::scram_sha_256, "", false, 2, kSasl},
  };
  World world;
  for (const Case& c : cases) {
    CAPTURE(to_string(c.method), c.secret);
    const Secret secret = Secret::parse(c.secret);
    ClientLogin right(c.method, "alice", &secret, world.context);
    Outcome outcome = run(world, right, "secret");
    CHECK(outcome.state == (c.possible ? Step::State::accepted : Step::State::refused));
    CHECK(outcome.rounds == c.rounds);
    ClientLogin wrong(c.method, "alice", &secret, world.context);
    outcome = run(world, wrong, "secrets");
    CHECK(outcome.state == Step::State::refused);
    CHECK(outcome.rounds == c.rounds);
    CHECK(outcome.why == c.refusal);
    CHECK(wrong.client_keys() == nullptr);
    CHECK(wrong.plain_password() == nullptr);
  }
}

TEST_CASE("an unknown user is led through the exchange and refused at its end", "[auth]") {
  World world;
  for (const Method method : {Method::plain, Method::md5, Method::scram_sha_256}) {
    ClientLogin login(method, "alice", nullptr, world.context);
    const Outcome outcome = run(world, login, "secret");
    CHECK(outcome.state == Step::State::refused);
    CHECK(outcome.rounds == (method == Method::scram_sha_256 ? 2 : 1));
  }
}

TEST_CASE("an unknown user's salt stays the same and looks like a known one's", "[auth]") {
  World world;
  const Secret secret = Secret::parse("secret");
  const auto salt_of = [&](const Secret* stored) {
    ClientLogin login(Method::scram_sha_256, "alice", stored, world.context);
    login.start();
    std::string first;
    protocol::append_sasl_initial(first, kScramMechanism, "n,,n=,r=abc");
    const std::string answer = login.on_password_message(body_of(first)).send;
    return answer.substr(answer.find(",s="));
  };
  CHECK(salt_of(nullptr) == salt_of(nullptr));
  CHECK(salt_of(nullptr) == salt_of(&secret));
}

TEST_CASE("trust takes known users, any takes everybody, reject nobody", "[auth]") {
  World world;
  const Secret secret = Secret::parse("secret");
  const auto start = [&](Method method, const Secret* stored) {
    ClientLogin login(method, "alice", stored, world.context);
    return login.start();
  };
  CHECK(start(Method::trust, &secret).state == Step::State::accepted);
  CHECK(start(Method::trust, nullptr).state == Step::State::refused);
  CHECK(start(Method::trust, nullptr).why->text() == "\"trust\" authentication failed");
  CHECK(start(Method::any, nullptr).state == Step::State::accepted);
  CHECK(start(Method::reject, &secret).state == Step::State::refused);
  CHECK(start(Method::reject, &secret).why->text() == "login rejected");
}

TEST_CASE("a login teaches what is needed for the login to a server", "[auth]") {
  World world;
  const Secret stored = Secret::parse(scram_secret("secret")), plain = Secret::parse("secret");

  ClientLogin by_scram(Method::scram_sha_256, "alice", &stored, world.context);
  REQUIRE(run(world, by_scram, "secret").state == Step::State::accepted);
  REQUIRE(by_scram.client_keys());
  CHECK(by_scram.credentials().scram == *by_scram.client_keys());
  CHECK_FALSE(by_scram.credentials().password);

  // The key is good for a further login against the same secret: what passing it on to a server is.
  ClientLogin server(Method::scram_sha_256, "alice", &stored, world.context);
  ServerLogin with_key("alice", by_scram.credentials(), world.random, world.cache);
  CHECK(run(server, with_key).state == Step::State::accepted);

  ClientLogin ad_hoc(Method::scram_sha_256, "alice", &plain, world.context);
  REQUIRE(run(world, ad_hoc, "secret").state == Step::State::accepted);
  CHECK(ad_hoc.client_keys() == nullptr);
  CHECK(ad_hoc.credentials().password == "secret");

  ClientLogin clear(Method::plain, "alice", &stored, world.context);
  REQUIRE(run(world, clear, "secret").state == Step::State::accepted);
  REQUIRE(clear.plain_password());
  CHECK(clear.credentials().password == "secret");
}

TEST_CASE("an empty password is refused in words of its own", "[auth]") {
  World world;
  const Secret secret = Secret::parse("secret");
  ClientLogin login(Method::plain, "alice", &secret, world.context);
  const Outcome outcome = run(world, login, "");
  CHECK(outcome.why == "empty password returned by client");
}

TEST_CASE("malformed and unexpected password messages are refused", "[auth]") {
  World world;
  const Secret secret = Secret::parse("secret");
  const auto refuses = [&](Method method, Bytes body) {
    ClientLogin login(method, "alice", &secret, world.context);
    login.start();
    return login.on_password_message(body).state == Step::State::refused;
  };
  CHECK(refuses(Method::plain, "secret"));
  CHECK(refuses(Method::plain, Bytes("secret\0x", 8)));
  CHECK(refuses(Method::md5, ""));
  CHECK(refuses(Method::md5, Bytes("md5\0", 4)));
  CHECK(refuses(Method::scram_sha_256, ""));
  CHECK(refuses(Method::scram_sha_256, Bytes("SCRAM-SHA-256\0\xff\xff\xff\xff", 18)));
  CHECK(refuses(Method::scram_sha_256, Bytes("SCRAM-SHA-256\0\0\0\0\x20n,,n=,r=x", 27)));
  CHECK(refuses(Method::scram_sha_256, Bytes("SCRAM-SHA-1\0\0\0\0\x09n,,n=,r=x", 25)));

  ClientLogin early(Method::plain, "alice", &secret, world.context);
  CHECK(early.on_password_message(Bytes("secret\0", 7)).state == Step::State::refused);
  ClientLogin late(Method::plain, "alice", &secret, world.context);
  late.start();
  CHECK(late.on_password_message(Bytes("secret\0", 7)).state == Step::State::accepted);
  CHECK(late.on_password_message(Bytes("secret\0", 7)).state == Step::State::refused);
}

TEST_CASE("the words of auth_type go there and back", "[auth]") {
  for (const char* word : {"trust", "any", "plain", "md5", "scram-sha-256", "reject"}) {
    REQUIRE(parse_method(word));
    CHECK(to_string(*parse_method(word)) == word);
  }
  CHECK_FALSE(parse_method("hba"));
}

TEST_CASE("an unknown user costs what a wrong password costs, and sees the same messages", "[auth]") {
  const std::string salt = "0123456789abcdef";
  const std::map<SecretForm, Secret> secrets{{SecretForm::plain, Secret::parse("right")},
                                             {SecretForm::md5, Secret::parse("md5" + std::string(32, '0'))},
                                             {SecretForm::scram, Secret::parse(scram_secret("right"))}};
  struct Trace {
    std::string kinds;             ///< the first bytes and sizes of what the client sees
    std::uint64_t work = 0;        ///< hashes that we took
  };
  for (const auto& [form, secret] : secrets) {
    for (const Method method : {Method::plain, Method::md5, Method::scram_sha_256}) {
      INFO(to_string(form) << " " << to_string(method));
      World world;
      world.context.usual_form = form;
      const auto try_login = [&](const char* user, const Secret* stored) {
        Trace trace;
        const auto ours = [&](auto&& act) {
          const std::uint64_t before = hash_work();
          act();
          trace.work += hash_work() - before;
        };
        ClientLogin login(method, user, stored, world.context);
        SaltedPasswordCache of_client;
        ServerLogin client(user, {.password = "wrong", .md5 = {}, .scram = {}}, world.random, of_client);
        Step step;
        ours([&] { step = login.start(); });
        for (int round = 0; step.state == Step::State::more && round < 5; ++round) {
          trace.kinds += std::to_string(step.send.size()) + step.send.substr(0, 9);
          const std::string answer = client.on_authentication(body_of(step.send), {.safe = true})->send;
          ours([&] { step = login.on_password_message(body_of(answer)); });
        }
        REQUIRE(step.state == Step::State::refused);
        trace.kinds += step.why->sqlstate() + step.why->text();
        return trace;
      };
      const Trace known = try_login("alice", &secret);
      const Trace unknown = try_login("elice", nullptr);
      CHECK(unknown.kinds == known.kinds);
      CHECK(unknown.work == known.work);
      const Secret no_password;
      const Trace without = try_login("blice", &no_password);
      CHECK(without.kinds == known.kinds);
      CHECK(without.work == known.work);
      // And the second time, when some of it is remembered.
      CHECK(try_login("elice", nullptr).work == try_login("alice", &secret).work);
    }
  }
}

TEST_CASE("a secret with too many iterations is never compared with a password in clear text", "[auth]") {
  World world;
  for (const std::uint32_t iterations : {99'999U, 100'000U, 100'001U, 2'000'000'000U}) {
    // Made with one iteration where it must not be computed at all.
    const std::uint32_t real = iterations > 100'000U ? 1 : iterations;
    ScramVerifier verifier = verifier_of(salted_password("secret", "0123456789abcdef", real), "0123456789abcdef", real);
    verifier.iterations = iterations;
    const Secret secret = Secret::parse(to_text(verifier));
    REQUIRE(secret.form() == SecretForm::scram);
    const std::uint64_t before = hash_work();
    ClientLogin login(Method::plain, "alice", &secret, world.context);
    const Outcome outcome = run(world, login, "secret");
    CHECK(outcome.state == (real == iterations ? Step::State::accepted : Step::State::refused));
    CHECK(hash_work() - before < (real == iterations ? iterations + 10 : 10));
  }
}

TEST_CASE("strangers' work is remembered apart", "[auth]") {
  World world;
  SaltedPasswordCache strangers(2);
  world.context.usual_form = SecretForm::plain;
  world.context.strangers = &strangers;
  for (const char* user : {"a", "b", "c", "d"}) {
    ClientLogin login(Method::scram_sha_256, user, nullptr, world.context);
    login.start();
  }
  CHECK(world.cache.size() == 0);
  CHECK(strangers.size() == 2);
  CHECK(strangers.computations() == 4);
}

TEST_CASE("PAM and LDAP judge the password that the client gives", "[auth]") {
  World world;
  for (const Method method : {Method::pam, Method::ldap}) {
    for (const bool right : {true, false}) {
      ClientLogin login({.method = method, .user = "alice"}, world.context);
      REQUIRE(login.start().state == Step::State::more);
      std::string message;
      protocol::append_password(message, "what I know");
      REQUIRE(login.on_password_message(body_of(message)).state == Step::State::outside);
      CHECK(login.waits_for_verdict());
      CHECK(*login.plain_password() == "what I know");
      const Step end = login.on_verdict(right ? Status() : Status(Error("PAM authentication failed")));
      CHECK(end.state == (right ? Step::State::accepted : Step::State::refused));
      if (right) CHECK(login.credentials().password == "what I know");
      if (!right) CHECK(end.why->text() == "PAM authentication failed");
    }
  }
  ClientLogin impatient({.method = Method::pam, .user = "alice"}, world.context);
  impatient.start();
  std::string message;
  protocol::append_password(message, "x");
  impatient.on_password_message(body_of(message));
  CHECK(impatient.on_password_message(body_of(message)).state == Step::State::refused);
}

TEST_CASE("a login over TLS offers both mechanisms, and binds where the client does", "[auth]") {
  World world;
  const Secret secret = Secret::parse(scram_secret("secret"));
  const LoginTask task{.method = Method::scram_sha_256, .user = "alice", .secret = &secret, .server_end_point = "hash"};
  ClientLogin login(task, world.context);
  ServerLogin client("alice", {.password = "secret", .md5 = {}, .scram = {}}, world.random, world.cache);
  const Channel same{.safe = true, .encrypted = true, .server_end_point = "hash"};
  CHECK(run(login, client, same).state == Step::State::accepted);
  CHECK(login.client_keys() != nullptr);

  ClientLogin deceived(task, world.context);
  ServerLogin victim("alice", {.password = "secret", .md5 = {}, .scram = {}}, world.random, world.cache);
  const Channel other{.safe = true, .encrypted = true, .server_end_point = "hash of somebody in between"};
  CHECK(run(deceived, victim, other).state == Step::State::refused);

  ClientLogin without_tls({.method = Method::scram_sha_256, .user = "alice", .secret = &secret}, world.context);
  CHECK(without_tls.start().send.find("PLUS") == std::string::npos);
}

TEST_CASE("what an unknown or rejected user is told can be said by whoever asks", "[auth]") {
  World world;
  ClientLogin unknown({.method = Method::trust, .user = "alice", .refusal = "no such user"}, world.context);
  CHECK(unknown.start().why->text() == "no such user");
  ClientLogin rejected({.method = Method::reject, .user = "alice", .refusal = "certificate authentication failed"}, world.context);
  CHECK(rejected.start().why->text() == "certificate authentication failed");
  ClientLogin usual({.method = Method::reject, .user = "alice"}, world.context);
  CHECK(usual.start().why->text() == "login rejected");
}
