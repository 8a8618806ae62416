// Our login to a server, as its Authentication messages ask for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "auth/credentials.h"
#include "auth/scram.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"

namespace pgweir::auth {

class ServerLogin {
 public:
  /// `random` and `cache` are borrowed.
  ServerLogin(std::string user, Credentials credentials, Random& random,
              SaltedPasswordCache& cache);
  ~ServerLogin();
  ServerLogin(const ServerLogin&) = delete;
  ServerLogin& operator=(const ServerLogin&) = delete;

  struct Answer {
    std::string send;   ///< For the server; may be empty.
    bool done = false;  ///< AuthenticationOk has come, and the server has proved what it had to.
  };
  /// The body of an 'R' message. An error ends the attempt: the credentials don't fit what the
  /// server asks for
  /// ("server login failed: wrong password type"), or it did not prove that it knows the secret.
  Result<Answer> on_authentication(Bytes body);

 private:
  enum class Sasl : std::uint8_t { none, wants_server_first, wants_server_final, verified };

  Result<Answer> ok();
  Result<Answer> cleartext();
  Result<Answer> md5(Bytes salt);
  Result<Answer> sasl(Bytes mechanisms);
  Result<Answer> sasl_continue(Bytes message);
  Result<Answer> sasl_final(Bytes message);

  std::string user_;
  Credentials credentials_;
  Random& random_;
  SaltedPasswordCache& cache_;
  Sasl sasl_ = Sasl::none;
  std::optional<ScramClient> scram_;
};

}  // namespace pgweir::auth
