#include "auth/secret.h"

#include <catch2/catch.hpp>
#include <string>

#include "auth/credentials.h"
#include "auth/scram.h"

using namespace pgweir::auth;

namespace {
const std::string kVerifier =
    "SCRAM-SHA-256$4096:AAECAwQFBgcICQoLDA0ODw==$zHCdol2044/ZyWzPLi7oxApCkamKw9Z+E4U/QApd/"
    "5Y=:dd5peBOitVnLNFu7VmwP+HiDaaw4OUCv396eVCWhYiE=";
}

TEST_CASE("a secret's form is told as PostgreSQL tells it", "[auth]") {
  CHECK(Secret::parse("").form() == SecretForm::none);
  CHECK(Secret().form() == SecretForm::none);
  CHECK(Secret::parse("md54a0a68b43b6cd5cf266fa02f196e2371").form() == SecretForm::md5);
  CHECK(Secret::parse("md54a0a68b43b6cd5cf266fa02f196e23710").form() == SecretForm::plain);
  CHECK(Secret::parse("md5" + std::string(32, 'A')).form() == SecretForm::plain);
  CHECK(Secret::parse("md5sum").form() == SecretForm::plain);
  CHECK(Secret::parse(kVerifier).form() == SecretForm::scram);
  CHECK(Secret::parse("SCRAM-SHA-256$4096:x").form() == SecretForm::plain);
}

TEST_CASE("a SCRAM secret goes there and back, and is what the password gives", "[auth]") {
  const std::optional<ScramVerifier> verifier = parse_verifier(kVerifier);
  REQUIRE(verifier);
  CHECK(verifier->iterations == 4096);
  CHECK(verifier->salt.size() == 16);
  CHECK(to_text(*verifier) == kVerifier);
  CHECK(*verifier ==
        verifier_of(salted_password("pencil", verifier->salt, 4096), verifier->salt, 4096));
  CHECK(matches(*verifier, "pencil"));
  CHECK_FALSE(matches(*verifier, "pencils"));
}

TEST_CASE("a SCRAM secret that lacks anything is none", "[auth]") {
  for (std::size_t size = 0; size < kVerifier.size(); ++size)
    CHECK_FALSE(parse_verifier(kVerifier.substr(0, size)));
  CHECK_FALSE(parse_verifier(kVerifier + "x"));
  const std::string rest = kVerifier.substr(kVerifier.find(':'));
  for (const char* count : {"0", "-1", "", "99999999999", "4096x", " 4096"}) {
    CHECK_FALSE(parse_verifier("SCRAM-SHA-256$" + std::string(count) + rest));
  }
}

TEST_CASE("a stored secret is good for the logins its form allows", "[auth]") {
  CHECK(credentials_of(Secret()).empty());
  CHECK(credentials_of(Secret::parse("pw")) ==
        Credentials{.password = "pw", .md5 = {}, .scram = {}});
  CHECK(credentials_of(Secret::parse("md54a0a68b43b6cd5cf266fa02f196e2371")).md5 ==
        "md54a0a68b43b6cd5cf266fa02f196e2371");
  CHECK(credentials_of(Secret::parse(kVerifier)).empty());
}

TEST_CASE("the password of RFC 7677 in the form of RFC 5803 is what PostgreSQL stores for it", "[auth]") {
  constexpr std::string_view kStored =
      "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
      "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
  const std::optional<ScramVerifier> verifier = parse_verifier(kStored);
  REQUIRE(verifier.has_value());
  CHECK(verifier->iterations == 4096);
  CHECK(matches(*verifier, "pencil"));
  CHECK_FALSE(matches(*verifier, "Pencil"));
  CHECK(to_text(verifier_of(salted_password("pencil", verifier->salt, 4096), verifier->salt, 4096)) == kStored);
}
