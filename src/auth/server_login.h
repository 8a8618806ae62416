// Our login to a server, as its Authentication messages ask for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "auth/credentials.h"
#include "auth/scram.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"

namespace pgweir::auth {

/// The connection that a login goes over.
struct Channel {
  /// Nobody in between can read along: a clear-text password may go over it.
  bool safe = false;
  bool encrypted = false;
  /// The hash of the server's certificate for channel binding; empty where there is none.
  std::string_view server_end_point = {};
};

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
  /// server asks for ("server login failed: wrong password type"), the channel is not safe for a password
  /// in clear text, or the server did not prove that it knows the secret.
  Result<Answer> on_authentication(Bytes body, const Channel& channel);

 private:
  enum class Sasl : std::uint8_t { none, wants_server_first, wants_server_final, verified };

  Result<Answer> ok();
  Result<Answer> cleartext(const Channel& channel);
  Result<Answer> md5(Bytes salt);
  Result<Answer> sasl(Bytes mechanisms, const Channel& channel);
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
