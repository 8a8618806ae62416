#include "net/tls_context.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/text.h"
#include "net/socket.h"
#include "net/tls_names.h"

namespace pgweir::net {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;

struct FreeCrypto {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeCrypto>;

Owned<BIO> open_text(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// A key's text must not stay behind in memory that is given back.
class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() { OPENSSL_cleanse(text_.data(), text_.size()); }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// There is nobody to type a passphrase, and the terminal that OpenSSL would ask is not ours.
int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

/// Lets any certificate in: whether it was good is asked of the connection later.
int note_only(int, X509_STORE_CTX*) { return 1; }

int choose_alpn(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(
          &found, chosen_size, reinterpret_cast<const unsigned char*>(kAlpn.data()),
          static_cast<unsigned>(kAlpn.size()), offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

struct Protocol {
  std::string_view name;
  std::uint64_t versions;
};

// What a version is refused by.
constexpr std::uint64_t kTls10 = SSL_OP_NO_TLSv1;
constexpr std::uint64_t kTls11 = SSL_OP_NO_TLSv1_1;
constexpr std::uint64_t kTls12 = SSL_OP_NO_TLSv1_2;
constexpr std::uint64_t kTls13 = SSL_OP_NO_TLSv1_3;
constexpr std::uint64_t kTlsAll = kTls10 | kTls11 | kTls12 | kTls13;
constexpr Protocol kProtocols[] = {
    {"secure", kTls12 | kTls13}, {"default", kTls12 | kTls13}, {"all", kTlsAll},
    {"legacy", kTlsAll},         {"tlsv1", kTlsAll},           {"tlsv1.0", kTls10},
    {"tlsv1.1", kTls11},         {"tlsv1.2", kTls12},          {"tlsv1.3", kTls13},
};

/// The versions that a list names, as the flags that would refuse them.
Result<std::uint64_t> versions_in(std::string_view list) {
  std::string text(list.empty() ? "secure" : list);
  for (char& c : text) {
    if (c == ':') c = ',';
  }
  std::uint64_t wanted = 0;
  for (std::string_view word : split(text, ',')) {
    const bool without = !word.empty() && word.front() == '!';
    if (without) word = trimmed(word.substr(1));
    std::uint64_t versions = 0;
    for (const Protocol& protocol : kProtocols) {
      if (equals_ignoring_case(protocol.name, word)) versions = protocol.versions;
    }
    if (versions == 0) {
      return Error(
          "expected secure, all, or some of tlsv1.0, tlsv1.1, tlsv1.2, tlsv1.3 with commas");
    }
    if (without && wanted == 0) wanted = kTlsAll;
    wanted = without ? wanted & ~versions : wanted | versions;
  }
  if (wanted == 0) return Error("expected at least one version");
  return wanted;
}

Status add_authorities(SSL_CTX& context, const std::string& pem, bool name_them) {
  const Owned<BIO> text = open_text(pem);
  X509_STORE* store = SSL_CTX_get_cert_store(&context);
  int count = 0;
  while (
      const Owned<X509> certificate{PEM_read_bio_X509_AUX(text.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) return Error(openssl_error());
    if (name_them && SSL_CTX_add_client_CA(&context, certificate.get()) != 1)
      return Error(openssl_error());
    ++count;
  }
  // The loop's end is an error, too: no further certificate.
  const unsigned long last = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
  if (!at_end) return Error(openssl_error());
  ERR_clear_error();
  return count > 0 ? Status() : Status(Error("there is no certificate in it"));
}

}  // namespace

ProtocolRange protocol_range(std::string_view list) {
  const Result<std::uint64_t> wanted = versions_in(list);
  if (!wanted) return {};
  ProtocolRange range;
  constexpr std::pair<std::uint64_t, const char*> kNames[] = {
      {kTls10, "TLSv1"}, {kTls11, "TLSv1.1"}, {kTls12, "TLSv1.2"}, {kTls13, "TLSv1.3"}};
  for (const auto& [version, name] : kNames) {
    if ((*wanted & version) == 0) continue;
    if (*range.lowest == '\0') range.lowest = name;
    range.highest = name;
  }
  return range;
}

std::string system_authorities() {
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (::access(path, R_OK) == 0) return path;
  }
  return {};
}

TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::make(const io::TlsSettings& settings,
                                                     TlsRole role) {
  std::shared_ptr<TlsContext> context(new TlsContext(settings, role));
  ERR_clear_error();
  if (Status ok = context->set_up(); !ok) return ok.error();
  return context;
}

/// "TLS setup failed: client_tls_cert_file = "/etc/x.crt": No such file or directory".
Error TlsContext::trouble(std::string_view setting, std::string_view value,
                          std::string_view why) const {
  const std::string_view side = role_ == TlsRole::server ? "client_tls" : "server_tls";
  return Error(concat({"TLS setup failed: ", side, setting, " = \"", value, "\": ", why}));
}

Result<std::string> TlsContext::read(std::string_view setting, const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return trouble(setting, path, error_text(errno));
  std::string text;
  std::array<char, 8192> part{};
  ssize_t got = 0;
  while (text.size() <= kFileBytesMax && (got = ::read(file.get(), part.data(), part.size())) > 0) {
    // Grown by hand: append() would leave parts of a key behind in the memory it gives back.
    if (text.size() + static_cast<std::size_t>(got) > text.capacity()) {
      std::string larger;
      larger.reserve(2 * (text.capacity() + part.size()));
      larger = text;
      OPENSSL_cleanse(text.data(), text.size());
      text.swap(larger);
    }
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  OPENSSL_cleanse(part.data(), part.size());
  if (got < 0) return trouble(setting, path, error_text(errno));
  if (text.size() > kFileBytesMax) return trouble(setting, path, "expected at most 4 MiB");
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha256(), nullptr) == 1)
    contents_.append(reinterpret_cast<const char*>(hash), size);
  return text;
}

Status TlsContext::set_up() {
  const bool server = role_ == TlsRole::server;
  context_.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  if (!context_) return Error("TLS setup failed: " + openssl_error());
  SSL_CTX* const context = context_.get();
  // Who is idle gives his buffers back: 32 kB for each connection otherwise.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(
      context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (server) {
    // Sessions live in tickets, that is with the client; one for each handshake is enough.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 1);
    static constexpr unsigned char kName[] = "pgweir";
    SSL_CTX_set_session_id_context(context, kName, sizeof kName - 1);
  } else {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  }
  use_alpn();
  if (Status ok = use_protocols(); !ok) return ok;
  if (Status ok = use_ciphers(); !ok) return ok;
  if (server) {
    if (Status ok = use_key_exchange(); !ok) return ok;
  }
  if (Status ok = use_certificate(); !ok) return ok;
  return use_authorities();
}

Status TlsContext::use_authorities() {
  const bool server = role_ == TlsRole::server;
  const bool must =
      settings_.mode == io::TlsMode::verify_ca || settings_.mode == io::TlsMode::verify_full;
  std::string path = settings_.ca_file;
  if (!must && path.empty()) return {};
  if (!must && !server) {
    // Not used: but a file that can't be read is a mistake that should not wait for the day it is.
    const Result<std::string> pem = read("_ca_file", path);
    return pem ? Status() : Status(pem.error());
  }
  if (path.empty() && !server) path = system_authorities();
  if (path.empty())
    return trouble("_ca_file", "",
                   "expected a file with the authorities that certificates come from");
  const Result<std::string> pem = read("_ca_file", path);
  if (!pem) return pem.error();
  if (Status ok = add_authorities(*context_, *pem, server); !ok)
    return trouble("_ca_file", path, ok.error().text());
  // Without a duty to have one, a client's certificate is asked for and judged, and a login that
  // wants one sees how that went.
  if (must)
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  else
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, note_only);
  verifies_ = true;
  return {};
}

Status TlsContext::use_certificate() {
  if (settings_.cert_file.empty() && settings_.key_file.empty() && role_ == TlsRole::client)
    return {};
  if (settings_.cert_file.empty())
    return trouble("_cert_file", "", "expected the file of the certificate, as there is to be TLS");
  if (settings_.key_file.empty())
    return trouble("_key_file", "", "expected the file of the certificate's private key");
  const Result<std::string> pem = read("_cert_file", settings_.cert_file);
  if (!pem) return pem.error();
  const Owned<BIO> text = open_text(*pem);
  const auto bad = [&](std::string_view why) {
    return trouble("_cert_file", settings_.cert_file, why);
  };
  const Owned<X509> own{PEM_read_bio_X509_AUX(text.get(), nullptr, nullptr, nullptr)};
  if (!own) {
    ERR_clear_error();
    return bad("there is no certificate in it");
  }
  if (SSL_CTX_use_certificate(context_.get(), own.get()) != 1) return bad(openssl_error());
  while (X509* link = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context_.get(), link) != 1) {
      X509_free(link);
      return bad(openssl_error());
    }
  }
  ERR_clear_error();
  end_point_ = end_point_hash(*own);

