// The files that say who may come in and how: auth_file, auth_hba_file, auth_ident_file, and the options
// of LDAP. Read as one, replaced as one; a login keeps what it began with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/hba.h"
#include "auth/ident.h"
#include "auth/ldap_options.h"
#include "auth/userlist.h"
#include "config/settings.h"

namespace pgweir::app {

struct Access {
  auth::Users users;
  auth::HbaRules rules;  ///< of auth_type = hba
  auth::IdentMaps maps;
  std::optional<auth::LdapOptions> ldap;  ///< of auth_type = ldap
  /// The form that most secrets of auth_file have; scram when it is empty and auth_query finds them.
  auth::SecretForm usual_form = auth::SecretForm::none;
  std::vector<std::string> warnings;
};

/// A file that can't be read, or a rule that can't be understood, spoils all: "file:line: reason".
Result<Access> read_access(const config::IniSource& files, const config::Settings& settings);
/// The same without reading auth_file: its users are given.
Result<Access> read_access(const config::IniSource& files, const config::Settings& settings, auth::Users users);

}  // namespace pgweir::app
