#include "auth/hba.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

using namespace pgweir;
using namespace pgweir::auth;

namespace {

using Files = std::map<std::string, std::string>;

Result<Hba> parse(const std::string& text, const Files& files = {}) {
  return parse_hba(text, "dir/hba.conf", [&](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return Error(path + ": No such file or directory");
    return found->second;
  });
}

std::string error_of(const std::string& text, const Files& files = {}) {
  const Result<Hba> hba = parse(text, files);
  return hba ? "" : hba.error().text();
}

struct Who {
  std::string address;  ///< "" is a Unix socket
  std::string database = "db";
  std::string user = "user";
  bool encrypted = false;
  bool replication = false;
  const Roles* roles = nullptr;
};

HbaQuestion question(const Who& who) {
  HbaQuestion asked{.database = who.database,
                    .user = who.user,
                    .physical_replication = who.replication,
                    .encrypted = who.encrypted,
                    .address = {},
                    .roles = who.roles};
  if (!who.address.empty()) asked.address = parse_ip(who.address);
  return asked;
}

/// The method of the rule that fits; "none" without one.
std::string method(const HbaRules& rules, const Who& who) {
  const HbaRule* rule = rules.find(question(who));
  return rule ? std::string(to_string(rule->method)) : "none";
}

}  // namespace

TEST_CASE("the first HBA rule that fits decides", "[auth]") {
  const Result<Hba> hba = parse(R"(
# TYPE    DATABASE    USER           ADDRESS                    METHOD
  	
local     dbp         all                                       peer
local     all         userp                                     password
local     all         all                                       md5   # a comment
hostssl   all         all            10.0.0.0/8                 cert
hostnossl all         all            11.0.0.0/8                 md5
host      all         all            127.0.0.0  255.255.255.0   password
host      db1         all            0.0.0.0/0                  trust
host      tmp1,all    u1,u2 , u3     16.0.0.0/8                 md5
host      "all"       "all"          19.0.0.0/8                 trust
host      "q1""q2"    "a , b"        19.0.0.0/8                 scram-sha-256
host      sameuser    all            20.0.0.0/8                 md5
host      mdb         muser          199.199.199.199/32         trust
host      mdb         muser          ff20::/12                  md5
host      mdb         muser          ::1/128                    trust
host      mdb3        muser          all                        scram-sha-256
host      mdb4        muser          all                        reject
)");
  REQUIRE(hba.ok());
  const HbaRules& rules = hba->rules;
  CHECK(hba->warnings.empty());

  CHECK(method(rules, {.address = ""}) == "md5");
  CHECK(method(rules, {.address = "", .database = "dbp"}) == "peer");
  CHECK(method(rules, {.address = "", .user = "userp"}) == "plain");

  CHECK(method(rules, {.address = "10.1.1.1", .encrypted = true}) == "cert");
  CHECK(method(rules, {.address = "10.1.1.1"}) == "none");
  CHECK(method(rules, {.address = "11.1.1.1", .encrypted = true}) == "none");
  CHECK(method(rules, {.address = "11.1.1.1"}) == "md5");
  CHECK(method(rules, {.address = "127.0.0.2", .encrypted = true}) == "plain");
  CHECK(method(rules, {.address = "127.0.1.2"}) == "none");
  CHECK(method(rules, {.address = "127.0.1.2", .database = "db1"}) == "trust");
  CHECK(method(rules, {.address = "::ffff:127.0.0.2"}) == "plain");

  CHECK(method(rules, {.address = "16.0.0.1", .user = "u3"}) == "md5");
  CHECK(method(rules, {.address = "16.0.0.1", .user = "u4"}) == "none");

  CHECK(method(rules, {.address = "19.0.0.2"}) == "none");
  CHECK(method(rules, {.address = "19.0.0.2", .database = "all", .user = "all"}) == "trust");
  CHECK(method(rules, {.address = "19.0.0.2", .database = "q1\"q2", .user = "a , b"}) == "scram-sha-256");

  CHECK(method(rules, {.address = "20.0.0.2"}) == "none");
  CHECK(method(rules, {.address = "20.0.0.2", .database = "x", .user = "x"}) == "md5");

  CHECK(method(rules, {.address = "199.199.199.199", .database = "mdb", .user = "muser"}) == "trust");
  CHECK(method(rules, {.address = "199.199.199.198", .database = "mdb", .user = "muser"}) == "none");
  CHECK(method(rules, {.address = "ff22:3::1", .database = "mdb", .user = "muser"}) == "md5");
  CHECK(method(rules, {.address = "ff32:3::1", .database = "mdb", .user = "muser"}) == "none");
  CHECK(method(rules, {.address = "::1", .database = "mdb", .user = "muser"}) == "trust");
  CHECK(method(rules, {.address = "::2", .database = "mdb", .user = "muser"}) == "none");
  CHECK(method(rules, {.address = "face::1", .database = "mdb3", .user = "muser"}) == "scram-sha-256");
  CHECK(method(rules, {.address = "1.2.3.4", .database = "mdb4", .user = "muser"}) == "reject");
}

