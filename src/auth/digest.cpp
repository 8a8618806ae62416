#include "auth/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/text.h"

namespace pgweir::auth {
namespace {

thread_local std::uint64_t work = 0;

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* raw(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* raw(char* at) noexcept { return reinterpret_cast<unsigned char*>(at); }

/// Looked up once: OpenSSL 3 takes longer to find an algorithm by its name than to hash a login's few bytes. Never freed, as
/// libcrypto's own end may come first.
const EVP_MD* sha256_algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  ENSURE(found != nullptr);  // Built without it: nobody could log in.
  return found;
}
/// Null: not to be had here.
const EVP_MD* md5_algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "MD5", nullptr);
  return found;
}

/// libcrypto refuses these only when it is out of memory.
void digest(const EVP_MD* algorithm, std::initializer_list<std::string_view> parts, char* out) {
  thread_local const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  ++work;
  ENSURE(context && EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1);
  for (std::string_view part : parts)
    ENSURE(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  ENSURE(EVP_DigestFinal_ex(context.get(), raw(out), nullptr) == 1);
}

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::uint64_t hash_work() noexcept { return work; }

Key sha256(std::initializer_list<std::string_view> parts) {
  Key out;
  digest(sha256_algorithm(), parts, out.data());
  return out;
}

/// RFC 2104, over the hash that is at hand: libcrypto's own looks everything up anew each time.
Key hmac_sha256(std::string_view key, std::string_view text) {
  constexpr std::size_t kBlockBytes = 64;
  std::array<char, kBlockBytes> inner{};
  if (key.size() > kBlockBytes) {
    const Key shorter = sha256({key});
    std::copy(shorter.begin(), shorter.end(), inner.begin());
  } else {
    std::copy(key.begin(), key.end(), inner.begin());
  }
  std::array<char, kBlockBytes> outer = inner;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  const Key of_text = sha256({{inner.data(), inner.size()}, text});
  const Key out = sha256({{outer.data(), outer.size()}, view(of_text)});
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return out;
}

Key pbkdf2_sha256(std::string_view password, std::string_view salt, std::uint32_t iterations) {
  Key out;
  work += iterations;
  ENSURE(PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), raw(salt),
                           static_cast<int>(salt.size()), static_cast<int>(iterations),
                           sha256_algorithm(), static_cast<int>(out.size()), raw(out.data())) == 1);
  return out;
}

bool md5_available() { return md5_algorithm() != nullptr; }

std::string md5_hex(std::string_view first, std::string_view second) {
  ENSURE(md5_available());
  std::array<char, 16> sum;
  digest(md5_algorithm(), {first, second}, sum.data());
  std::string hex;
  hex.reserve(2 * sum.size());
  for (char c : sum) {
    const auto byte = static_cast<unsigned char>(c);
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string md5_of_password(std::string_view password, std::string_view user) {
  return md5_hex(password, user);
}

std::string md5_answer(std::string_view password_md5_hex, std::string_view salt) {
  return concat({"md5", md5_hex(password_md5_hex, salt)});
}

std::string to_base64(std::string_view raw_bytes) {
  std::string out;
  out.reserve((raw_bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < raw_bytes.size(); i += 3) {
    const std::string_view group = raw_bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = (bits << 8) | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= group.size() ? kAlphabet[(bits >> (18 - 6 * k)) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && !text.empty() && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  std::string out;
  std::uint32_t bits = 0;
  std::size_t bit_count = 0;
  for (char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      out += static_cast<char>((bits >> bit_count) & 0xff);
    }
  }
  return out;
}

bool same_secret(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::string& text) noexcept {
  // A short text that was moved away left its bytes here, behind the size.
  text.resize(text.capacity());
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

// Buffers that are read into are no constants: only the view of them is.
void wipe_in_place(std::string_view read) noexcept { OPENSSL_cleanse(const_cast<char*>(read.data()), read.size()); }

void wipe(Key& key) noexcept { OPENSSL_cleanse(key.data(), key.size()); }

}  // namespace pgweir::auth
