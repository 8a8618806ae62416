// How connections are encrypted: what the settings ask for, and who does it. net does it over
// OpenSSL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace pgweir::io {

class Transport;
class TransportUser;

/// As libpq's sslmode. Towards clients allow and prefer are one: who asks for encryption gets it.
/// So they are towards servers: it is asked for, and done without where the server has none.
enum class TlsMode : std::uint8_t { disable, allow, prefer, require, verify_ca, verify_full };

/// What was configured. Texts are as in the settings; empty ones mean the default.
struct TlsSettings {
  TlsMode mode = TlsMode::disable;
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  std::string protocols = {};
  std::string ciphers = {};
  std::string tls13_ciphers = {};
  std::string dheparams = {};  ///< towards clients only
  std::string ecdhcurve = {};  ///< towards clients only
  /// Towards servers: begin with the handshake, not with the question whether there may be one.
  bool direct = false;

  bool operator==(const TlsSettings&) const = default;
};
using SharedTlsSettings = std::shared_ptr<const TlsSettings>;

/// For a connection that is dialled.
struct DialTls {
  SharedTlsSettings settings = {};  ///< null: not encrypted
  /// Whose certificate is expected; empty: the host's that is dialled.
  std::string server_name = {};
};

/// How a client came to encryption: by an SSLRequest, or its first byte began a handshake.
enum class TlsStart : std::uint8_t { requested, direct };

class Tls {
 public:
  virtual ~Tls() = default;
  /// Takes settings into use for connections from now on, and reads their files anew. When one
  /// can't be used: an error that names setting, file and cause, and everything stays as it was.
  virtual Status use(const TlsSettings& clients, const std::vector<SharedTlsSettings>& servers) = 0;
  /// Encrypts an accepted connection; `read` is what has come of the handshake. `user` is told
  /// on_connected() when it is done, and never about `plain` any more.
  virtual std::unique_ptr<Transport> accept(std::unique_ptr<Transport> plain, TransportUser& user,
                                            TlsStart how, Bytes read) = 0;
};

}  // namespace pgweir::io
