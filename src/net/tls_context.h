// What connections of one kind share: OpenSSL's SSL_CTX, made of settings and the files they name.
#pragma once

#include <openssl/ssl.h>

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "io/tls.h"

namespace pgweir::net {

/// Which of the two we are in a handshake.
enum class TlsRole : std::uint8_t { server, client };

struct FreeTls {
  void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const noexcept { SSL_SESSION_free(session); }
};
using SslPointer = std::unique_ptr<SSL, FreeTls>;
using SessionPointer = std::unique_ptr<SSL_SESSION, FreeTls>;

class TlsContext {
 public:
  /// Reads the files. An error names the setting and the cause, and never what stands in a key
  /// file.
  static Result<std::shared_ptr<TlsContext>> make(const io::TlsSettings& settings, TlsRole role);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  SslPointer start() const noexcept { return SslPointer(SSL_new(context_.get())); }
  const io::TlsSettings& settings() const noexcept { return settings_; }
  TlsRole role() const noexcept { return role_; }
  /// Whether the peer's certificate is judged at all.
  bool verifies() const noexcept { return verifies_; }
  /// The hash of our own certificate, for channel binding.
  const std::string& end_point() const noexcept { return end_point_; }
  /// Made of the same settings and the same contents of files: neither needs to take the other's
  /// place.
  bool same_as(const TlsContext& other) const noexcept {
    return role_ == other.role_ && settings_ == other.settings_ && contents_ == other.contents_;
  }

  // Sessions to resume, where we are the client; `peer` is "host:port".
  void remember(const std::string& peer, SessionPointer session);
  /// A ticket is good for one handshake.
  SessionPointer take_session(const std::string& peer) noexcept;

 private:
  static constexpr std::size_t kSessionsMax = 256;

  TlsContext(const io::TlsSettings& settings, TlsRole role) : settings_(settings), role_(role) {}
  Status set_up();
  Status use_authorities();
  Status use_certificate();
  Status use_protocols();
  Status use_ciphers();
  Status use_key_exchange();
  void use_alpn() noexcept;
  Result<std::string> read(std::string_view setting, const std::string& path);
  Error trouble(std::string_view setting, std::string_view value, std::string_view why) const;

  io::TlsSettings settings_;
  TlsRole role_;
  std::unique_ptr<SSL_CTX, FreeTls> context_;
  bool verifies_ = false;
  std::string end_point_;
  std::string contents_;  ///< the hash of each file's contents
  std::map<std::string, SessionPointer> sessions_;
};

/// The oldest and newest version of a list, as libpq names them: "TLSv1.2", "TLSv1.3".
struct ProtocolRange {
  const char* lowest = "";
  const char* highest = "";
};
ProtocolRange protocol_range(std::string_view list);

/// Where the system keeps the authorities that it trusts; empty when it has none.
std::string system_authorities();

/// The only protocol that is spoken behind the encryption, as ALPN has it on the wire.
inline constexpr std::string_view kAlpn = "\x0apostgresql";

}  // namespace pgweir::net
