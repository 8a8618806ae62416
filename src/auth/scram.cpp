#include "auth/scram.h"

#include <algorithm>
#include <charconv>

#include "auth/digest.h"
#include "base/text.h"

namespace pgweir::auth {
namespace {

constexpr std::size_t kRawNonceSize = 18;
constexpr std::size_t kSaltSize = 16;
/// What stands in front of client-first.
constexpr std::string_view kUnboundHeader = "n,,";
constexpr std::string_view kNotOfferedHeader = "y,,";
constexpr std::string_view kBoundHeader = "p=tls-server-end-point,,";

Error malformed(std::string_view what) {
  return Error("08P01", concat({"malformed SCRAM message: ", what}));
}

std::string fresh_nonce(Random& random) {
  std::array<char, kRawNonceSize> raw;
  random.fill(raw);
  return to_base64({raw.data(), raw.size()});
}

Key exclusive_or(const Key& a, const Key& b) noexcept {
  Key out;
  std::transform(a.begin(), a.end(), b.begin(), out.begin(),
                 [](char x, char y) { return static_cast<char>(x ^ y); });
  return out;
}

std::optional<Key> key_from_base64(std::string_view text) {
  const std::optional<std::string> raw = from_base64(text);
  Key key;
  if (!raw || raw->size() != key.size()) return std::nullopt;
  std::copy(raw->begin(), raw->end(), key.begin());
  return key;
}

/// Takes "<name>=<value>" and the comma behind it off the front; nullopt when another attribute
/// stands there.
std::optional<std::string_view> take_attribute(std::string_view& text, char name) noexcept {
  if (text.size() < 2 || text[0] != name || text[1] != '=') return std::nullopt;
  const std::size_t end = text.find(',');
  const std::string_view value = text.substr(2, end == std::string_view::npos ? end : end - 2);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return value;
}

bool is_nonce(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return c > ' ' && c < '\x7f' && c != ','; });
}

}  // namespace

ServerSecret ServerSecret::draw(Random& random) {
  ServerSecret secret;
  random.fill(secret.bytes);
  return secret;
}

std::string ServerSecret::salt_for(std::string_view user) const {
  return std::string(view(hmac_sha256(view(bytes), user)).substr(0, kSaltSize));
}

SaltedPasswordCache::~SaltedPasswordCache() {
  for (auto& [question, answer] : by_question_) wipe(answer);
}

Key SaltedPasswordCache::get(std::string_view password, std::string_view salt,
                             std::uint32_t iterations) {
  const std::string numbers =
      concat({std::to_string(iterations), ":", std::to_string(salt.size()), ":"});
  const std::string question(view(sha256({numbers, salt, password})));
  if (const auto found = by_question_.find(question); found != by_question_.end())
    return found->second;
  while (!oldest_first_.empty() && by_question_.size() >= entries_max_) {
    const auto oldest = by_question_.find(oldest_first_.front());
    wipe(oldest->second);
    by_question_.erase(oldest);
    oldest_first_.pop_front();
  }
  ++computations_;
  const Key answer = salted_password(password, salt, iterations);
  by_question_.emplace(question, answer);
  oldest_first_.push_back(question);
  return answer;
}

Key salted_password(std::string_view password, std::string_view salt, std::uint32_t iterations) {
  return pbkdf2_sha256(password, salt, iterations);
}

ScramKeys keys_of(const Key& salted_password) {
  return {hmac_sha256(view(salted_password), "Client Key"),
          hmac_sha256(view(salted_password), "Server Key")};
}

ScramVerifier verifier_of(const Key& salted_password, std::string_view salt,
                          std::uint32_t iterations) {
  const ScramKeys keys = keys_of(salted_password);
  return {iterations, std::string(salt), sha256({view(keys.client_key)}), keys.server_key};
}

bool matches(const ScramVerifier& verifier, std::string_view password) {
  const ScramKeys keys = keys_of(salted_password(password, verifier.salt, verifier.iterations));
  return same_secret(view(keys.server_key), view(verifier.server_key));
}

ScramServer::ScramServer(ScramVerifier verifier, Fate fate, Random& random, std::string server_end_point)
    : verifier_(std::move(verifier)),
      fate_(fate),
      server_end_point_(std::move(server_end_point)),
      nonce_(fresh_nonce(random)) {}

ScramServer::~ScramServer() {
  wipe(keys_.client_key);
  wipe(keys_.server_key);
}

Result<std::string> ScramServer::on_client_first(Bytes message, bool plus) {
  std::string_view header = kUnboundHeader;
  if (plus) {
    header = kBoundHeader;
  } else if (!message.empty() && message[0] == 'y') {
    // A client that could bind and believes that we can't. When we have offered it, somebody in between
    // has taken the offer away.
    if (!server_end_point_.empty()) return malformed("the client did not see that channel binding was offered");
    header = kNotOfferedHeader;
  }
  if (message.substr(0, header.size()) != header)
    return malformed(concat({"expected \"", header, "\" at the beginning"}));
  bound_ = plus ? concat({header, server_end_point_}) : std::string(header);
  const std::string_view bare = message.substr(header.size());
  std::string_view left = bare;
  if (!take_attribute(left, 'n'))
    return malformed("expected a user name, and no mandatory extension");
  const std::optional<std::string_view> client_nonce = take_attribute(left, 'r');
  if (!client_nonce || !is_nonce(*client_nonce))
    return malformed("expected a nonce of printable characters");

  nonce_.insert(0, *client_nonce);
  std::string server_first = concat({"r=", nonce_, ",s=", to_base64(verifier_.salt),
                                     ",i=", std::to_string(verifier_.iterations)});
  auth_message_ = concat({bare, ",", server_first});
  return server_first;
}