TEST_CASE("only the word replication lets physical replication in", "[auth]") {
  const Result<Hba> hba = parse(
      "host all all ::1/128 md5\n"
      "host replication admin ::1/128 trust\n"
      "host db2,replication admin2 ::1/128 scram-sha-256\n");
  REQUIRE(hba.ok());
  const HbaRules& rules = hba->rules;
  CHECK(method(rules, {.address = "::1", .user = "admin", .replication = true}) == "trust");
  CHECK(method(rules, {.address = "::1", .user = "other", .replication = true}) == "none");
  CHECK(method(rules, {.address = "::1", .user = "admin2", .replication = true}) == "scram-sha-256");
  CHECK(method(rules, {.address = "::1", .database = "replication", .user = "admin"}) == "md5");
}

TEST_CASE("rules for roles are asked about only where it matters", "[auth]") {
  const Result<Hba> hba = parse(
      "host all boss all trust\n"
      "host all +staff,guest all scram-sha-256\n"
      "host all all all md5\n");
  REQUIRE(hba.ok());
  const HbaRules& rules = hba->rules;
  CHECK(rules.names_roles());
  CHECK_FALSE(rules.needs_roles(question({.address = "1.1.1.1", .user = "boss"})));
  CHECK_FALSE(rules.needs_roles(question({.address = "1.1.1.1", .user = "guest"})));
  CHECK_FALSE(rules.needs_roles(question({.address = ""})));
  CHECK(rules.needs_roles(question({.address = "1.1.1.1", .user = "eve"})));

  const Roles staff{"eve", "staff"};
  const Roles nobody{"eve"};
  CHECK(method(rules, {.address = "1.1.1.1", .user = "eve", .roles = &staff}) == "scram-sha-256");
  CHECK(method(rules, {.address = "1.1.1.1", .user = "eve", .roles = &nobody}) == "md5");
  // As long as nobody knows, no rule behind it may be taken.
  CHECK(method(rules, {.address = "1.1.1.1", .user = "eve"}) == "none");
}

TEST_CASE("names come from files that lie beside the rules, and files may name files", "[auth]") {
  const Files files{{"dir/dbs", "a, b\n# none\n\"all\"\n@more\n"}, {"dir/more", "c\n"}, {"/abs", "u1\nu2 +r\n"}};
  const Result<Hba> hba = parse("local @dbs @/abs trust\n", files);
  REQUIRE(hba.ok());
  const HbaRule& rule = hba->rules.rules()[0];
  CHECK(rule.databases.names == std::vector<std::string>{"a", "b", "all", "c"});
  CHECK_FALSE(rule.databases.all);
  CHECK(rule.users.names == std::vector<std::string>{"u1", "u2"});
  CHECK(rule.users.roles == std::vector<std::string>{"r"});

  CHECK(error_of("local @gone all trust") == "dir/hba.conf:1: @dir/gone: dir/gone: No such file or directory");
  CHECK(error_of("\nlocal @self all trust", {{"dir/self", "@self\n"}}).find("more than 10 deep") != std::string::npos);
}

TEST_CASE("a rule that can't be understood spoils the file, and is named", "[auth]") {
  CHECK(error_of("local all all trust\nhots all all all trust") ==
        "dir/hba.conf:2: connection type \"hots\": expected local, host, hostssl or hostnossl");
  CHECK(error_of("host all all 10.0.0.0/33 trust") ==
        "dir/hba.conf:1: address \"10.0.0.0/33\": expected 10.0.0.0/8 or fe80::/10");
  CHECK(error_of("host all all 10.0.0.1 md5") == "dir/hba.conf:1: mask \"md5\": expected one as 255.255.0.0");
  CHECK(error_of("host all all 10.0.0.1") ==
        "dir/hba.conf:1: address \"10.0.0.1\": expected a mask behind it, or /bits");
  CHECK(error_of("host all all db.example.com md5").find("host names are not supported") != std::string::npos);
  CHECK(error_of("host all all samenet md5").find("samenet is not supported") != std::string::npos);
  CHECK(error_of("host all all all magic").find("method \"magic\"") != std::string::npos);
  CHECK(error_of("local all") == "dir/hba.conf:1: expected databases, users and a method");
  CHECK(error_of("local all all") == "dir/hba.conf:1: expected one method");
  CHECK(error_of("local all \"all trust") == "dir/hba.conf:1: a closing quote is missing");
  CHECK(error_of("host all all all peer") == "dir/hba.conf:1: peer is for local connections only");
  CHECK(error_of("local all all md5 map=x") == "dir/hba.conf:1: unknown option map");
  CHECK(error_of("hostssl all all all md5 clientcert=maybe") ==
        "dir/hba.conf:1: clientcert = \"maybe\": expected verify-ca or verify-full");
  CHECK(error_of("local samerole all md5").find("samerole is not supported") != std::string::npos);
}

