// What a peer sends before and during a TLS handshake: bytes of its own making, and a genuine handshake with
// bytes changed, put in or taken out.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "io/io.h"
#include "net/loop.h"
#include "net/tls_context.h"
#include "net/tls_transport.h"

using namespace pgweir;
using namespace pgweir::net;

namespace {

const std::string kWords = "words that only the other end may hear";

void demand(bool holds) {
  if (!holds) std::abort();
}

/// A key and a certificate signed with it, as files that are gone once they are read.
io::TlsSettings settings_with_certificate() {
  char name[] = "/tmp/pgweir-fuzz-XXXXXX";
  demand(::mkdtemp(name) != nullptr);
  const std::string folder = name;
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 360'000'000);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("fuzz"), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  demand(X509_sign(certificate, key, EVP_sha256()) > 0);
  std::FILE* out = std::fopen((folder + "/crt").c_str(), "w");
  PEM_write_X509(out, certificate);
  std::fclose(out);
  out = std::fopen((folder + "/key").c_str(), "w");
  PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {.mode = io::TlsMode::require, .cert_file = folder + "/crt", .key_file = folder + "/key"};
}

/// Both contexts, made once.
struct Contexts {
  Contexts() {
    const io::TlsSettings with_files = settings_with_certificate();
    server = *TlsContext::make(with_files, TlsRole::server);
    client = *TlsContext::make({.mode = io::TlsMode::require}, TlsRole::client);
    std::remove(with_files.cert_file.c_str());
    std::remove(with_files.key_file.c_str());
    std::remove(with_files.cert_file.substr(0, with_files.cert_file.rfind('/')).c_str());
  }
  Loop loop;
  std::shared_ptr<TlsContext> server;
  std::shared_ptr<TlsContext> client;
};

/// The transport below.
struct End final : io::Transport {
  void send(Bytes bytes) noexcept override {
    demand(!closed);
    sent += bytes;
  }
  bool congested() const noexcept override { return false; }
  void pause(bool) noexcept override {}
  void close() noexcept override { closed = true; }
  io::Address peer() const override { return {}; }
  io::Address local() const override { return {}; }
  std::int64_t peer_uid() const noexcept override { return -1; }
  void hand_to(io::TransportUser& to) noexcept override { user = &to; }
  std::string sent;
  bool closed = false;
  io::TransportUser* user = nullptr;
};

struct Hearer final : io::TransportUser {
  void on_connected() noexcept override {
    demand(!connected && !ended);
    connected = true;
  }
  void on_bytes(Bytes bytes) noexcept override {
    demand(connected && !ended);
    heard += bytes;
  }
  void on_drained() noexcept override {}
  void on_closed(const Error& why) noexcept override {
    demand(!ended && !why.text().empty());
    ended = true;
  }
  bool connected = false;
  bool ended = false;
  std::string heard;
};

void finish(End& below) {
  if (below.closed && below.user) below.user->on_closed(Error("closed"));
}

/// Nobody gets in with bytes that no handshake gave.
void speak(Contexts& all, TlsRole role, bool direct, Bytes input) {
  End below;
  Hearer user;
  TlsTransport transport(all.loop, role == TlsRole::server ? all.server : all.client, below, user, {.direct = direct});
  transport.start(direct ? input.substr(0, input.size() / 2) : Bytes());
  for (std::size_t at = direct ? input.size() / 2 : 0; at < input.size() && !below.closed; at += 1 + input.size() / 7)
    below.user->on_bytes(input.substr(at, 1 + input.size() / 7));
  all.loop.flush_staged();
  demand(!user.connected && user.heard.empty());
  finish(below);
}

/// Edits of two bytes: where (counted on from the last one), and what: the lowest bits say how.
struct Edits {
  Bytes rest;
  std::size_t next = 0;
  std::size_t seen = 0;

  std::string applied_to(const std::string& sent) {
    std::string out;
    for (const char byte : sent) {
      const bool here = rest.size() >= 2 && seen++ == next + static_cast<unsigned char>(rest[0]);
      if (!here) {
        out += byte;
        continue;
      }
      next = seen - 1;
      const char what = rest[1];
      rest.remove_prefix(2);
      switch (what & 3) {
        case 0:
          out += static_cast<char>(byte ^ (what | 4));
          break;
        case 1:
          out += what;
          out += byte;
          break;
        case 2:
          break;  // taken out
        default:
          out += byte;
          out += byte;
      }
    }
    return out;
  }
};

/// Whatever happens on the way, what is heard is the beginning of what was said.
void interfere(Contexts& all, bool towards_server, Bytes input) {
  End client_below;
  End server_below;
  Hearer client_user;
  Hearer server_user;
  TlsTransport client(all.loop, all.client, client_below, client_user, {});
  TlsTransport server(all.loop, all.server, server_below, server_user, {});
  client.send(kWords);
  server.send(kWords);
  server.start({});
  client.start({});
  Edits edits{.rest = input};
  for (int round = 0; round < 20; ++round) {
    all.loop.flush_staged();
    std::string up = std::exchange(client_below.sent, {});
    std::string down = std::exchange(server_below.sent, {});
    if (up.empty() && down.empty()) break;
    std::string& edited = towards_server ? up : down;
    edited = edits.applied_to(edited);
    if (!server_below.closed && !up.empty()) server_below.user->on_bytes(up);
    if (!client_below.closed && !down.empty()) client_below.user->on_bytes(down);
  }
  demand(kWords.starts_with(server_user.heard) && kWords.starts_with(client_user.heard));
  if (input.size() < 2) demand(server_user.heard == kWords && client_user.heard == kWords);
  finish(client_below);
  finish(server_below);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Contexts& all = *new Contexts;  // Never destroyed: the loop wants everybody gone before it.
  const Bytes input(reinterpret_cast<const char*>(data), size);
  for (const bool direct : {false, true}) {
    speak(all, TlsRole::server, direct, input);
    speak(all, TlsRole::client, direct, input);
  }
  interfere(all, true, input);
  interfere(all, false, input);
  return 0;
}
