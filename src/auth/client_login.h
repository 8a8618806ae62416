// auth: who may log in. A client's login to us (ClientLogin), ours to a server (ServerLogin), and
// what both stand on: secrets, the userlist, md5 and SCRAM. Bytes in, bytes and a verdict out; it
// does no I/O and knows no session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "auth/credentials.h"
#include "auth/method.h"
#include "auth/scram.h"
#include "auth/secret.h"
#include "base/bytes.h"
#include "base/pooler_error.h"
#include "base/random.h"
#include "base/result.h"

namespace pgweir::auth {

/// What is the same for all logins of the process; borrowed.
struct LoginContext {
  Random& random;
  const ServerSecret& server_secret;
  SaltedPasswordCache& cache;
  /// For the SCRAM verifiers made of plain passwords, and shown for unknown users.
  std::uint32_t scram_iterations = kScramIterations;
  /// The form that most stored secrets have: an unknown user is led through the exchange that a known one
  /// would see, at the same cost.
  SecretForm usual_form = SecretForm::none;
  /// Where the work for unknown users is remembered, apart, so that they push nobody else's out; null: in
  /// `cache`.
  SaltedPasswordCache* strangers = nullptr;
};

/// What one login is about.
struct LoginTask {
  Method method = Method::reject;
  std::string user;
  /// Copied; nullptr is an unknown user, who is led through the exchange and refused at its end. Known or not
  /// makes no difference where somebody else judges (pam, ldap).
  const Secret* secret = nullptr;
  /// The hash of our certificate for the channel binding tls-server-end-point; empty where there is none.
  std::string server_end_point = {};
  /// What an unknown user is told, and one who is rejected; empty: the usual text.
  std::string refusal = {};
};

/// What a login wants now.
struct Step {
  enum class State : std::uint8_t {
    more,
    outside,  ///< somebody else judges plain_password(): on_verdict() is to follow
    accepted,
    refused
  };

  State state = State::more;
  /// Messages to send to the client, in each state. AuthenticationOk is not among them: that is the
  /// session's to send, after its own checks.
  std::string send;
  /// When refused: the text the client gets, with the SQLSTATE that PostgreSQL would give.
  std::optional<Error> why;
};

/// One client's login:
///
///   start() ── accepted | refused
///      └─ more ── on_password_message() ── accepted | refused
///                      ├─ outside ── on_verdict() ── accepted | refused                   (PAM, LDAP)
///                      └─ more ── on_password_message() ── accepted | refused           (SCRAM)
class ClientLogin {
 public:
  ClientLogin(LoginTask task, const LoginContext& context);
  ClientLogin(Method method, std::string user, const Secret* secret, const LoginContext& context)
      : ClientLogin(LoginTask{.method = method, .user = std::move(user), .secret = secret}, context) {}
  ~ClientLogin();
  ClientLogin(const ClientLogin&) = delete;
  ClientLogin& operator=(const ClientLogin&) = delete;

  Step start();
  /// The body of a 'p' message.
  Step on_password_message(Bytes body);
  /// After Step::State::outside. What went wrong is for the client to see.
  Step on_verdict(const Status& verdict);
  bool waits_for_verdict() const noexcept { return state_ == State::wants_verdict; }

  /// After acceptance by SCRAM against a stored SCRAM secret: keys for servers that store the same.
  /// Else null.
  const ScramKeys* client_keys() const noexcept { return keys_ ? &*keys_ : nullptr; }
  /// After acceptance by clear text, and while somebody else judges it: the password. Else null.
  const std::string* plain_password() const noexcept { return password_ ? &*password_ : nullptr; }
  /// After acceptance: all that is known for a login to a server as this user.
  Credentials credentials() const;

 private:
  enum class State : std::uint8_t {
    created,
    wants_password,
    wants_md5,
    wants_client_first,
    wants_client_final,
    wants_verdict,
    ended
  };

  Step ask_password();
  Step ask_md5();
  Step ask_scram();
  Step check_password(Bytes body);
  Step check_md5(Bytes body);
  Step check_client_first(Bytes body);
  Step check_client_final(Bytes body);
  Step accept(std::string send = {});
  Step refuse(PoolerError why);
  Step refuse(std::string_view sqlstate, std::string_view text);
  SecretForm shown_form() const noexcept;

  Method method_;
  State state_ = State::created;
  std::string user_;
  bool known_;
  Secret secret_;
  LoginContext context_;
  std::string server_end_point_;
  std::string refusal_;
  std::string md5_salt_;
  std::optional<ScramServer> scram_;
  std::optional<ScramKeys> keys_;
  std::optional<std::string> password_;
};

}  // namespace pgweir::auth