Result<std::string> ScramServer::on_client_final(Bytes message) {
  const std::size_t proof_at = message.rfind(",p=");
  if (proof_at == Bytes::npos) return malformed("expected a proof");
  const std::optional<Key> proof = key_from_base64(message.substr(proof_at + 3));
  if (!proof) return malformed("expected a proof of 32 bytes");
  const std::string_view without_proof = message.substr(0, proof_at);
  std::string_view left = without_proof;
  if (take_attribute(left, 'c') != to_base64(bound_))
    return malformed("channel binding differs from the first message");
  if (take_attribute(left, 'r') != nonce_)
    return malformed("the nonce differs from the first messages");

  auth_message_ += concat({",", without_proof});
  const Key client_key =
      exclusive_or(*proof, hmac_sha256(view(verifier_.stored_key), auth_message_));
  const bool right = same_secret(view(sha256({view(client_key)})), view(verifier_.stored_key));
  if (!right || fate_ == Fate::doomed) return Error("28P01", "wrong SCRAM proof");
  keys_ = {client_key, verifier_.server_key};
  return concat({"v=", to_base64(view(hmac_sha256(view(verifier_.server_key), auth_message_)))});
}

ScramClient::ScramClient(Random& random, ScramBinding binding)
    : binding_(std::move(binding)), nonce_(fresh_nonce(random)) {}

ScramClient::ScramClient(std::string password, SaltedPasswordCache& cache, Random& random, ScramBinding binding)
    : ScramClient(random, std::move(binding)) {
  password_ = std::move(password);
  cache_ = &cache;
}

ScramClient::ScramClient(const ScramKeys& keys, Random& random, ScramBinding binding)
    : ScramClient(random, std::move(binding)) {
  keys_ = keys;
}

std::string_view ScramClient::header() const noexcept {
  switch (binding_.kind) {
    case ScramBinding::Kind::none: return kUnboundHeader;
    case ScramBinding::Kind::not_offered: return kNotOfferedHeader;
    case ScramBinding::Kind::bound: return kBoundHeader;
  }
  return kUnboundHeader;
}

ScramClient::~ScramClient() {
  wipe(password_);
  wipe(keys_.client_key);
  wipe(keys_.server_key);
}

std::string ScramClient::client_first() const { return concat({header(), "n=,r=", nonce_}); }

Result<std::string> ScramClient::on_server_first(Bytes message) {
  std::string_view left = message;
  const std::optional<std::string_view> nonce = take_attribute(left, 'r');
  if (!nonce || !is_nonce(*nonce) || nonce->size() <= nonce_.size() ||
      nonce->substr(0, nonce_.size()) != nonce_) {
    return malformed("the server's nonce does not continue ours");
  }
  const std::optional<std::string_view> encoded_salt = take_attribute(left, 's');
  const std::optional<std::string> salt = encoded_salt ? from_base64(*encoded_salt) : std::nullopt;
  if (!salt || salt->empty()) return malformed("expected a salt");
  const std::string_view count = take_attribute(left, 'i').value_or("");
  std::uint32_t iterations = 0;
  const auto [stopped, problem] =
      std::from_chars(count.data(), count.data() + count.size(), iterations);
  if (problem != std::errc() || stopped != count.data() + count.size() || iterations < 1 ||
      iterations > kScramIterationsMax) {
    return malformed(concat(
        {"iterations \"", count, "\": expected 1 to ", std::to_string(kScramIterationsMax)}));
  }

  if (cache_) keys_ = keys_of(cache_->get(password_, *salt, iterations));
  const std::string bound = concat({header(), binding_.server_end_point});
  const std::string without_proof = concat({"c=", to_base64(bound), ",r=", *nonce});
  auth_message_ = concat({"n=,r=", nonce_, ",", message, ",", without_proof});
  const Key stored_key = sha256({view(keys_.client_key)});
  const Key proof = exclusive_or(keys_.client_key, hmac_sha256(view(stored_key), auth_message_));
  return concat({without_proof, ",p=", to_base64(view(proof))});
}

Status ScramClient::on_server_final(Bytes message) {
  std::string_view left = message;
  if (const std::optional<std::string_view> problem = take_attribute(left, 'e')) {
    return Error("28P01", concat({"the server refused the SCRAM exchange: ", *problem}));
  }
  const std::optional<std::string_view> encoded = take_attribute(left, 'v');
  const std::optional<Key> signature = encoded ? key_from_base64(*encoded) : std::nullopt;
  if (!signature) return malformed("expected the server's signature");
  if (!same_secret(view(*signature), view(hmac_sha256(view(keys_.server_key), auth_message_)))) {
    return Error("28P01", "the server did not prove that it knows the password");
  }
  return {};
}

}  // namespace pgweir::auth
