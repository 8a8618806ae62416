#include "auth/server_login.h"

#include <catch2/catch.hpp>
#include <string>

#include "auth/digest.h"
#include "fixed_random.h"
#include "protocol/framer.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::auth;

namespace {

struct World {
  FixedRandom random;
  SaltedPasswordCache cache;
};

Credentials with_password() { return {.password = "secret", .md5 = {}, .scram = {}}; }

Result<ServerLogin::Answer> give(ServerLogin& login, const std::string& message,
                                 const Channel& channel = {.safe = true}) {
  return login.on_authentication(Bytes(message).substr(protocol::kHeaderSize), channel);
}

std::string text_or_error(const Result<ServerLogin::Answer>& answer) {
  return answer ? "no error" : answer.error().text();
}

template <class Append, class... Data>
std::string request(Append append, Data... data) {
  std::string out;
  append(out, data...);
  return out;
}

std::string sasl_request(std::initializer_list<Bytes> mechanisms) {
  std::string out;
  protocol::append_auth_sasl(out, std::span(mechanisms.begin(), mechanisms.size()));
  return out;
}

const std::string kOk = request(protocol::append_auth_ok);
const std::string kWrongType = "server login failed: wrong password type";

}  // namespace

TEST_CASE("a server that asks for nothing is accepted", "[auth]") {
  World world;
  ServerLogin login("alice", {}, world.random, world.cache);
  const Result<ServerLogin::Answer> answer = give(login, kOk);
  REQUIRE(answer.ok());
  CHECK(answer->done);
  CHECK(answer->send.empty());
}

TEST_CASE("clear text and md5 are answered with what the credentials give", "[auth]") {
  World world;
  ServerLogin clear("alice", with_password(), world.random, world.cache);
  CHECK(give(clear, request(protocol::append_auth_cleartext))->send ==
        request(protocol::append_password, Bytes("secret")));
  CHECK(give(clear, kOk)->done);

  const std::string hash = md5_of_password("secret", "alice");
  const std::string wanted = request(protocol::append_password, Bytes(md5_answer(hash, "salt")));
  ServerLogin by_password("alice", with_password(), world.random, world.cache);
  CHECK(give(by_password, request(protocol::append_auth_md5, Bytes("salt")))->send == wanted);
  ServerLogin by_hash("alice", {.password = {}, .md5 = "md5" + hash, .scram = {}}, world.random,
                      world.cache);
  CHECK(give(by_hash, request(protocol::append_auth_md5, Bytes("salt")))->send == wanted);
}

TEST_CASE("credentials that don't fit what the server asks for are an error that says so",
          "[auth]") {
  World world;
  const Credentials hash{.password = {}, .md5 = "md5" + std::string(32, '0'), .scram = {}};
  const Credentials keys{.password = {}, .md5 = {}, .scram = ScramKeys{}};
  const auto text = [&](const Credentials& credentials, const std::string& asked) {
    ServerLogin login("alice", credentials, world.random, world.cache);
    return text_or_error(give(login, asked));
  };
  const std::string clear = request(protocol::append_auth_cleartext);
  const std::string md5 = request(protocol::append_auth_md5, Bytes("salt"));
  const std::string scram = sasl_request({"SCRAM-SHA-256"});
  CHECK(text({}, clear) == kWrongType);
  CHECK(text({}, md5) == kWrongType);
  CHECK(text({}, scram) == kWrongType);
  CHECK(text(hash, clear) == kWrongType);
  CHECK(text(hash, scram) == kWrongType);
  CHECK(text(keys, clear) == kWrongType);
  CHECK(text(keys, md5) == kWrongType);
  CHECK(text(with_password(), sasl_request({"SCRAM-SHA-1"})) ==
        "server login failed: the server offers no SASL mechanism that is known here");
  CHECK(text(with_password(), request(protocol::append_auth_md5, Bytes("toolong"))) ==
        "server login failed: malformed authentication request");
  CHECK(text(with_password(), std::string("R\0\0\0\x08\0\0\0\7", 9)) ==
        "server login failed: unknown authentication method 7");
  CHECK(text(with_password(), std::string("R\0\0\0\4", 5)) ==
        "server login failed: malformed authentication request");
}

