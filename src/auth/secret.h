// What is stored of a user's password, in one of the forms that PostgreSQL's pg_authid and
// PgBouncer's auth_file know.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pgweir::auth {

/// A SHA-256 digest or a key of that size.
using Key = std::array<char, 32>;

/// What a SCRAM-SHA-256 server keeps: enough to check a client, not enough to be one.
struct ScramVerifier {
  std::uint32_t iterations = 0;
  std::string salt;  ///< Raw bytes.
  Key stored_key{};
  Key server_key{};

  bool operator==(const ScramVerifier&) const = default;
};

/// What a SCRAM client needs to log in where the verifier of its password with the same salt and
/// iterations is stored. Gained when a client logs in to us, good for our login to a server that
/// stores the same secret.
struct ScramKeys {
  Key client_key{};
  Key server_key{};

  bool operator==(const ScramKeys&) const = default;
};

/// "SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>", base64; nullopt when it is not
/// that.
std::optional<ScramVerifier> parse_verifier(std::string_view text);
std::string to_text(const ScramVerifier& verifier);

/// Overwrites the memory of a secret that is no longer needed.
void wipe(std::string& text) noexcept;
void wipe(Key& key) noexcept;
/// The same for what lies in somebody else's buffer, a message that was read, once it is done with.
void wipe_in_place(std::string_view read) noexcept;

enum class SecretForm : std::uint8_t { none, plain, md5, scram };
std::string_view to_string(SecretForm form) noexcept;

class Secret {
 public:
  /// No password: no password matches.
  Secret() = default;
  /// Tells the forms apart as PostgreSQL does: "md5" and 32 lower-case hex digits, a well-formed
  /// verifier, anything else is plain text; an empty text is none.
  static Secret parse(std::string_view text);
  ~Secret();
  Secret(const Secret&) = default;
  Secret(Secret&&) noexcept = default;
  Secret& operator=(const Secret&) = default;
  Secret& operator=(Secret&&) noexcept = default;

  SecretForm form() const noexcept { return form_; }
  /// The text as it was stored.
  const std::string& text() const noexcept { return text_; }
  /// Only of form scram.
  const ScramVerifier& verifier() const noexcept { return verifier_; }

  bool operator==(const Secret& other) const noexcept { return text_ == other.text_; }

 private:
  SecretForm form_ = SecretForm::none;
  std::string text_;
  ScramVerifier verifier_;
};

}  // namespace pgweir::auth
