#include "app/access.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace pgweir::app {
namespace {

bool asks_servers(const config::Settings& settings) noexcept {
  return !settings.auth_user.empty() ||
         std::any_of(settings.databases.begin(), settings.databases.end(),
                     [](const auto& line) { return !line.second.auth_user.empty(); });
}

auth::SecretForm usual_form(const auth::Users& users, const config::Settings& settings) noexcept {
  std::array<std::size_t, 4> counts{};
  for (const auto& [name, secret] : users) ++counts[static_cast<std::size_t>(secret.form())];
  counts[static_cast<std::size_t>(auth::SecretForm::none)] = 0;
  const auto most = std::max_element(counts.begin(), counts.end());
  // What PostgreSQL stores.
  if (*most == 0 || asks_servers(settings)) return asks_servers(settings) ? auth::SecretForm::scram : auth::SecretForm::none;
  return static_cast<auth::SecretForm>(most - counts.begin());
}

Result<auth::Userlist> read_users(const config::IniSource& files, const config::Settings& settings) {
  if (settings.auth_file.empty()) return auth::Userlist{};
  const Result<std::string> text = files.read(settings.auth_file);
  if (!text) return Error(concat({"could not open auth_file: ", text.error().text()}));
  return auth::parse_userlist(*text, settings.auth_file);
}

Status read_maps(const config::IniSource& files, const config::Settings& settings, Access& access) {
  if (settings.auth_ident_file.empty()) return {};
  const Result<std::string> text = files.read(settings.auth_ident_file);
  if (!text) return Error(concat({"could not open auth_ident_file: ", text.error().text()}));
  Result<auth::IdentMaps> maps = auth::parse_ident(*text, settings.auth_ident_file);
  if (!maps) return maps.error();
  access.maps = std::move(*maps);
  return {};
}

Status read_rules(const config::IniSource& files, const config::Settings& settings, Access& access) {
  const std::string& file = settings.auth_hba_file;
  if (file.empty()) return {};
  const Result<std::string> text = files.read(file);
  if (!text) return Error(concat({"could not open auth_hba_file: ", text.error().text()}));
  Result<auth::Hba> hba = auth::parse_hba(*text, file, [&](const std::string& path) { return files.read(path); });
  if (!hba) return hba.error();
  for (const auth::HbaRule& rule : hba->rules.rules()) {
    if (!rule.map.empty() && !access.maps.has(rule.map)) {
      return Error(concat({file, ":", std::to_string(rule.line), ": map=", rule.map,
                           ": there is no such map in auth_ident_file"}));
    }
  }
  access.rules = std::move(hba->rules);
  access.warnings.insert(access.warnings.end(), hba->warnings.begin(), hba->warnings.end());
  if (access.rules.names_roles() && !asks_servers(settings))
    access.warnings.push_back(concat({file, ": rules for +role need auth_user, who asks a server for the members; "
                                            "until it is set whoever such a rule may fit is refused"}));
  return {};
}

}  // namespace

Result<Access> read_access(const config::IniSource& files, const config::Settings& settings) {
  Result<auth::Userlist> list = read_users(files, settings);
  if (!list) return list.error();
  Result<Access> access = read_access(files, settings, std::move(list->users));
  if (access) access->warnings.insert(access->warnings.begin(), list->warnings.begin(), list->warnings.end());
  return access;
}

Result<Access> read_access(const config::IniSource& files, const config::Settings& settings, auth::Users users) {
  Access access;
  access.users = std::move(users);
  // Without auth_type = hba its two files are not looked at: one that is not there must not matter.
  if (settings.auth_type == config::AuthType::hba) {
    if (Status ok = read_maps(files, settings, access); !ok) return ok.error();
    if (Status ok = read_rules(files, settings, access); !ok) return ok.error();
    if (settings.auth_hba_file.empty())
      access.warnings.emplace_back("auth_type = hba without auth_hba_file lets nobody in");
  }
  if (settings.auth_type == config::AuthType::ldap) {
    Result<auth::LdapOptions> ldap = auth::parse_ldap_options(settings.auth_ldap_options);
    if (!ldap) return Error(concat({"auth_ldap_options: ", ldap.error().text()}));
    access.ldap = std::move(*ldap);
  }
  access.usual_form = usual_form(access.users, settings);
  return access;
}

}  // namespace pgweir::app
