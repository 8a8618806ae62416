#include "auth/scram.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "auth/digest.h"
#include "fixed_random.h"

using namespace pgweir;
using namespace pgweir::auth;

namespace {

constexpr std::string_view kSalt = "0123456789abcdef";
/// Few, so that the tests stay quick; what is checked does not depend on the number.
constexpr std::uint32_t kFew = 10;

ScramVerifier verifier_for(std::string_view password) {
  return verifier_of(salted_password(password, kSalt, kFew), kSalt, kFew);
}

std::string text_or_error(const Result<std::string>& result) {
  return result ? *result : result.error().text();
}

}  // namespace

TEST_CASE("the example of RFC 7677 gives the proof and signature that it shows", "[auth]") {
  const std::string salt = *from_base64("W22ZaJ0SNY7soEsUEjb6gQ==");
  const ScramKeys keys = keys_of(salted_password("pencil", salt, 4096));
  const std::string auth_message =
      "n=user,r=rOprNGfwEbeRWgbNEkqO,"
      "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
      "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
  const Key stored = sha256({view(keys.client_key)});
  Key proof = hmac_sha256(view(stored), auth_message);
  for (std::size_t i = 0; i < proof.size(); ++i)
    proof[i] = static_cast<char>(proof[i] ^ keys.client_key[i]);
  CHECK(to_base64(view(proof)) == "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  CHECK(to_base64(view(hmac_sha256(view(keys.server_key), auth_message))) ==
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

TEST_CASE("client and server agree on the right password and both sides prove it", "[auth]") {
  FixedRandom random;
  SaltedPasswordCache cache;
  ScramServer server(verifier_for("pencil"), ScramServer::Fate::checked, random);
  ScramClient client("pencil", cache, random);
  const Result<std::string> server_first = server.on_client_first(client.client_first());
  REQUIRE(server_first.ok());
  const Result<std::string> client_final = client.on_server_first(*server_first);
  REQUIRE(client_final.ok());
  const Result<std::string> server_final = server.on_client_final(*client_final);
  REQUIRE(server_final.ok());
  CHECK(client.on_server_final(*server_final).ok());
  CHECK(server.keys() == keys_of(salted_password("pencil", kSalt, kFew)));
}

TEST_CASE("keys gained from a client log in where the same secret is stored, and only there",
          "[auth]") {
  FixedRandom random;
  const ScramKeys keys = keys_of(salted_password("pencil", kSalt, kFew));
  for (const std::string_view stored : {"pencil", "other"}) {
    ScramServer server(verifier_for(stored), ScramServer::Fate::checked, random);
    ScramClient client(keys, random);
    const std::string server_first = *server.on_client_first(client.client_first());
    const Result<std::string> server_final =
        server.on_client_final(*client.on_server_first(server_first));
    CHECK(server_final.ok() == (stored == "pencil"));
    if (server_final) CHECK(client.on_server_final(*server_final).ok());
  }
}

TEST_CASE(
    "a wrong password is refused, and a doomed exchange refuses the right one in the same words",
    "[auth]") {
  FixedRandom random;
  SaltedPasswordCache cache;
  using Fate = ScramServer::Fate;
  for (const auto& [password, fate] :
       {std::pair{"pencils", Fate::checked}, std::pair{"pencil", Fate::doomed}}) {
    ScramServer server(verifier_for("pencil"), fate, random);
    ScramClient client(password, cache, random);
    const std::string server_first = *server.on_client_first(client.client_first());
    CHECK(text_or_error(server.on_client_final(*client.on_server_first(server_first))) ==
          "wrong SCRAM proof");
  }
}

TEST_CASE("malformed first messages of a client are refused", "[auth]") {
  FixedRandom random;
  for (const char* bad : {"", "n", "n,", "n,,", "n,,r=x", "n,,n=", "n,,n=,", "n,,n=,r=",
                          "n,,n=,r=a b", "n,a=admin,n=,r=x", "p=tls-server-end-point,,n=,r=x",
                          "x,,n=,r=x", "n,,m=ext,n=,r=x", "n=,r=x"}) {
    ScramServer server(verifier_for("p"), ScramServer::Fate::checked, random);
    CHECK_FALSE(server.on_client_first(bad));
  }
  ScramServer server(verifier_for("p"), ScramServer::Fate::checked, random);
  CHECK(server.on_client_first("y,,n=somebody,r=x,ext=1").ok());
}

TEST_CASE("a final message that was changed anywhere is refused", "[auth]") {
  const auto final_message = [](std::size_t changed_at, bool& in_range) {
    FixedRandom random;
    SaltedPasswordCache cache;
    ScramServer server(verifier_for("p"), ScramServer::Fate::checked, random);
    ScramClient client("p", cache, random);
    std::string message = *client.on_server_first(*server.on_client_first(client.client_first()));
    in_range = changed_at < message.size();
    if (in_range) message[changed_at] = message[changed_at] == 'A' ? 'B' : 'A';
    return server.on_client_final(message).ok();
  };
  bool in_range = true;
  std::size_t accepted = 0, at = 0;
  for (; in_range; ++at) accepted += final_message(at, in_range);
  // Beyond its end nothing was changed, which is the one exchange that succeeds. The last character
  // before the padding has two bits that don't count.
  CHECK(accepted <= 2);
  CHECK(at > 80);
}

TEST_CASE("a client refuses a server whose nonce, salt or iterations are not right", "[auth]") {
  FixedRandom random;
  SaltedPasswordCache cache;
  ScramClient client("p", cache, random);
  const std::string nonce = client.client_first().substr(8);
  const auto answer = [&](const std::string& rest) { return client.on_server_first(rest).ok(); };
  CHECK_FALSE(answer(""));
  CHECK_FALSE(answer("r=" + nonce + ",s=c2FsdA==,i=1"));
  CHECK_FALSE(answer("r=other" + nonce + ",s=c2FsdA==,i=1"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=,i=1"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=?,i=1"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=c2FsdA==,i=0"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=c2FsdA==,i=-1"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=c2FsdA==,i=1000001"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=c2FsdA==,i=4294967297"));
  CHECK_FALSE(answer("r=" + nonce + "x,s=c2FsdA=="));
  CHECK_FALSE(answer("m=ext,r=" + nonce + "x,s=c2FsdA==,i=1"));
  CHECK(answer("r=" + nonce + "x,s=c2FsdA==,i=1"));
}

TEST_CASE("a client refuses a server that does not know the secret", "[auth]") {
  FixedRandom random;
  SaltedPasswordCache cache;
  ScramClient client("p", cache, random);
  ScramServer server(verifier_for("p"), ScramServer::Fate::checked, random);
  REQUIRE(client.on_server_first(*server.on_client_first(client.client_first())).ok());
  CHECK_FALSE(client.on_server_final("v=" + to_base64(std::string(32, 'x'))));
  CHECK_FALSE(client.on_server_final("v="));
  CHECK_FALSE(client.on_server_final(""));
  CHECK(client.on_server_final("e=other-error").error().text() ==
        "the server refused the SCRAM exchange: other-error");
}

TEST_CASE("the cache gives what the computation gives and forgets the oldest past its bound",
          "[auth]") {
  SaltedPasswordCache cache(2);
  const Key key = salted_password("a", kSalt, kFew);
  CHECK(cache.get("a", kSalt, kFew) == key);
  CHECK(cache.get("a", kSalt, kFew) == key);
  CHECK(cache.size() == 1);
  CHECK(cache.get("a", kSalt, kFew + 1) != key);
  CHECK(cache.get("b", kSalt, kFew) != key);
  CHECK(cache.size() == 2);
  CHECK(cache.get("a", kSalt, kFew) == key);
}

TEST_CASE("where salt and password meet makes a difference to the cache", "[auth]") {
  SaltedPasswordCache cache;
  CHECK(cache.get("bc", "a", 1) != cache.get("c", "ab", 1));
}

TEST_CASE("a derived salt depends on the user and on the process alone", "[auth]") {
  FixedRandom random;
  const ServerSecret one = ServerSecret::draw(random), two = ServerSecret::draw(random);
  CHECK(one.salt_for("alice") == one.salt_for("alice"));
  CHECK(one.salt_for("alice") != one.salt_for("bob"));
  CHECK(one.salt_for("alice") != two.salt_for("alice"));
  CHECK(one.salt_for("alice").size() == 16);
}

TEST_CASE("an exchange that is bound to one certificate fails with another", "[auth]") {
  FixedRandom random;
  SaltedPasswordCache cache;
  const auto ends_well = [&](ScramBinding binding, const std::string& servers_own, bool plus) {
    ScramServer server(verifier_for("pencil"), ScramServer::Fate::checked, random, servers_own);
    ScramClient client("pencil", cache, random, std::move(binding));
    const Result<std::string> server_first = server.on_client_first(client.client_first(), plus);
    if (!server_first) return server_first.error().text();
    const Result<std::string> client_final = client.on_server_first(*server_first);
    if (!client_final) return client_final.error().text();
    const Result<std::string> server_final = server.on_client_final(*client_final);
    if (!server_final) return server_final.error().text();
    return std::string(client.on_server_final(*server_final) ? "well" : "badly");
  };
  using Kind = ScramBinding::Kind;
  CHECK(ends_well({Kind::bound, "certificate"}, "certificate", true) == "well");
  CHECK(ends_well({Kind::bound, "certificate"}, "certificate of somebody in between", true) ==
        "malformed SCRAM message: channel binding differs from the first message");
  // Both mechanisms are offered over TLS: a client that can't bind may come without.
  CHECK(ends_well({}, "certificate", false) == "well");
  CHECK(ends_well({Kind::not_offered, ""}, "", false) == "well");
  // Somebody in between has taken the offer away.
  CHECK(ends_well({Kind::not_offered, ""}, "certificate", false) ==
        "malformed SCRAM message: the client did not see that channel binding was offered");
  CHECK(ends_well({Kind::bound, "certificate"}, "certificate", false).find("malformed") == 0);
  CHECK(ends_well({}, "certificate", true).find("malformed") == 0);
}
