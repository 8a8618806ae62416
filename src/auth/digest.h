// The few pieces of cryptography that logins need, over OpenSSL's libcrypto; for this module only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "auth/secret.h"

namespace pgweir::auth {

/// Of the parts one after another.
Key sha256(std::initializer_list<std::string_view> parts);
Key hmac_sha256(std::string_view key, std::string_view text);
Key pbkdf2_sha256(std::string_view password, std::string_view salt, std::uint32_t iterations);
/// Whether libcrypto lets MD5 be used: in FIPS mode it does not. To be asked before the three below, which end the
/// process without it.
bool md5_available();
/// Of both parts one after another, as 32 lower-case hex digits.
std::string md5_hex(std::string_view first, std::string_view second);
/// md5_hex of password and user: what stands behind "md5" in a stored secret.
std::string md5_of_password(std::string_view password, std::string_view user);
/// What a client sends back for the four bytes of `salt`: "md5" and 32 digits.
std::string md5_answer(std::string_view password_md5_hex, std::string_view salt);

std::string to_base64(std::string_view raw);
/// With padding, and nothing but the alphabet; nullopt otherwise.
std::optional<std::string> from_base64(std::string_view text);

/// How many hashes have been taken on this thread, each round of an iterated one counted: what a login costs, in
/// numbers that are the same on every machine.
std::uint64_t hash_work() noexcept;

/// In a time that depends on the lengths alone.
bool same_secret(std::string_view a, std::string_view b) noexcept;

inline std::string_view view(const Key& key) noexcept { return {key.data(), key.size()}; }

}  // namespace pgweir::auth
