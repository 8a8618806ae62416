// versions: what the libraries under net call themselves.
#pragma once

#include <string>

namespace pgweir::net {

/// "1.44.2".
std::string libuv_version();
/// "15.20".
std::string libpq_version();
/// "OpenSSL 3.0.22 25 Aug 2026".
std::string openssl_version();

}  // namespace pgweir::net
