#include "net/tls_names.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <memory>

#include "base/text.h"

namespace pgweir::net {
namespace {

/// The subject as of RFC 2253, the form that ident maps and people know.
std::string distinguished_name(X509& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), &BIO_free);
  if (!text ||
      X509_NAME_print_ex(text.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253) < 0)
    return {};
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

bool has_alternative_names(X509& certificate) {
  return X509_get_ext_by_NID(&certificate, NID_subject_alt_name, -1) >= 0;
}

}  // namespace

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason ? std::string(reason) : concat({"error ", std::to_string(code)});
}

std::string common_name(X509& certificate) {
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  unsigned char* utf8 = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  std::string name(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  // "admin\0.example.com" was signed for somebody else than it seems to name.
  return name.find('\0') == std::string::npos ? name : std::string();
}

std::string end_point_hash(X509& certificate) {
  int digest = NID_undef;
  if (X509_get_signature_info(&certificate, &digest, nullptr, nullptr, nullptr) != 1) return {};
  if (digest == NID_md5 || digest == NID_sha1) digest = NID_sha256;
  const EVP_MD* function = digest == NID_undef ? nullptr : EVP_get_digestbynid(digest);
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!function || X509_digest(&certificate, function, hash, &size) != 1) {
    ERR_clear_error();
    return {};
  }
  return {reinterpret_cast<const char*>(hash), size};
}

bool is_ip_address(const std::string& host) {
  unsigned char address[16];
  return inet_pton(AF_INET, host.c_str(), address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address) == 1;
}

bool belongs_to(X509& certificate, const std::string& host) {
  if (!is_ip_address(host)) {
    return X509_check_host(&certificate, host.c_str(), host.size(),
                           X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, nullptr) == 1;
  }
  if (X509_check_ip_asc(&certificate, host.c_str(), 0) == 1) return true;
  return !has_alternative_names(certificate) && common_name(certificate) == host;
}

io::TlsInfo describe(const SSL& ssl, bool verified_by_us, std::string_view own_end_point) {
  io::TlsInfo info;
  info.version = SSL_get_version(&ssl);
  const char* cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(&ssl));
  info.cipher = cipher ? cipher : "?";
  if (const char* name = SSL_get_servername(&ssl, TLSEXT_NAMETYPE_host_name))
    info.server_name = name;
  info.server_end_point = own_end_point;
  X509* const peer = SSL_get0_peer_certificate(&ssl);
  if (!peer) return info;
  info.peer_has_certificate = true;
  info.peer_verified = verified_by_us && SSL_get_verify_result(&ssl) == X509_V_OK;
  info.peer_common_name = common_name(*peer);
  info.peer_dn = distinguished_name(*peer);
  if (SSL_is_server(&ssl) == 0) info.server_end_point = end_point_hash(*peer);
  return info;
}

}  // namespace pgweir::net
