// libpq_tls: what libpq is told of encryption, so that the monitor's connections are encrypted as
// the pools' are.
#pragma once

#include <string>

#include "io/tls.h"

namespace pgweir::net {

struct LibpqTls {
  const char* mode = "disable";
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  const char* lowest = "";
  const char* highest = "";
};

/// `settings` may be null: no encryption.
LibpqTls tls_options(const io::TlsSettings* settings);

}  // namespace pgweir::net
