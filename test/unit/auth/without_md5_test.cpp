// A process whose OpenSSL lets nobody have MD5, as in FIPS mode: a program of its own, for what has been found once stays found.
#include <catch2/catch.hpp>
#include <openssl/evp.h>
#include <string>

#include "auth/client_login.h"
#include "auth/digest.h"
#include "auth/server_login.h"
#include "base/text.h"
#include "fixed_random.h"
#include "protocol/framer.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::auth;

namespace {

const std::string kMd5Secret = "md54a0a68b43b6cd5cf266fa02f196e2371";  // Of "secret", for alice.
constexpr std::string_view kTold = "md5 authentication needs MD5, which OpenSSL does not offer here (FIPS mode?)";

struct World {
  World() {
    sha256({"found before"});  // FIPS mode has it, and the provider that is loaded here is none.
    REQUIRE(EVP_set_default_properties(nullptr, "fips=yes") == 1);
  }
  FixedRandom random;
  ServerSecret server_secret = ServerSecret::draw(random);
  SaltedPasswordCache cache;
  LoginContext context{.random = random, .server_secret = server_secret, .cache = cache, .scram_iterations = 10};
};

void check_refused(const Step& step) {
  CHECK(step.state == Step::State::refused);
  CHECK(step.send.empty());
  REQUIRE(step.why);
  CHECK(step.why->text() == kTold);
  CHECK(step.why->sqlstate() == "0A000");
}

std::string body(std::string_view password) {
  std::string message;
  protocol::append_password(message, password);
  return message.substr(protocol::kHeaderSize);
}

}  // namespace

TEST_CASE("without MD5 a login by md5 is refused with the reason, whoever comes", "[auth]") {
  World world;
  CHECK_FALSE(md5_available());
  for (const char* stored : {kMd5Secret.c_str(), "secret", ""}) {
    const Secret secret = Secret::parse(stored);
    check_refused(ClientLogin(Method::md5, "alice", &secret, world.context).start());
  }
  check_refused(ClientLogin(Method::md5, "stranger", nullptr, world.context).start());
}

TEST_CASE("without MD5 a password in clear text is compared with every secret but an md5 one", "[auth]") {
  World world;
  const Secret hash = Secret::parse(kMd5Secret);
  ClientLogin by_hash(Method::plain, "alice", &hash, world.context);
  CHECK(by_hash.start().state == Step::State::more);
  check_refused(by_hash.on_password_message(body("secret")));
  CHECK(by_hash.plain_password() == nullptr);

  const Secret plain = Secret::parse("secret");
  ClientLogin by_password(Method::plain, "alice", &plain, world.context);
  by_password.start();
  CHECK(by_password.on_password_message(body("secret")).state == Step::State::accepted);

  // An unknown user goes the way of the others.
  world.context.usual_form = SecretForm::md5;
  ClientLogin stranger(Method::plain, "stranger", nullptr, world.context);
  stranger.start();
  check_refused(stranger.on_password_message(body("secret")));
}

TEST_CASE("without MD5 a server that asks for it gets no answer, and the reason is told", "[auth]") {
  World world;
  std::string asked;
  protocol::append_auth_md5(asked, "salt");
  for (const Credentials& known : {Credentials{.password = "secret", .md5 = {}, .scram = {}}, Credentials{.password = {}, .md5 = kMd5Secret, .scram = {}}}) {
    ServerLogin login("alice", known, world.random, world.cache);
    const Result<ServerLogin::Answer> answer = login.on_authentication(Bytes(asked).substr(protocol::kHeaderSize), {.safe = true});
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().text() == concat({"server login failed: ", kTold}));
  }
}
