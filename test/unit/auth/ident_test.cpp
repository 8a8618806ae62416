#include "auth/ident.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;
using namespace pgweir::auth;

namespace {

std::string error_of(std::string_view text) {
  const Result<IdentMaps> maps = parse_ident(text, "ident.conf");
  return maps ? "" : maps.error().text();
}

}  // namespace

TEST_CASE("an ident map says who may be whom", "[auth]") {
  const Result<IdentMaps> maps = parse_ident(
      "# comment\n"
      "m  bob   bob\n"
      "m  bob   \"web app\"\n"
      "m  root  all\n"
      "n  eve   \"all\"\n",
      "ident.conf");
  REQUIRE(maps.ok());
  CHECK(maps->has("m"));
  CHECK_FALSE(maps->has("x"));
  CHECK(maps->allows("m", "bob", "bob"));
  CHECK(maps->allows("m", "bob", "web app"));
  CHECK_FALSE(maps->allows("m", "bob", "web"));
  CHECK_FALSE(maps->allows("m", "bo", "bob"));
  CHECK(maps->allows("m", "root", "anybody"));
  CHECK(maps->allows("n", "eve", "all"));
  CHECK_FALSE(maps->allows("n", "eve", "bob"));
  CHECK_FALSE(maps->allows("n", "bob", "bob"));
  CHECK_FALSE(maps->allows("x", "bob", "bob"));
  CHECK_FALSE(maps->allows("m", "", "bob"));
}

TEST_CASE("an outside name that begins with a slash is a regular expression", "[auth]") {
  const Result<IdentMaps> maps = parse_ident(
      "m  /^(.*)@example\\.com$   \\1\n"
      "m  /^ops-[0-9]+$           ops\n"
      "m  \"/^cn=([^,]+),ou=a b$\"  app_\\1\n",
      "ident.conf");
  REQUIRE(maps.ok());
  CHECK(maps->allows("m", "bob@example.com", "bob"));
  CHECK_FALSE(maps->allows("m", "bob@example.com", "eve"));
  CHECK_FALSE(maps->allows("m", "bob@example.org", "bob"));
  CHECK_FALSE(maps->allows("m", std::string("bob@example.com\0x", 17), "bob"));
  CHECK(maps->allows("m", "ops-12", "ops"));
  CHECK_FALSE(maps->allows("m", "ops-", "ops"));
  CHECK(maps->allows("m", "cn=joe,ou=a b", "app_joe"));
  CHECK_FALSE(maps->allows("m", std::string(5000, 'x') + "@example.com", std::string(5000, 'x')));
}

TEST_CASE("a name that the expression took can't be the word all", "[auth]") {
  const Result<IdentMaps> maps = parse_ident("m /^(.*)$ \\1\n", "ident.conf");
  REQUIRE(maps.ok());
  CHECK(maps->allows("m", "all", "all"));
  CHECK_FALSE(maps->allows("m", "all", "bob"));
}

TEST_CASE("a line of an ident map that can't be understood is named", "[auth]") {
  CHECK(error_of("m a\n") == "ident.conf:1: expected a map, a name from outside and a database user");
  CHECK(error_of("m a b c\n") == "ident.conf:1: expected a map, a name from outside and a database user");
  CHECK(error_of("ok a b\nm a,b c\n") == "ident.conf:2: expected one word in each column");
  CHECK(error_of("m /( c\n").find("ident.conf:1: regular expression \"(\"") == 0);
  CHECK(error_of("m /x \\1\n") == "ident.conf:1: \\1 needs a group in the regular expression");
  CHECK(error_of("m \"\" c\n") == "ident.conf:1: an empty name");
  CHECK(error_of("").empty());
}

TEST_CASE("a regular expression that would take all memory is refused", "[auth]") {
  for (const char* pattern : {"a**", "(&*+++++++++++)", "a+?", "((((( a )))))", "(a{250}){250}", "[^]a", "x+*"}) {
    INFO(pattern);
    CHECK(error_of(std::string("m \"/") + pattern + "\" x\n").find("ident.conf:1: regular expression") == 0);
  }
  CHECK(error_of("m /" + std::string(33 * 2, '*') + " x\n").find("repetition") != std::string::npos);
  CHECK(error_of("m \"/^[]{+*]+(a|b)*\\{x?$\" x\n").empty());
}
