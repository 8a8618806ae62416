// HBA rules (auth_hba_file): which clients may come in by which method. The grammar of PostgreSQL's
// pg_hba.conf as far as PgBouncer takes it, and roles (`+name`) on top.
//
//   Result<HbaRules> rules = parse_hba(text, "pg_hba.conf", read_file);
//   const HbaRule* rule = rules->find({.database = "shop", .user = "web", …});    // nullptr: refuse
//
// The first line that fits decides; nothing behind it is looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "auth/ldap_options.h"
#include "auth/method.h"
#include "auth/rule_text.h"
#include "base/ip.h"
#include "base/result.h"

namespace pgweir::auth {

/// The names of all roles that a user is a member of, directly or not, his own among them.
using Roles = std::set<std::string, std::less<>>;

/// What a rule is looked for.
struct HbaQuestion {
  std::string_view database;
  std::string_view user;
  bool physical_replication = false;
  bool encrypted = false;
  /// nullopt: a Unix socket.
  std::optional<IpAddress> address;
  /// Null: not known. Asked only where HbaRules::needs_roles() says so.
  const Roles* roles = nullptr;
};

struct HbaRule {
  enum class Connection : std::uint8_t { local, host, hostssl, hostnossl };
  /// What besides the method is asked of the client's certificate.
  enum class ClientCert : std::uint8_t { none, verify_ca, verify_full };

  /// Databases or users: `all`, names, and words with a meaning.
  struct Names {
    bool all = false;
    bool same_user = false;    ///< the database that is called like the user
    bool replication = false;  ///< physical replication, which `all` does not hold
    std::vector<std::string> names;
    std::vector<std::string> roles;  ///< +name

    bool operator==(const Names&) const = default;
  };

  Connection connection = Connection::host;
  Names databases;
  Names users;
  std::optional<IpNetwork> network;  ///< nullopt: all addresses
  Method method = Method::reject;
  std::string map;                ///< of cert and peer
  bool by_dn = false;             ///< clientname=DN: the certificate's whole subject is the name
  ClientCert client_cert = ClientCert::none;
  std::optional<LdapOptions> ldap;
  std::string pam_service;        ///< empty: the usual one
  std::size_t line = 0;
};

class HbaRules {
 public:
  HbaRules() = default;
  explicit HbaRules(std::vector<HbaRule> rules) : rules_(std::move(rules)) {}

  /// The first rule that fits; nullptr: none.
  const HbaRule* find(const HbaQuestion& question) const noexcept;
  /// Whether the answer hangs on the user's roles, which are not given yet.
  bool needs_roles(const HbaQuestion& question) const noexcept;
  bool names_roles() const noexcept;
  const std::vector<HbaRule>& rules() const noexcept { return rules_; }

 private:
  std::vector<HbaRule> rules_;
};

struct Hba {
  HbaRules rules;
  std::vector<std::string> warnings;  ///< "file:line: reason"
};

/// A line that can't be understood spoils the file ("file:line: reason"): to pass it over could open what it
/// was to close. A method that is known and not built in (gss, sspi, radius, …) refuses whom the line
/// fits, with a warning. `read_file` opens what `@file` names.
Result<Hba> parse_hba(std::string_view text, std::string_view file, const ReadFile& read_file);

}  // namespace pgweir::auth
