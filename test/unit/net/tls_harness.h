// tls_harness: an authority and certificates made on the spot, and a wire between two transports
// that a test can cut into pieces of any size.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness.h"
#include "net/tls.h"
#include "net/tls_transport.h"

namespace pgweir::net {

/// A folder of PEM files that goes away with the test.
class Certificates {
 public:
  struct Wish {
    std::string common_name = "localhost";
    std::string alternatives = {};  ///< as "DNS:a.example,IP:127.0.0.1"
    long begins_s = -3600;
    long ends_s = 3600;
  };
  struct Pair {
    std::string cert_file;
    std::string key_file;
  };

  Certificates() {
    char name[] = "/tmp/pgweir-tls-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder_ = name;
    ca = authority("ca", "a test's authority");
    other_ca = authority("other-ca", "another authority");
    server = issue("server", {}, ca);
  }
  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// A certificate of `by`'s and its key, as files.
  Pair issue(const std::string& name, const Wish& wish, const Pair& by) {
    const Key key = new_key();
    const Certificate issuer = load(by.cert_file);
    const Key issuer_key = load_key(by.key_file);
    const Certificate made = certificate(wish, *key, X509_get_subject_name(issuer.get()));
    if (!wish.alternatives.empty()) {
      X509_EXTENSION* names =
          X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, wish.alternatives.c_str());
      REQUIRE(names);
      X509_add_ext(made.get(), names, -1);
      X509_EXTENSION_free(names);
    }
    REQUIRE(X509_sign(made.get(), issuer_key.get(), EVP_sha256()) > 0);
    return write(name, *made, *key);
  }

  std::string write_text(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  Pair ca;
  Pair other_ca;
  Pair server;

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static Key new_key() { return Key(EVP_EC_gen("P-256")); }

  static Certificate certificate(const Wish& wish, EVP_PKEY& key, const X509_NAME* issuer) {
    static long last_serial = 1;
    Certificate made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++last_serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), wish.begins_s);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), wish.ends_s);
    X509_set_pubkey(made.get(), &key);
    X509_NAME* subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(wish.common_name.data()),
                               static_cast<int>(wish.common_name.size()), -1, 0);
    X509_set_issuer_name(made.get(), issuer ? issuer : subject);
    return made;
  }

  Pair authority(const std::string& name, const std::string& title) const {
    const Key key = new_key();
    const Certificate made = certificate({.common_name = title}, *key, nullptr);
    X509_EXTENSION* is_ca =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(made.get(), is_ca, -1);
    X509_EXTENSION_free(is_ca);
    REQUIRE(X509_sign(made.get(), key.get(), EVP_sha256()) > 0);
    return write(name, *made, *key);
  }

  Pair write(const std::string& name, X509& certificate, EVP_PKEY& key) const {
    const Pair files{folder_ + "/" + name + ".crt", folder_ + "/" + name + ".key"};
    std::FILE* out = std::fopen(files.cert_file.c_str(), "w");
    REQUIRE((out && PEM_write_X509(out, &certificate) == 1));
    std::fclose(out);
    out = std::fopen(files.key_file.c_str(), "w");
    REQUIRE((out && PEM_write_PrivateKey(out, &key, nullptr, nullptr, 0, nullptr, nullptr) == 1));
    std::fclose(out);
    return files;
  }

  static Certificate load(const std::string& path) {
    std::FILE* in = std::fopen(path.c_str(), "r");
    REQUIRE(in);
    Certificate made(PEM_read_X509(in, nullptr, nullptr, nullptr));
    std::fclose(in);
    return made;
  }
  static Key load_key(const std::string& path) {
    std::FILE* in = std::fopen(path.c_str(), "r");
    REQUIRE(in);
    Key made(PEM_read_PrivateKey(in, nullptr, nullptr, nullptr));
    std::fclose(in);
    return made;
  }

  std::string folder_;
};

/// Two transports, one at each end. Bytes wait until the test lets them through.
class Wire {
 public:
  class End final : public io::Transport {
   public:
    void send(Bytes bytes) noexcept override {
      if (!closed) sent += bytes;
    }
    bool congested() const noexcept override { return full; }
    void pause(bool on) noexcept override { paused = on; }
    void close() noexcept override { closed = true; }
    io::Address peer() const override { return {}; }
    io::Address local() const override { return {}; }
    std::int64_t peer_uid() const noexcept override { return -1; }
    void hand_to(io::TransportUser& to) noexcept override { user = &to; }

    std::string sent;
    bool full = false;
    bool paused = false;
    bool closed = false;
    bool told = false;
    io::TransportUser* user = nullptr;
  };

  explicit Wire(Loop& loop) : loop_(loop) {}

  /// Lets everything through in both directions, `piece` bytes at a time, until nothing moves.
  void run(std::size_t piece = 1'000'000) {
    for (bool moved = true; moved;) {
      loop_.flush_staged();
      moved = pass(ends[0], ends[1], piece);
      loop_.flush_staged();
      moved = pass(ends[1], ends[0], piece) || moved;
    }
    for (int i : {0, 1}) end(ends[i], ends[1 - i]);
    for (int i : {0, 1}) end(ends[i], ends[1 - i]);
  }

  End ends[2];

 private:
  static bool pass(End& from, End& to, std::size_t piece) {
    if (from.sent.empty()) return false;
    const std::string part = from.sent.substr(0, piece);
    from.sent.erase(0, part.size());
    if (!to.closed && to.user) to.user->on_bytes(part);
    return true;
  }
  /// As a socket: its own close, or the peer's, is told once.
  static void end(End& self, const End& other) {
    if (self.told || !self.user || (!self.closed && !other.closed)) return;
    const bool own = self.closed;
    self.told = self.closed = true;
    self.user->on_closed(Error(own ? "closed" : "connection closed by the peer"));
  }

  Loop& loop_;
};

/// A client's and a server's end of one encrypted connection.
struct Talk {
  Talk(World& world, std::shared_ptr<TlsContext> of_client, std::shared_ptr<TlsContext> of_server,
       const TlsTerms& client_terms = {}, const TlsTerms& server_terms = {})
      : wire(world.loop),
        client(world.loop, std::move(of_client), wire.ends[0], client_user, client_terms),
        server(world.loop, std::move(of_server), wire.ends[1], server_user, server_terms) {}

  void shake_hands(std::size_t piece = 1'000'000) {
    server.start({});
    client.start({});
    wire.run(piece);
  }

  Wire wire;
  Recorder client_user;
  Recorder server_user;
  TlsTransport client;
  TlsTransport server;
};

inline std::shared_ptr<TlsContext> context(const io::TlsSettings& settings, TlsRole role) {
  Result<std::shared_ptr<TlsContext>> made = TlsContext::make(settings, role);
  INFO((made ? std::string() : made.error().text()));
  REQUIRE(made);
  return *made;
}

}  // namespace pgweir::net
