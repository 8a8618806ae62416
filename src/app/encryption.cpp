#include "app/encryption.h"

#include <algorithm>
#include <memory>
#include <string>

namespace pgweir::app {
namespace {

io::TlsMode mode_of(config::TlsMode mode) noexcept {
  switch (mode) {
    case config::TlsMode::disable:
      return io::TlsMode::disable;
    case config::TlsMode::allow:
      return io::TlsMode::allow;
    case config::TlsMode::prefer:
      return io::TlsMode::prefer;
    case config::TlsMode::require:
      return io::TlsMode::require;
    case config::TlsMode::verify_ca:
      return io::TlsMode::verify_ca;
    case config::TlsMode::verify_full:
      return io::TlsMode::verify_full;
  }
  return io::TlsMode::verify_full;
}

const std::string& either(const std::string& own, const std::string& global) noexcept {
  return own.empty() ? global : own;
}

}  // namespace

io::TlsSettings tls_towards_clients(const config::Settings& settings) {
  return {.mode = mode_of(settings.client_tls_sslmode),
          .ca_file = settings.client_tls_ca_file,
          .cert_file = settings.client_tls_cert_file,
          .key_file = settings.client_tls_key_file,
          .protocols = settings.client_tls_protocols,
          .ciphers = settings.client_tls_ciphers,
          .tls13_ciphers = settings.client_tls13_ciphers,
          .dheparams = settings.client_tls_dheparams,
          .ecdhcurve = settings.client_tls_ecdhcurve};
}

io::TlsSettings tls_towards_servers(const config::Settings& settings,
                                    const config::Database& database) {
  return {.mode = mode_of(config::server_tls_sslmode(settings, database)),
          .ca_file = either(database.server_tls_ca_file, settings.server_tls_ca_file),
          .cert_file = either(database.server_tls_cert_file, settings.server_tls_cert_file),
          .key_file = either(database.server_tls_key_file, settings.server_tls_key_file),
          .protocols = either(database.server_tls_protocols, settings.server_tls_protocols),
          .ciphers = either(database.server_tls_ciphers, settings.server_tls_ciphers),
          .tls13_ciphers = either(database.server_tls13_ciphers, settings.server_tls13_ciphers),
          .direct = config::server_tls_sslnegotiation(settings, database) ==
                    config::SslNegotiation::direct};
}

std::vector<io::SharedTlsSettings> tls_towards_servers(const config::Settings& settings) {
  std::vector<io::SharedTlsSettings> all;
  for (const auto& [name, database] : settings.databases)
    all.push_back(std::make_shared<const io::TlsSettings>(tls_towards_servers(settings, database)));
  return all;
}

bool same_tls(const config::Settings& a, const config::Settings& b) {
  if (tls_towards_clients(a) != tls_towards_clients(b)) return false;
  const std::vector<io::SharedTlsSettings> of_a = tls_towards_servers(a);
  const std::vector<io::SharedTlsSettings> of_b = tls_towards_servers(b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                    [](const auto& one, const auto& other) { return *one == *other; });
}

}  // namespace pgweir::app
