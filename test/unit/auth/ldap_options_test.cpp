#include "auth/ldap_options.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;
using namespace pgweir::auth;

namespace {

std::string error_of(std::string_view text) {
  const Result<LdapOptions> options = parse_ldap_options(text);
  return options ? "" : options.error().text();
}

}  // namespace

TEST_CASE("a simple bind puts the name between prefix and suffix, and nothing more", "[auth]") {
  const Result<LdapOptions> options =
      parse_ldap_options(R"(ldapserver=127.0.0.1 ldapprefix="uid=" ldapsuffix=",dc=example,dc=net" ldaptls=1)");
  REQUIRE(options.ok());
  CHECK_FALSE(options->searches());
  CHECK(options->start_tls);
  CHECK(options->uris() == "ldap://127.0.0.1:389");
  CHECK(options->dn_of("joe") == "uid=joe,dc=example,dc=net");
  CHECK(options->dn_of("joe,ou=admins") == "uid=joe\\,ou\\=admins,dc=example,dc=net");
  CHECK(options->dn_of(" #\\ ") == "uid=\\ #\\\\\\ ,dc=example,dc=net");
}

TEST_CASE("a URL says all that a search needs", "[auth]") {
  const Result<LdapOptions> options =
      parse_ldap_options(R"x(ldapurl="ldaps://[::1]:1636/dc=example,dc=net??one?(|(uid=$username)(mail=$username))")x");
  REQUIRE(options.ok());
  CHECK(options->uris() == "ldaps://[::1]:1636");
  CHECK(options->base_dn == "dc=example,dc=net");
  CHECK(options->scope == LdapOptions::Scope::one);
  CHECK(options->filter_for("joe") == "(|(uid=joe)(mail=joe))");

  const Result<LdapOptions> plain = parse_ldap_options("ldapurl=ldap://h/dc=a%20b?cn?sub");
  REQUIRE(plain.ok());
  CHECK(plain->base_dn == "dc=a b");
  CHECK(plain->filter_for("joe") == "(cn=joe)");
  CHECK(plain->scope == LdapOptions::Scope::sub);
}

TEST_CASE("a name can't change the filter that it is put into", "[auth]") {
  const Result<LdapOptions> options = parse_ldap_options("ldapserver=h ldapbasedn=dc=x");
  REQUIRE(options.ok());
  CHECK(options->filter_for("*") == "(uid=\\2a)");
  CHECK(options->filter_for("x)(uid=admin") == "(uid=x\\29\\28uid=admin)");
  CHECK(options->filter_for("a\\b") == "(uid=a\\5cb)");
  CHECK(options->filter_for(std::string_view("a\0b", 3)) == "(uid=a\\00b)");
  const Result<LdapOptions> twice = parse_ldap_options("ldapserver=h ldapbasedn=dc=x ldapsearchfilter=(|(a=$username)(b=$username))");
  REQUIRE(twice.ok());
  CHECK(twice->filter_for("$username") == "(|(a=$username)(b=$username))");
}

TEST_CASE("LDAP options that don't fit together are refused, and no value is shown", "[auth]") {
  CHECK(error_of("ldapbasedn=x") == "expected ldapserver= or a host in ldapurl=");
  CHECK(error_of("ldapserver=h") == "expected ldapbasedn=, or ldapprefix= or ldapsuffix=");
  CHECK(error_of("ldapserver=h ldapprefix=a ldapbasedn=b") == "ldapprefix and ldapsuffix don't go with ldapbasedn");
  CHECK(error_of("ldapserver=h ldapbasedn=b ldapsearchattribute=a ldapsearchfilter=b") ==
        "ldapsearchattribute and ldapsearchfilter don't go together");
  CHECK(error_of("ldapserver=h ldapport=0 ldapbasedn=b") == "ldapport = \"0\": expected 1 to 65535");
  CHECK(error_of("ldapserver=h ldapmagic=1") == "unknown option ldapmagic");
  CHECK(error_of("ldapurl=http://h/x").find("expected ldap:// or ldaps://") != std::string::npos);
  CHECK(error_of("ldapurl=ldap://h/x??deep").find("scope") != std::string::npos);
  CHECK(error_of("ldapserver=h ldapbindpasswd=top secret").find("secret") == std::string::npos);
}
