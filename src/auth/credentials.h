// What is known of a user for a login to a server.
#pragma once

#include <optional>
#include <string>

#include "auth/secret.h"

namespace pgweir::auth {

struct Credentials {
  std::optional<std::string> password;  ///< Plain text: good for every method.
  std::optional<std::string>
      md5;  ///< "md5" and 32 hex digits: good for md5 under the user it was made for.
  std::optional<ScramKeys>
      scram;  ///< Good where the server stores the secret they were gained with.

  ~Credentials() { forget(); }
  /// Overwrites them all.
  void forget() noexcept;

  bool empty() const noexcept { return !password && !md5 && !scram; }
  bool operator==(const Credentials&) const = default;
};

/// What a stored secret alone is good for: a SCRAM one for nothing without the keys of a client
/// that logged in.
Credentials credentials_of(const Secret& secret);

}  // namespace pgweir::auth
