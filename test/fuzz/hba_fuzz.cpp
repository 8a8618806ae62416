// Rules, maps and LDAP options: no text breaks their parsers, and what was read answers every question.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "auth/hba.h"
#include "auth/ident.h"
#include "auth/ldap_options.h"

using namespace pgweir;
using namespace pgweir::auth;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

/// A rule found without roles is the one found with them, unless the roles matter.
void ask(const HbaRules& rules, HbaQuestion question) {
  const Roles nobody{std::string(question.user)};
  const Roles all{std::string(question.user), "a", "role"};
  const HbaRule* without = rules.find(question);
  const bool needs = rules.needs_roles(question);
  demand(!needs || without == nullptr);
  question.roles = &nobody;
  demand(!rules.needs_roles(question));
  const HbaRule* as_nobody = rules.find(question);
  question.roles = &all;
  const HbaRule* as_member = rules.find(question);
  demand(needs || (as_nobody == without && as_member == without));
  for (const HbaRule* rule : {without, as_nobody, as_member}) {
    if (!rule) continue;
    demand((rule->connection == HbaRule::Connection::local) == !question.address);
    demand(rule->connection != HbaRule::Connection::hostssl || question.encrypted);
    demand(rule->connection != HbaRule::Connection::hostnossl || !question.encrypted);
    demand(!question.physical_replication || rule->databases.replication);
  }
}

/// A name can't leave the place that a filter or a DN gives it.
void fill(const LdapOptions& options, std::string_view name) {
  static_cast<void>(options.uris());
  static_cast<void>(options.dn_of(name));
  if (options.search_filter.empty() && options.search_attribute.empty()) {
    const std::string filter = options.filter_for(name);
    demand(filter.find_first_of("()*", 1) == filter.size() - 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const Result<Hba> hba = parse_hba(input, "f", [&](const std::string& path) -> Result<std::string> {
    if (path == "self") return std::string(input.substr(0, 100));
    return Error("none");
  });
  if (hba) {
    for (const bool encrypted : {false, true}) {
      for (const bool replication : {false, true}) {
        HbaQuestion question{.database = "a", .user = "b", .physical_replication = replication, .encrypted = encrypted,
                             .address = {}, .roles = nullptr};
        ask(hba->rules, question);
        for (const char* address : {"10.0.0.1", "::1"}) {
          question.address = parse_ip(address);
          ask(hba->rules, question);
        }
      }
    }
    for (const HbaRule& rule : hba->rules.rules()) {
      if (rule.ldap) fill(*rule.ldap, "x)(y=*");
    }
  }
  if (const Result<IdentMaps> maps = parse_ident(input, "f")) {
    demand(!maps->allows("", "", "b"));
    static_cast<void>(maps->allows("m", input.substr(0, 20), "b"));
  }
  if (const Result<LdapOptions> ldap = parse_ldap_options(input)) fill(*ldap, input.substr(0, 20));
  if (const std::optional<IpNetwork> network = parse_network(input)) demand(network->holds(network->address));
  static_cast<void>(parse_ip(input));
  return 0;
}