TEST_CASE("a server that asked for SCRAM and lets us in without its proof is refused", "[auth]") {
  World world;
  const std::string not_proved =
      "server login failed: the server did not prove that it knows the password";
  ServerLogin login("alice", with_password(), world.random, world.cache);
  REQUIRE(give(login, sasl_request({"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"})).ok());
  CHECK(text_or_error(give(login, kOk)) == not_proved);

  ServerLogin second("alice", with_password(), world.random, world.cache);
  const std::string initial = give(second, sasl_request({"SCRAM-SHA-256"}))->send;
  protocol::Reader reader(Bytes(initial).substr(protocol::kHeaderSize));
  reader.cstring();
  const Bytes client_first = reader.bytes(reader.u32());
  ScramServer impostor({.iterations = 1, .salt = "salt"}, ScramServer::Fate::checked, world.random);
  const std::string server_first = *impostor.on_client_first(client_first);
  REQUIRE(give(second, request(protocol::append_auth_sasl_continue, Bytes(server_first))).ok());
  CHECK(text_or_error(give(second, kOk)) == not_proved);
  CHECK(text_or_error(give(second, request(protocol::append_auth_sasl_final,
                                           Bytes("v=" + to_base64(std::string(32, 'x')))))) ==
        not_proved);
}

TEST_CASE("SCRAM messages out of turn are refused", "[auth]") {
  World world;
  const std::string unexpected = "server login failed: unexpected authentication request";
  ServerLogin login("alice", with_password(), world.random, world.cache);
  CHECK(text_or_error(give(login, request(protocol::append_auth_sasl_continue, Bytes("r=x")))) ==
        unexpected);
  CHECK(text_or_error(give(login, request(protocol::append_auth_sasl_final, Bytes("v=x")))) ==
        unexpected);
  REQUIRE(give(login, sasl_request({"SCRAM-SHA-256"})).ok());
  CHECK(text_or_error(give(login, sasl_request({"SCRAM-SHA-256"}))) == unexpected);
  CHECK(text_or_error(give(login, request(protocol::append_auth_cleartext))) == unexpected);
}

TEST_CASE("a password goes out in clear text only where nobody reads along", "[auth]") {
  World world;
  const std::string cleartext = request(protocol::append_auth_cleartext);
  ServerLogin safe("alice", with_password(), world.random, world.cache);
  CHECK(give(safe, cleartext)->send.find("secret") != std::string::npos);
  ServerLogin open("alice", with_password(), world.random, world.cache);
  const Result<ServerLogin::Answer> refused = give(open, cleartext, {.safe = false});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().sqlstate() == "28000");
  CHECK(refused.error().text().find("in clear text over a connection that is not encrypted") != std::string::npos);
  CHECK(refused.error().text().find("\"secret\"") == std::string::npos);
  // md5 shows no password.
  ServerLogin hashed("alice", with_password(), world.random, world.cache);
  CHECK(give(hashed, request(protocol::append_auth_md5, "salt"), {.safe = false}).ok());
}

TEST_CASE("over TLS the login is bound to the server's certificate when the server offers it", "[auth]") {
  World world;
  const Channel tls{.safe = true, .encrypted = true, .server_end_point = "hash of the certificate"};
  const auto chosen = [&](std::initializer_list<Bytes> mechanisms, const Channel& channel) {
    ServerLogin login("alice", with_password(), world.random, world.cache);
    const Result<ServerLogin::Answer> answer = give(login, sasl_request(mechanisms), channel);
    return answer ? answer->send : answer.error().text();
  };
  const std::string bound = chosen({kScramPlusMechanism, kScramMechanism}, tls);
  CHECK(bound.find("SCRAM-SHA-256-PLUS") != std::string::npos);
  CHECK(bound.find("p=tls-server-end-point,,n=,r=") != std::string::npos);
  // Whoever takes the offer away is found out by the "y".
  CHECK(chosen({kScramMechanism}, tls).find("y,,n=,r=") != std::string::npos);
  CHECK(chosen({kScramPlusMechanism, kScramMechanism}, {.safe = true}).find("n,,n=,r=") != std::string::npos);
  CHECK(chosen({kScramPlusMechanism}, {.safe = true}) ==
        "server login failed: the server offers no SASL mechanism that is known here");
}
