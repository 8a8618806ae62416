// What an LDAP server is asked, as pg_hba.conf and auth_ldap_options write it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "auth/rule_text.h"
#include "base/result.h"

namespace pgweir::auth {

/// Two ways: with a prefix or suffix the user's name becomes the DN to bind as ("simple bind"); with a
/// base DN the user is looked up first, and the entry that is found is bound as ("search+bind").
struct LdapOptions {
  std::string scheme = "ldap";        ///< or "ldaps"
  std::vector<std::string> servers;   ///< tried in order
  int port = 0;                       ///< 0: 389, or 636 for ldaps
  bool start_tls = false;
  std::string prefix;
  std::string suffix;
  std::string base_dn;
  std::string bind_dn;                ///< whom to search as; empty: anonymously
  std::string bind_password;
  std::string search_attribute;       ///< "uid" when neither is given
  std::string search_filter;          ///< with $username in it
  enum class Scope : std::uint8_t { base, one, sub } scope = Scope::sub;

  bool searches() const noexcept { return !base_dn.empty(); }
  int port_or_usual() const noexcept { return port != 0 ? port : scheme == "ldaps" ? 636 : 389; }
  /// "ldap://h1:389 ldap://h2:389", as libldap takes it.
  std::string uris() const;
  /// The DN of a simple bind.
  std::string dn_of(std::string_view user) const;
  /// The filter of a search; what is special in a filter is escaped in `user`.
  std::string filter_for(std::string_view user) const;
  bool operator==(const LdapOptions&) const = default;
};

/// Words of the form ldapserver=…, ldapport=…, ldaptls=1, ldapprefix=…, ldapsuffix=…, ldapbasedn=…,
/// ldapbinddn=…, ldapbindpasswd=…, ldapsearchattribute=…, ldapsearchfilter=…, ldapscheme=…, ldapurl=….
Result<LdapOptions> parse_ldap_options(const std::vector<Field>& fields);
/// The same from a text: the value of auth_ldap_options.
Result<LdapOptions> parse_ldap_options(std::string_view text);

}  // namespace pgweir::auth
