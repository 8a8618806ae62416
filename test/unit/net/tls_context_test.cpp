#include "net/tls_context.h"

#include "base/text.h"
#include "tls_harness.h"

namespace pgweir::net {
namespace {

using io::TlsMode;
using io::TlsSettings;

std::string trouble(const TlsSettings& settings, TlsRole role = TlsRole::server) {
  const Result<std::shared_ptr<TlsContext>> made = TlsContext::make(settings, role);
  return made ? std::string() : made.error().text();
}

TEST_CASE("what is wrong with a file is said with its setting and its path", "[net][tls]") {
  Certificates files;
  TlsSettings good{.mode = TlsMode::require,
                   .cert_file = files.server.cert_file,
                   .key_file = files.server.key_file};
  REQUIRE(trouble(good).empty());

  TlsSettings settings = good;
  settings.cert_file = "/no/such/file";
  CHECK(trouble(settings) ==
        "TLS setup failed: client_tls_cert_file = \"/no/such/file\": No such file or directory");
  settings.cert_file.clear();
  CHECK(trouble(settings) ==
        "TLS setup failed: client_tls_cert_file = \"\": expected the file of the certificate, as "
        "there is to be TLS");
  settings = good;
  settings.key_file.clear();
  CHECK(trouble(settings) ==
        "TLS setup failed: client_tls_key_file = \"\": expected the file of the certificate's "
        "private key");
  settings.key_file = files.ca.key_file;
  CHECK(trouble(settings) ==
        concat({"TLS setup failed: client_tls_key_file = \"", files.ca.key_file,
                "\": the key is not the one of the certificate in ", good.cert_file}));
  settings.key_file = files.write_text("rubbish", "hunter2 is no key\n");
  CHECK(trouble(settings) == concat({"TLS setup failed: client_tls_key_file = \"",
                                     settings.key_file, "\": there is no private key in it"}));
  settings = good;
  settings.cert_file = files.write_text("empty", "");
  CHECK(trouble(settings) == concat({"TLS setup failed: client_tls_cert_file = \"",
                                     settings.cert_file, "\": there is no certificate in it"}));
  settings = good;
  settings.ca_file = settings.cert_file = files.server.cert_file;
  CHECK(trouble(settings).empty());
  settings.ca_file = files.write_text("no-ca", "no PEM at all\n");
  CHECK(trouble(settings) == concat({"TLS setup failed: client_tls_ca_file = \"", settings.ca_file,
                                     "\": there is no certificate in it"}));
  settings.ca_file = files.write_text(
      "broken-ca", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  CHECK(trouble(settings).find("client_tls_ca_file = ") != std::string::npos);
  settings = good;
  settings.mode = TlsMode::verify_ca;
  CHECK(trouble(settings) ==
        "TLS setup failed: client_tls_ca_file = \"\": expected a file with the authorities that "
        "certificates come from");
  CHECK(trouble({.mode = TlsMode::require, .ca_file = "/no/ca"}, TlsRole::client) ==
        "TLS setup failed: server_tls_ca_file = \"/no/ca\": No such file or directory");
}

TEST_CASE("a key behind a passphrase is refused without asking the terminal", "[net][tls]") {
  Certificates files;
  // Of the form that OpenSSL asks a passphrase for.
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::string path = files.write_text("locked.key", "");
  std::FILE* out = std::fopen(path.c_str(), "w");
  unsigned char phrase[] = "secret";
  REQUIRE(PEM_write_PrivateKey(out, key.get(), EVP_aes_128_cbc(), phrase, 6, nullptr, nullptr) ==
          1);
  std::fclose(out);
  CHECK(
      trouble({.mode = TlsMode::require, .cert_file = files.server.cert_file, .key_file = path}) ==
      concat({"TLS setup failed: client_tls_key_file = \"", path,
              "\": the key is locked by a passphrase: expected one without"}));
}

TEST_CASE("lists that OpenSSL doesn't know are refused by name", "[net][tls]") {
  Certificates files;
  const TlsSettings good{.mode = TlsMode::require,
                         .cert_file = files.server.cert_file,
                         .key_file = files.server.key_file};
  const auto with = [&](auto member, std::string value) {
    TlsSettings settings = good;
    settings.*member = std::move(value);
    return trouble(settings);
  };
  for (const char* list : {"secure", "all", "legacy", "tlsv1.2", "tlsv1.2,tlsv1.3",
                           "TLSv1.2:TLSv1.3", "all,!tlsv1.0", "default"})
    CHECK(with(&TlsSettings::protocols, list).empty());
  CHECK(with(&TlsSettings::protocols, "sslv3") ==
        "TLS setup failed: client_tls_protocols = \"sslv3\": expected secure, all, or some of "
        "tlsv1.0, tlsv1.1, "
        "tlsv1.2, tlsv1.3 with commas");
  CHECK(with(&TlsSettings::protocols, "tlsv1.2,!tlsv1.2") ==
        "TLS setup failed: client_tls_protocols = \"tlsv1.2,!tlsv1.2\": expected at least one "
        "version");
  for (const char* list : {"default", "secure", "fast", "normal", "all", "HIGH:!aNULL",
                           "ECDHE-ECDSA-AES128-GCM-SHA256"})
    CHECK(with(&TlsSettings::ciphers, list).empty());
  CHECK(with(&TlsSettings::ciphers, "NO-SUCH-CIPHER") ==
        "TLS setup failed: client_tls_ciphers = \"NO-SUCH-CIPHER\": no cipher match");
  CHECK(with(&TlsSettings::tls13_ciphers, "TLS_AES_128_GCM_SHA256").empty());
  CHECK(with(&TlsSettings::tls13_ciphers, "NO") ==
        "TLS setup failed: client_tls13_ciphers = \"NO\": failed to set the TLSv1.3 cipher suites");
  for (const char* word : {"auto", "none", "legacy"})
    CHECK(with(&TlsSettings::dheparams, word).empty());
  CHECK(with(&TlsSettings::dheparams, "strong") ==
        "TLS setup failed: client_tls_dheparams = \"strong\": expected auto, legacy or none");
  for (const char* word : {"auto", "none", "prime256v1", "X25519:prime256v1", "X25519,secp384r1"})
    CHECK(with(&TlsSettings::ecdhcurve, word).empty());
  CHECK(with(&TlsSettings::ecdhcurve, "round") ==
        "TLS setup failed: client_tls_ecdhcurve = \"round\": expected auto, none, or curves that "
        "OpenSSL knows, as prime256v1");
}

TEST_CASE("a reload that can't read a file leaves everything as it was", "[net][tls]") {
  World world;
  Certificates files;
  const TlsSettings clients{.mode = TlsMode::require,
                            .cert_file = files.server.cert_file,
                            .key_file = files.server.key_file};
  const auto servers = std::make_shared<const TlsSettings>(
      TlsSettings{.mode = TlsMode::verify_ca, .ca_file = files.ca.cert_file});
  REQUIRE(world.tls.use(clients, {servers, servers, nullptr}).ok());
  const std::shared_ptr<TlsContext> before = *world.tls.towards_servers(*servers);

  TlsSettings broken = *servers;
  broken.ca_file = "/no/such/ca";
  CHECK(world.tls.use(clients, {std::make_shared<const TlsSettings>(broken)}).error().text() ==
        "TLS setup failed: server_tls_ca_file = \"/no/such/ca\": No such file or directory");
  CHECK(*world.tls.towards_servers(*servers) == before);

  SECTION("the same files again change nothing") {
    REQUIRE(world.tls.use(clients, {servers}).ok());
    CHECK(*world.tls.towards_servers(*servers) == before);
  }
  SECTION("other contents under the same name do") {
    std::filesystem::copy_file(files.other_ca.cert_file, files.ca.cert_file,
                               std::filesystem::copy_options::overwrite_existing);
    REQUIRE(world.tls.use(clients, {servers}).ok());
    CHECK(*world.tls.towards_servers(*servers) != before);
  }
}

}  // namespace
}  // namespace pgweir::net
