#include "net/versions.h"

#include <libpq-fe.h>
#include <openssl/crypto.h>
#include <uv.h>

#include "base/text.h"

namespace pgweir::net {

std::string libuv_version() { return uv_version_string(); }

std::string libpq_version() {
  const int version = PQlibVersion();  // 150020 is 15.20.
  return concat({std::to_string(version / 10000), ".", std::to_string(version % 10000)});
}

std::string openssl_version() { return OpenSSL_version(OPENSSL_VERSION); }

}  // namespace pgweir::net
