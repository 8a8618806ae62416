// The two outsiders who judge passwords. Both may take seconds: for a worker thread, never for the loop.
#pragma once

#include <string>

#include "auth/password_checker.h"

namespace pgweir::net {

struct Judgement {
  bool right = false;
  std::string for_client;  ///< when it is wrong
  std::string for_log;     ///< what went wrong in detail; empty: nothing to say
};

/// PAM (libpam): authentication and account management of the service in question.
Judgement judge_by_pam(const auth::PasswordQuestion& question);
/// LDAP (libldap): a bind as the user, after a search for him where that is asked for.
Judgement judge_by_ldap(const auth::PasswordQuestion& question);

}  // namespace pgweir::net