  Result<std::string> key_pem = read("_key_file", settings_.key_file);
  if (!key_pem) return key_pem.error();
  const Secret secret(*std::move(key_pem));
  const Owned<BIO> key_text = open_text(secret.text());
  bool locked = false;
  const Owned<EVP_PKEY> key{
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_passphrase, &locked)};
  const auto bad_key = [&](std::string_view why) {
    return trouble("_key_file", settings_.key_file, why);
  };
  if (!key) {
    ERR_clear_error();
    return bad_key(locked ? "the key is locked by a passphrase: expected one without"
                          : "there is no private key in it");
  }
  if (SSL_CTX_use_PrivateKey(context_.get(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context_.get()) != 1) {
    ERR_clear_error();
    return bad_key(concat({"the key is not the one of the certificate in ", settings_.cert_file}));
  }
  return {};
}

Status TlsContext::use_protocols() {
  const Result<std::uint64_t> wanted = versions_in(settings_.protocols);
  if (!wanted) return trouble("_protocols", settings_.protocols, wanted.error().text());
  // The system's own minimum would stand in the way of versions that were asked for by name.
  SSL_CTX_set_min_proto_version(context_.get(), 0);
  SSL_CTX_set_options(context_.get(), kTlsAll & ~*wanted);
  return {};
}

