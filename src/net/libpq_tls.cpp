#include "net/libpq_tls.h"

#include "net/tls_context.h"

namespace pgweir::net {
namespace {

/// libpq looks for files in the home directory where none is named, and a root certificate that it
/// finds there changes what `require` means. It finds none under this name.
constexpr const char* kNoFile = "/nonexistent/pgweir";

const char* mode_of(io::TlsMode mode) noexcept {
  switch (mode) {
    case io::TlsMode::disable:
      return "disable";
    case io::TlsMode::allow:
    case io::TlsMode::prefer:
      return "prefer";
    case io::TlsMode::require:
      return "require";
    case io::TlsMode::verify_ca:
      return "verify-ca";
    case io::TlsMode::verify_full:
      return "verify-full";
  }
  return "verify-full";
}

}  // namespace

LibpqTls tls_options(const io::TlsSettings* settings) {
  LibpqTls tls;
  tls.ca_file = tls.cert_file = tls.key_file = kNoFile;
  if (!settings || settings->mode == io::TlsMode::disable) return tls;
  tls.mode = mode_of(settings->mode);
  if (settings->mode == io::TlsMode::verify_ca || settings->mode == io::TlsMode::verify_full)
    tls.ca_file = settings->ca_file.empty() ? system_authorities() : settings->ca_file;
  if (!settings->cert_file.empty()) {
    tls.cert_file = settings->cert_file;
    tls.key_file = settings->key_file;
  }
  // libpq's own are a lowest and a highest version; a list with a hole in it is its outer two.
  const ProtocolRange range = protocol_range(settings->protocols);
  tls.lowest = range.lowest;
  tls.highest = range.highest;
  return tls;
}

}  // namespace pgweir::net
