// versions: what the libraries under net call themselves.
#pragma once

#include <string>

namespace pgweir::net {

/// "1.44.2".
std::string libuv_version();
/// "15.20".
std::string libpq_version();

}  // namespace pgweir::net
