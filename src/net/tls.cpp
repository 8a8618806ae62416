#include "net/tls.h"

#include "net/tls_transport.h"

namespace pgweir::net {
namespace {

const std::shared_ptr<TlsContext>* find(const std::vector<std::shared_ptr<TlsContext>>& contexts,
                                        const io::TlsSettings& settings) {
  for (const auto& context : contexts) {
    if (context->settings() == settings) return &context;
  }
  return nullptr;
}

}  // namespace

Status Tls::use(const io::TlsSettings& clients, const std::vector<io::SharedTlsSettings>& servers) {
  Context for_clients;
  if (clients.mode != io::TlsMode::disable) {
    Result<Context> made = TlsContext::make(clients, TlsRole::server);
    if (!made) return made.error();
    // The same files again: the old tickets stay good.
    for_clients = clients_ && clients_->same_as(**made) ? clients_ : *std::move(made);
  }
  std::vector<Context> for_servers;
  for (const io::SharedTlsSettings& settings : servers) {
    if (!settings || settings->mode == io::TlsMode::disable || find(for_servers, *settings))
      continue;
    Result<Context> made = TlsContext::make(*settings, TlsRole::client);
    if (!made) return made.error();
    const Context* before = find(servers_, *settings);
    for_servers.push_back(before && (*before)->same_as(**made) ? *before : *std::move(made));
  }
  clients_ = std::move(for_clients);
  servers_ = std::move(for_servers);
  return {};
}

std::unique_ptr<io::Transport> Tls::accept(std::unique_ptr<io::Transport> plain,
                                           io::TransportUser& user, io::TlsStart how, Bytes read) {
  ENSURE(clients_ != nullptr);
  TlsTerms terms;
  terms.direct = how == io::TlsStart::direct;
  auto transport =
      std::make_unique<TlsTransport>(loop_, clients_, std::move(plain), user, std::move(terms));
  transport->start(read);
  return transport;
}

Result<std::shared_ptr<TlsContext>> Tls::towards_servers(const io::TlsSettings& settings) {
  if (const Context* known = find(servers_, settings)) return *known;
  Result<Context> made = TlsContext::make(settings, TlsRole::client);
  if (made) servers_.push_back(*made);
  return made;
}

}  // namespace pgweir::net
