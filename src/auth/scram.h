// SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677) as PostgreSQL speaks them, both sides: the
// user name comes from the startup packet, not from the exchange, and the only channel binding is
// tls-server-end-point (RFC 5929): what is signed names the certificate, so nobody in between can pass
// the exchange on.
//
//   client-first   n,,n=,r=<client nonce>                  p=tls-server-end-point,,n=,r=… with binding
//   server-first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
//   client-final   c=<header and hash>,r=<both nonces>,p=<proof>
//   server-final   v=<server signature>
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/secret.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"

namespace pgweir::auth {

inline constexpr std::string_view kScramMechanism = "SCRAM-SHA-256";
inline constexpr std::string_view kScramPlusMechanism = "SCRAM-SHA-256-PLUS";
/// What PostgreSQL uses for new secrets.
inline constexpr std::uint32_t kScramIterations = 4096;
/// A server that asks for more would stop the loop for longer than a connection is worth.
inline constexpr std::uint32_t kScramIterationsMax = 1'000'000;

/// A secret of the process, drawn at start: salts of users that have none stored are derived from
/// it, so that an unknown user gets the same salt each time, as a known one does.
struct ServerSecret {
  Key bytes{};

  static ServerSecret draw(Random& random);
  /// 16 bytes that depend on `user` alone.
  std::string salt_for(std::string_view user) const;
};

/// Remembers results of the costly step from password to salted password: the iterated hash takes
/// about a millisecond, and each new server connection of a user would need the same one again.
class SaltedPasswordCache {
 public:
  /// Forgets the oldest past this many.
  explicit SaltedPasswordCache(std::size_t entries_max = 1000) noexcept
      : entries_max_(entries_max) {}
  ~SaltedPasswordCache();
  SaltedPasswordCache(const SaltedPasswordCache&) = delete;
  SaltedPasswordCache& operator=(const SaltedPasswordCache&) = delete;

  /// Computes it at most once while it is remembered.
  Key get(std::string_view password, std::string_view salt, std::uint32_t iterations);
  std::size_t size() const noexcept { return by_question_.size(); }
  /// How often the iterated hash was taken.
  std::uint64_t computations() const noexcept { return computations_; }

 private:
  std::size_t entries_max_;
  std::uint64_t computations_ = 0;
  /// By a digest of password, salt and iterations.
  std::unordered_map<std::string, Key> by_question_;
  std::deque<std::string> oldest_first_;
};

/// PBKDF2 with HMAC-SHA-256: the costly step. SASLprep (RFC 4013) leaves ASCII as it is; other text
/// goes in as its bytes too, as PostgreSQL does with text that is not valid UTF-8. So a password
/// with characters that SASLprep would change (a no-break space, a ligature, a decomposed accent)
/// does not match a secret that PostgreSQL made.
Key salted_password(std::string_view password, std::string_view salt, std::uint32_t iterations);
ScramKeys keys_of(const Key& salted_password);
ScramVerifier verifier_of(const Key& salted_password, std::string_view salt,
                          std::uint32_t iterations);
/// Whether `password` is the one that `verifier` was made of.
bool matches(const ScramVerifier& verifier, std::string_view password);

/// The server's side of one exchange.
class ScramServer {
 public:
  /// Checks against `verifier`. With `doomed` the exchange runs as usual and ends in a refusal:
  /// nobody learns whether the user exists.
  enum class Fate : std::uint8_t { checked, doomed };
  /// `server_end_point` is the hash of our certificate; empty where the client can't bind to it.
  ScramServer(ScramVerifier verifier, Fate fate, Random& random, std::string server_end_point = {});
  ~ScramServer();
  ScramServer(const ScramServer&) = delete;
  ScramServer& operator=(const ScramServer&) = delete;

  /// Takes client-first, gives server-first. `plus`: the client has chosen the mechanism with channel binding.
  Result<std::string> on_client_first(Bytes message, bool plus = false);
  /// Takes client-final, gives server-final; an error when the proof is wrong.
  Result<std::string> on_client_final(Bytes message);
  /// After a right proof: what the client used.
  const ScramKeys& keys() const noexcept { return keys_; }

 private:
  ScramVerifier verifier_;
  Fate fate_;
  std::string server_end_point_;
  std::string nonce_;  ///< Ours; the client's in front once it has come.
  std::string bound_;  ///< What client-final must repeat: the header, and the hash behind it.
  /// client-first-bare "," server-first, and later "," client-final-without-proof.
  std::string auth_message_;
  ScramKeys keys_;
};

/// What the client's side says about channel binding.
struct ScramBinding {
  enum class Kind : std::uint8_t {
    none,         ///< "n": we could not
    not_offered,  ///< "y": we could, and the server did not offer it; if it did, somebody in between lies
    bound         ///< "p": to `server_end_point`
  } kind = Kind::none;
  std::string server_end_point = {};
};

/// The client's side of one exchange.
class ScramClient {
 public:
  /// With a plain password, or with keys when the password is not known.
  ScramClient(std::string password, SaltedPasswordCache& cache, Random& random, ScramBinding binding = {});
  ScramClient(const ScramKeys& keys, Random& random, ScramBinding binding = {});
  ~ScramClient();
  ScramClient(const ScramClient&) = delete;
  ScramClient& operator=(const ScramClient&) = delete;

  std::string client_first() const;
  /// Takes server-first, gives client-final.
  Result<std::string> on_server_first(Bytes message);
  /// Takes server-final: an error when the server does not know the secret either.
  Status on_server_final(Bytes message);

 private:
  ScramClient(Random& random, ScramBinding binding);
  std::string_view header() const noexcept;

  ScramBinding binding_;
  std::string password_;
  SaltedPasswordCache* cache_ = nullptr;  ///< Only with a password.
  std::string nonce_;
  ScramKeys keys_;
  std::string auth_message_;
};

}  // namespace pgweir::auth
