// What the settings say of encryption, in the words of io.
#pragma once

#include <vector>

#include "config/settings.h"
#include "io/tls.h"

namespace pgweir::app {

io::TlsSettings tls_towards_clients(const config::Settings& settings);
/// The database's own options, and the global ones where it has none.
io::TlsSettings tls_towards_servers(const config::Settings& settings,
                                    const config::Database& database);
/// Of every line.
std::vector<io::SharedTlsSettings> tls_towards_servers(const config::Settings& settings);
bool same_tls(const config::Settings& a, const config::Settings& b);

}  // namespace pgweir::app
