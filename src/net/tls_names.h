// What OpenSSL knows of a handshake and a certificate, as text; and its errors, as text for a
// person.
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/io.h"

namespace pgweir::net {

/// The oldest error in OpenSSL's queue, which is the cause of the others; empties the queue.
std::string openssl_error();

/// Everything that a finished handshake tells of `ssl`. `own_end_point` is the hash of our
/// certificate where we are the server.
io::TlsInfo describe(const SSL& ssl, bool verified_by_us, std::string_view own_end_point);

/// The hash of `certificate` for tls-server-end-point: by the hash function of its signature,
/// SHA-256 in place of MD5 and SHA-1 (RFC 5929, section 4.1). Empty when the signature has none, as
/// Ed25519.
std::string end_point_hash(X509& certificate);

/// Whether the certificate is `host`'s, a name or an IP address. Where it names no alternatives,
/// its common name counts.
bool belongs_to(X509& certificate, const std::string& host);
/// The names it is for, as an error message tells them: "db.example.com".
std::string common_name(X509& certificate);

bool is_ip_address(const std::string& host);

}  // namespace pgweir::net