TEST_CASE("PostgreSQL's other methods refuse whom their line fits", "[auth]") {
  const Result<Hba> hba = parse("host all all 10.0.0.0/8 gss include_realm=0\nhost all all all trust\nhostgssenc all all all trust\n");
  REQUIRE(hba.ok());
  CHECK(method(hba->rules, {.address = "10.0.0.1"}) == "reject");
  CHECK(method(hba->rules, {.address = "11.0.0.1"}) == "trust");
  REQUIRE(hba->warnings.size() == 1);
  CHECK(hba->warnings[0] == "dir/hba.conf:1: method gss is not supported: who comes by this line is refused");
}

TEST_CASE("options of a rule are read", "[auth]") {
  const Result<Hba> hba = parse(
      "hostssl all all all cert map=\"my map\" clientname=DN\n"
      "hostssl all all all scram-sha-256 clientcert=verify-full\n"
      "host all all all pam pamservice=pg\n"
      "host all all all ldap ldapserver=\"a b\" \"ldapport\"=1389 ldapbasedn=\"dc=x,dc=y\" ,ldapsearchfilter=\"uid=$username\"\n");
  REQUIRE(hba.ok());
  const std::vector<HbaRule>& rules = hba->rules.rules();
  CHECK(rules[0].map == "my map");
  CHECK(rules[0].by_dn);
  CHECK(rules[1].client_cert == HbaRule::ClientCert::verify_full);
  CHECK(rules[2].pam_service == "pg");
  REQUIRE(rules[3].ldap.has_value());
  CHECK(rules[3].ldap->uris() == "ldap://a:1389 ldap://b:1389");
  CHECK(rules[3].ldap->base_dn == "dc=x,dc=y");
  CHECK(rules[3].ldap->filter_for("joe") == "(uid=joe)");
}

TEST_CASE("addresses are read as people write them, and IPv4 within IPv6 is IPv4", "[auth]") {
  CHECK(parse_ip("10.1.2.3") == parse_ip("::ffff:10.1.2.3"));
  CHECK(parse_ip("fe80::1%eth0") == parse_ip("fe80:0::1"));
  for (const char* bad : {"", "10.1.2", "10.1.2.3.4", "10.1.2.256", "g::1", "host", "1.2.3.4/8", ":::"}) {
    INFO(bad);
    CHECK_FALSE(parse_ip(bad).has_value());
  }
  for (const char* bad : {"10.0.0.0", "10.0.0.0/", "10.0.0.0/-1", "::/129", "/8", "10.0.0.0/8x", "10.0.0.0/ 8"}) {
    INFO(bad);
    CHECK_FALSE(parse_network(bad).has_value());
  }
  CHECK(parse_network("0.0.0.0/0")->holds(*parse_ip("255.1.1.1")));
  CHECK_FALSE(parse_network("0.0.0.0/0")->holds(*parse_ip("::1")));
  CHECK_FALSE(parse_network("::/0")->holds(*parse_ip("1.1.1.1")));
  CHECK_FALSE(parse_network("10.0.0.0", "ffff::").has_value());
  // So is a network that a rule writes within IPv6: a line that is to refuse must not miss.
  CHECK(parse_network("::ffff:10.0.0.0/104") == parse_network("10.0.0.0/8"));
  CHECK(parse_network("::ffff:10.0.0.0/104")->holds(*parse_ip("::ffff:10.1.2.3")));
  CHECK(parse_network("::ffff:0:0/96")->holds(*parse_ip("10.1.2.3")));
  CHECK(parse_network("::ffff:10.0.0.0", "ffff:ffff:ffff:ffff:ffff:ffff:ff00:0") == parse_network("10.0.0.0/8"));
  CHECK_FALSE(parse_network("::/0")->holds(*parse_ip("::ffff:10.1.2.3")));
  CHECK(is_loopback(*parse_ip("127.3.2.1")));
  CHECK(is_loopback(*parse_ip("::1")));
  CHECK_FALSE(is_loopback(*parse_ip("::2")));
  CHECK_FALSE(is_loopback(*parse_ip("128.0.0.1")));
}

TEST_CASE("the console is one database to rules, whichever of its names they use", "[auth]") {
  const Result<Hba> hba = parse("host pgweir boss 0.0.0.0/0 trust\nhost \"pgweir\" all 0.0.0.0/0 reject\nhost all all 0.0.0.0/0 md5\n");
  REQUIRE(hba);
  CHECK(method(hba->rules, {.address = "10.0.0.1", .database = "pgbouncer", .user = "boss"}) == "trust");
  CHECK(method(hba->rules, {.address = "10.0.0.1", .database = "pgbouncer", .user = "web"}) == "reject");
  CHECK(method(hba->rules, {.address = "10.0.0.1", .database = "shop", .user = "web"}) == "md5");
}
