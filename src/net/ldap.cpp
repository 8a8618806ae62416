#include <memory>

#include "base/text.h"
#include "net/password_judges.h"

#ifdef PGWEIR_WITH_LDAP

#include <ldap.h>

namespace pgweir::net {
namespace {

/// A directory that does not answer holds up one login, and one worker thread, this long.
constexpr timeval kPatience = {5, 0};

struct Close {
  void operator()(LDAP* ldap) const noexcept { ldap_unbind_ext_s(ldap, nullptr, nullptr); }
};
using Connection = std::unique_ptr<LDAP, Close>;

Error failed(std::string_view step, int result) {
  return Error(concat({"LDAP ", step, ": ", ldap_err2string(result)}));
}

Result<Connection> connect(const auth::LdapOptions& options) {
  LDAP* raw = nullptr;
  int result = ldap_initialize(&raw, options.uris().c_str());
  if (result != LDAP_SUCCESS) return failed("initialize", result);
  Connection ldap(raw);
  const int version = LDAP_VERSION3;
  if ((result = ldap_set_option(raw, LDAP_OPT_PROTOCOL_VERSION, &version)) != LDAP_SUCCESS ||
      (result = ldap_set_option(raw, LDAP_OPT_NETWORK_TIMEOUT, &kPatience)) != LDAP_SUCCESS ||
      (result = ldap_set_option(raw, LDAP_OPT_TIMEOUT, &kPatience)) != LDAP_SUCCESS ||
      // The password is for the directory that was named, not for whomever it names.
      (result = ldap_set_option(raw, LDAP_OPT_REFERRALS, LDAP_OPT_OFF)) != LDAP_SUCCESS) {
    return failed("options", result);
  }
  if (options.start_tls && (result = ldap_start_tls_s(raw, nullptr, nullptr)) != LDAP_SUCCESS)
    return failed("start TLS", result);
  return ldap;
}

Status bind_as(LDAP* ldap, const std::string& dn, const std::string& password) {
  std::string copy = password;  // libldap wants a text that it could change.
  berval secret{copy.size(), copy.data()};
  const int result = ldap_sasl_bind_s(ldap, dn.c_str(), LDAP_SASL_SIMPLE, &secret, nullptr, nullptr, nullptr);
  explicit_bzero(copy.data(), copy.size());
  if (result != LDAP_SUCCESS) return failed(concat({"bind as \"", dn, "\""}), result);
  return {};
}

/// The DN of the one entry that the filter finds.
Result<std::string> search(LDAP* ldap, const auth::LdapOptions& options, const std::string& user) {
  const std::string filter = options.filter_for(user);
  char no_attributes[] = LDAP_NO_ATTRS;
  char* attributes[] = {no_attributes, nullptr};
  const int scope = options.scope == auth::LdapOptions::Scope::base  ? LDAP_SCOPE_BASE
                    : options.scope == auth::LdapOptions::Scope::one ? LDAP_SCOPE_ONELEVEL
                                                                     : LDAP_SCOPE_SUBTREE;
  timeval patience = kPatience;
  LDAPMessage* raw = nullptr;
  const int result = ldap_search_ext_s(ldap, options.base_dn.c_str(), scope, filter.c_str(), attributes, 0, nullptr,
                                       nullptr, &patience, 2, &raw);
  const std::unique_ptr<LDAPMessage, int (*)(LDAPMessage*)> found(raw, ldap_msgfree);
  if (result != LDAP_SUCCESS) return failed(concat({"search for ", filter}), result);
  const int count = ldap_count_entries(ldap, found.get());
  if (count != 1) return Error(concat({"LDAP search for ", filter, ": ", std::to_string(count), " entries, expected one"}));
  const std::unique_ptr<char, void (*)(void*)> dn(ldap_get_dn(ldap, ldap_first_entry(ldap, found.get())), ldap_memfree);
  if (!dn) return Error(concat({"LDAP search for ", filter, ": an entry without a name"}));
  return std::string(dn.get());
}

Status authenticate(const auth::PasswordQuestion& question) {
  const auth::LdapOptions& options = *question.ldap;
  std::string dn;
  if (options.searches()) {
    Result<Connection> ldap = connect(options);
    if (!ldap) return ldap.error();
    if (Status ok = bind_as(ldap->get(), options.bind_dn, options.bind_password); !ok) return ok;
    Result<std::string> found = search(ldap->get(), options, question.user);
    if (!found) return found.error();
    dn = std::move(*found);
  } else {
    dn = options.dn_of(question.user);
  }
  // An empty name or password is an anonymous bind, which succeeds for everybody.
  if (dn.empty() || question.password.empty()) return Error("LDAP bind: an empty name or password");
  Result<Connection> ldap = connect(options);
  if (!ldap) return ldap.error();
  return bind_as(ldap->get(), dn, question.password);
}

}  // namespace

Judgement judge_by_ldap(const auth::PasswordQuestion& question) {
  const Status verdict = authenticate(question);
  if (verdict) return {.right = true, .for_client = {}, .for_log = {}};
  return {.right = false, .for_client = "LDAP authentication failed", .for_log = verdict.error().text()};
}

}  // namespace pgweir::net

#else

namespace pgweir::net {

Judgement judge_by_ldap(const auth::PasswordQuestion&) {
  return {.right = false, .for_client = "LDAP authentication failed", .for_log = "this build knows no LDAP"};
}

}  // namespace pgweir::net

#endif
