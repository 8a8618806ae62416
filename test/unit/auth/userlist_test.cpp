#include "auth/userlist.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir::auth;

namespace {

std::string secret_of(const Userlist& list, std::string_view user) {
  const Secret* secret = list.users.find(user);
  return secret ? secret->text() : "(unknown)";
}

}  // namespace

TEST_CASE("a userlist gives each user's secret", "[auth]") {
  const Userlist list = parse_userlist(
      "; a comment\n"
      "# another\n"
      "\n"
      "\"alice\" \"secret\"\n"
      "  \"bob\"\t\"md54a0a68b43b6cd5cf266fa02f196e2371\" and what follows is ignored\r\n"
      "\"car\"\"ol\" \"say \"\"hi\"\"\" \"old password\"\n"
      "\"dave\"\"\"\"\"\n"
      "\"erin\" \"no newline at the end\"",
      "userlist.txt");
  CHECK(list.users.size() == 4);
  CHECK(secret_of(list, "alice") == "secret");
  CHECK(list.users.find("bob")->form() == SecretForm::md5);
  CHECK(secret_of(list, "car\"ol") == "say \"hi\"");
  CHECK(secret_of(list, "erin") == "no newline at the end");
  CHECK(list.users.find("nobody") == nullptr);
  REQUIRE(list.warnings.size() == 1);
  CHECK(list.warnings[0] ==
        "userlist.txt:7: expected a password in double quotes behind the user name");
}

TEST_CASE("a user with an empty secret is known and has no password", "[auth]") {
  const Userlist list = parse_userlist("\"a\" \"\"\n", "u");
  CHECK(list.warnings.empty());
  REQUIRE(list.users.find("a"));
  CHECK(list.users.find("a")->form() == SecretForm::none);
}

TEST_CASE("a bad line is named and does not spoil the others", "[auth]") {
  const Userlist list = parse_userlist(
      "alice secret\n"
      "\"open\n"
      "\"a\" \"open secret\n"
      "\"a\"\n"
      "\"a\" unquoted\n"
      "\"\" \"nobody\"\n"
      "\"good\" \"one\"\n",
      "u");
  CHECK(list.users.size() == 1);
  CHECK(secret_of(list, "good") == "one");
  REQUIRE(list.warnings.size() == 6);
  CHECK(list.warnings[0] == "u:1: expected a user name in double quotes");
  CHECK(list.warnings[1] == "u:2: the quote that ends the user name is missing");
  CHECK(list.warnings[2] == "u:3: the quote that ends the password is missing");
  CHECK(list.warnings[5] == "u:6: the user name is empty");
  for (const std::string& warning : list.warnings)
    CHECK(warning.find("secret") == std::string::npos);
}

TEST_CASE("a line of 65,530 characters is read whole", "[auth]") {
  const std::string password(65519, 'x');
  const std::string line = "\"long\" \"" + password + "\" ;";
  CHECK(line.size() == 65530);
  const Userlist list = parse_userlist(line + "\n\"next\" \"n\"\n", "u");
  CHECK(secret_of(list, "long") == password);
  CHECK(secret_of(list, "next") == "n");
}

TEST_CASE("of two lines for one user the last one counts", "[auth]") {
  const Userlist list = parse_userlist("\"a\" \"1\"\n\"a\" \"2\"\n", "u");
  CHECK(secret_of(list, "a") == "2");
}

TEST_CASE("an empty userlist has no users and no warnings", "[auth]") {
  for (const char* text : {"", "\n", "\n\n", "  \t\r\n", ";"}) {
    const Userlist list = parse_userlist(text, "u");
    CHECK(list.users.size() == 0);
    CHECK(list.warnings.empty());
  }
}