Status TlsContext::use_ciphers() {
  const std::string& list = settings_.ciphers;
  std::string_view wanted = list;
  for (std::string_view usual : {"default", "secure", "fast", "normal"}) {
    if (equals_ignoring_case(list, usual)) wanted = {};
  }
  if (equals_ignoring_case(list, "all")) wanted = "ALL:!aNULL:!eNULL";
  const bool no_curves =
      role_ == TlsRole::server && equals_ignoring_case(settings_.ecdhcurve, "none");
  std::string all(wanted);
  if (no_curves) all = concat({wanted.empty() ? "DEFAULT" : wanted, ":!kECDHE"});
  if (!all.empty() && SSL_CTX_set_cipher_list(context_.get(), all.c_str()) != 1)
    return trouble("_ciphers", list, openssl_error());
  const std::string& suites = settings_.tls13_ciphers;
  if (!suites.empty() && SSL_CTX_set_ciphersuites(context_.get(), suites.c_str()) != 1) {
    ERR_clear_error();
    const std::string_view side = role_ == TlsRole::server ? "client_tls13" : "server_tls13";
    return Error(concat({"TLS setup failed: ", side, "_ciphers = \"", suites,
                         "\": failed to set the TLSv1.3 cipher suites"}));
  }
  return {};
}

Status TlsContext::use_key_exchange() {
  const std::string& dh = settings_.dheparams;
  // OpenSSL takes parameters that are as strong as the certificate's key; "legacy" can't mean
  // weaker ones any more.
  const bool automatic =
      dh.empty() || equals_ignoring_case(dh, "auto") || equals_ignoring_case(dh, "legacy");
  if (!automatic && !equals_ignoring_case(dh, "none"))
    return trouble("_dheparams", dh, "expected auto, legacy or none");
  SSL_CTX_set_dh_auto(context_.get(), automatic ? 1 : 0);
  const std::string& curve = settings_.ecdhcurve;
  if (curve.empty() || equals_ignoring_case(curve, "auto") || equals_ignoring_case(curve, "none"))
    return {};
  std::string groups = curve;
  for (char& c : groups) {
    if (c == ',') c = ':';
  }
  if (SSL_CTX_set1_groups_list(context_.get(), groups.c_str()) != 1) {
    ERR_clear_error();
    return trouble("_ecdhcurve", curve,
                   "expected auto, none, or curves that OpenSSL knows, as prime256v1");
  }
  return {};
}

void TlsContext::use_alpn() noexcept {
  if (role_ == TlsRole::server) {
    SSL_CTX_set_alpn_select_cb(context_.get(), choose_alpn, nullptr);
    // Any name is fine; without this OpenSSL would not remember which one was asked for.
    SSL_CTX_set_tlsext_servername_callback(
        context_.get(), +[](SSL*, int*, void*) -> int { return SSL_TLSEXT_ERR_OK; });
  } else {
    (void)SSL_CTX_set_alpn_protos(context_.get(),
                                  reinterpret_cast<const unsigned char*>(kAlpn.data()),
                                  static_cast<unsigned>(kAlpn.size()));
  }
}

void TlsContext::remember(const std::string& peer, SessionPointer session) {
  if (sessions_.size() >= kSessionsMax && sessions_.find(peer) == sessions_.end())
    sessions_.clear();
  sessions_[peer] = std::move(session);
}

SessionPointer TlsContext::take_session(const std::string& peer) noexcept {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) return nullptr;
  SessionPointer session = std::move(found->second);
  sessions_.erase(found);
  return session;
}

}  // namespace pgweir::net
