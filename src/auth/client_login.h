// auth: who may log in. A client's login to us (ClientLogin), ours to a server (ServerLogin), and
// what both stand on: secrets, the userlist, md5 and SCRAM. Bytes in, bytes and a verdict out; it
// does no I/O and knows no session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "auth/credentials.h"
#include "auth/scram.h"
#include "auth/secret.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"

namespace pgweir::auth {

/// How a client has to prove who it is. `any` takes everybody, `trust` everybody whose name is
/// known. `plain` asks for the password in clear text. `md5` becomes SCRAM when the stored secret
/// is a SCRAM one.
enum class Method : std::uint8_t { trust, any, plain, md5, scram_sha_256, reject };
/// The words of auth_type: "scram-sha-256" for scram_sha_256.
std::string_view to_string(Method method) noexcept;
/// nullopt: no method of that name.
std::optional<Method> parse_method(std::string_view auth_type) noexcept;

/// What is the same for all logins of the process; borrowed.
struct LoginContext {
  Random& random;
  const ServerSecret& server_secret;
  SaltedPasswordCache& cache;
  /// For the SCRAM verifiers made of plain passwords, and shown for unknown users.
  std::uint32_t scram_iterations = kScramIterations;
};

/// What a login wants now.
struct Step {
  enum class State : std::uint8_t { more, accepted, refused };

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
///                      └─ more ── on_password_message() ── accepted | refused           (SCRAM)
class ClientLogin {
 public:
  /// `secret` is copied; nullptr is an unknown user, who is led through the exchange and refused at
  /// its end.
  ClientLogin(Method method, std::string user, const Secret* secret, const LoginContext& context);
  ~ClientLogin();
  ClientLogin(const ClientLogin&) = delete;
  ClientLogin& operator=(const ClientLogin&) = delete;

  Step start();
  /// The body of a 'p' message.
  Step on_password_message(Bytes body);

  /// After acceptance by SCRAM against a stored SCRAM secret: keys for servers that store the same.
  /// Else null.
  const ScramKeys* client_keys() const noexcept { return keys_ ? &*keys_ : nullptr; }
  /// After acceptance by clear text: the password. Else null.
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
  Step refuse(std::string_view sqlstate, std::string_view text);

  Method method_;
  State state_ = State::created;
  std::string user_;
  bool known_;
  Secret secret_;
  LoginContext context_;
  std::string md5_salt_;
  std::optional<ScramServer> scram_;
  std::optional<ScramKeys> keys_;
  std::optional<std::string> password_;
};

}  // namespace pgweir::auth
