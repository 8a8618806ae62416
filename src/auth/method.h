// The ways in which a client can prove who it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pgweir::auth {

/// `any` takes everybody, `trust` everybody whose name is known. `plain` asks for the password in clear
/// text. `md5` becomes SCRAM when the stored secret is a SCRAM one. `cert` believes the certificate that
/// the connection was opened with, `peer` the operating system. `pam` and `ldap` ask for the password in
/// clear text and let somebody else judge it.
enum class Method : std::uint8_t { trust, any, plain, md5, scram_sha_256, cert, peer, pam, ldap, reject };

/// The words of auth_type: "scram-sha-256" for scram_sha_256.
std::string_view to_string(Method method) noexcept;
/// nullopt: no method of that name.
std::optional<Method> parse_method(std::string_view auth_type) noexcept;

}  // namespace pgweir::auth
