// Somebody outside who knows the machine's and the company's users: PAM, LDAP, the system's accounts.
// net implements it; the loop never waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "auth/ldap_options.h"
#include "auth/secret.h"
#include "base/result.h"

namespace pgweir::auth {

struct PasswordQuestion {
  std::string user;
  std::string password;
  /// Where the client is, for PAM; empty when it came by a Unix socket.
  std::string client_host;
  /// LDAP when set, else PAM.
  std::optional<LdapOptions> ldap;
  std::string pam_service;
  std::string pam_confdir;  ///< empty: the system's

  ~PasswordQuestion() { forget(); }
  /// Overwrites what is secret in it.
  void forget() noexcept {
    wipe(password);
    if (ldap) wipe(ldap->bind_password);
  }
};

/// The question was answered; what went wrong is in words for the client.
class PasswordCheckUser {
 public:
  virtual void on_checked(const Status& verdict) noexcept = 0;

 protected:
  ~PasswordCheckUser() = default;
};

/// The name of the account behind a Unix socket; nullopt: there is none.
class AccountUser {
 public:
  virtual void on_account(std::optional<std::string> name) noexcept = 0;

 protected:
  ~AccountUser() = default;
};

/// A question that is under way. Destroying it forgets the answer.
class PasswordCheck {
 public:
  virtual ~PasswordCheck() = default;
};

class PasswordChecker {
 public:
  virtual ~PasswordChecker() = default;
  /// on_checked() follows once, before the next turn, never from within this call. The question is put
  /// out of memory as soon as it is answered.
  virtual std::unique_ptr<PasswordCheck> ask(PasswordQuestion question, PasswordCheckUser& user) = 0;
  /// on_account() follows as on_checked() does: the system may ask a directory, too.
  virtual std::unique_ptr<PasswordCheck> account_of(std::int64_t uid, AccountUser& user) = 0;
};

}  // namespace pgweir::auth
