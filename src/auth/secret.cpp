#include "auth/secret.h"

#include <algorithm>
#include <charconv>

#include "auth/digest.h"
#include "base/text.h"

namespace pgweir::auth {
namespace {

constexpr std::string_view kScramPrefix = "SCRAM-SHA-256$";
constexpr std::size_t kMd5SecretSize = 35;

bool is_md5(std::string_view text) noexcept {
  return text.size() == kMd5SecretSize && text.substr(0, 3) == "md5" &&
         text.find_first_not_of("0123456789abcdef", 3) == std::string_view::npos;
}

std::optional<Key> key_from_base64(std::string_view text) {
  const std::optional<std::string> raw = from_base64(text);
  Key key;
  if (!raw || raw->size() != key.size()) return std::nullopt;
  std::copy(raw->begin(), raw->end(), key.begin());
  return key;
}

/// Takes what stands before `separator` off the front of `text`; nullopt when there is none.
std::optional<std::string_view> take_until(std::string_view& text, char separator) noexcept {
  const std::size_t end = text.find(separator);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end + 1);
  return taken;
}

}  // namespace

std::optional<ScramVerifier> parse_verifier(std::string_view text) {
  if (text.substr(0, kScramPrefix.size()) != kScramPrefix) return std::nullopt;
  text.remove_prefix(kScramPrefix.size());
  const std::optional<std::string_view> iterations = take_until(text, ':');
  const std::optional<std::string_view> salt = iterations ? take_until(text, '$') : std::nullopt;
  const std::optional<std::string_view> stored = salt ? take_until(text, ':') : std::nullopt;
  if (!stored) return std::nullopt;

  ScramVerifier verifier;
  const char* end = iterations->data() + iterations->size();
  std::int32_t count = 0;
  const auto [stopped, problem] = std::from_chars(iterations->data(), end, count);
  if (problem != std::errc() || stopped != end || count < 1) return std::nullopt;
  verifier.iterations = static_cast<std::uint32_t>(count);
  const std::optional<std::string> raw_salt = from_base64(*salt);
  const std::optional<Key> stored_key = key_from_base64(*stored),
                           server_key = key_from_base64(text);
  if (!raw_salt || raw_salt->empty() || !stored_key || !server_key) return std::nullopt;
  verifier.salt = *raw_salt;
  verifier.stored_key = *stored_key;
  verifier.server_key = *server_key;
  return verifier;
}

std::string to_text(const ScramVerifier& verifier) {
  return concat({kScramPrefix, std::to_string(verifier.iterations), ":", to_base64(verifier.salt),
                 "$", to_base64(view(verifier.stored_key)), ":",
                 to_base64(view(verifier.server_key))});
}

std::string_view to_string(SecretForm form) noexcept {
  switch (form) {
    case SecretForm::none:
      return "none";
    case SecretForm::plain:
      return "plain";
    case SecretForm::md5:
      return "md5";
    case SecretForm::scram:
      return "scram";
  }
  return "?";
}

Secret Secret::parse(std::string_view text) {
  Secret secret;
  secret.text_ = text;
  if (text.empty()) {
    secret.form_ = SecretForm::none;
  } else if (is_md5(text)) {
    secret.form_ = SecretForm::md5;
  } else if (std::optional<ScramVerifier> verifier = parse_verifier(text)) {
    secret.form_ = SecretForm::scram;
    secret.verifier_ = *std::move(verifier);
  } else {
    secret.form_ = SecretForm::plain;
  }
  return secret;
}

Secret::~Secret() { wipe(text_); }

}  // namespace pgweir::auth
