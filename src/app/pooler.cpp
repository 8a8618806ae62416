#include "app/pooler.h"

#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

std::string text_of(const io::Address& peer, std::int64_t uid) {
  if (peer.kind == io::Address::Kind::unix_socket)
    return concat({"unix(", std::to_string(uid), "):", std::to_string(peer.port)});
  const bool v6 = peer.host.find(':') != std::string::npos;
  return concat({v6 ? "[" : "", peer.host, v6 ? "]:" : ":", std::to_string(peer.port)});
}

}  // namespace

Server::Server(session::Hub& hub, PoolEntry& pool_entry, Node& on, ServerId id,
               session::ServerLoginParams login, auth::SaltedPasswordCache& cache)
    : pool(pool_entry),
      node(on),
      session(hub, pool_entry.context, id, on.id, std::move(login), cache) {
  session.seat = this;
}

Client::Client(session::Hub& hub, ClientId id, std::unique_ptr<io::Door> door)
    : session(hub, id, std::move(door)) {
  session.seat = this;
  note_address();
}

void Client::note_address() {
  if (const io::Transport* transport = session.transport())
    address = text_of(session.peer(), transport->peer_uid());
}

void PoolEntry::apply_snapshot() noexcept {
  context.serializable_by_default = database.snapshot && database.snapshot->serializable(context.user);
  context.read_committed_by_default = database.snapshot && database.snapshot->read_committed(context.user);
}

stats::Counters DatabaseEntry::totals() const noexcept {
  stats::Counters sum = departed;
  for (const auto& pool : pools) sum += pool->context.counters;
  return sum;
}

void DatabaseEntry::resolve_table_rules() {
  table_rules = settings ? routing::TableRules::make(settings->table_rules, name, snapshot.get()) : nullptr;
}

int DatabaseEntry::servers() const noexcept {
  int sum = 0;
  for (const auto& pool : pools) sum += pool->seats.open();
  return sum;
}

Pooler::Impl::Impl(const Parts& parts)
    : parts_(parts),
      secret_(auth::ServerSecret::draw(parts.random)),
      login_context_{.random = parts.random,
                     .server_secret = secret_,
                     .cache = salted_passwords_,
                     .strangers = &strangers_passwords_},
      world_(*this),
      canceller_(parts.dialer, *this),
      peers_(parts.dialer, parts.log, *this) {}

Pooler::Impl::~Impl() {
  tcp_listeners_.clear();
  unix_listeners_.clear();
  // Sessions first, and all lists with them: entries take themselves off before they die.
  std::vector<Client*> left;
  for (Client* client = all_clients_.front(); client;
       client = List<Client, &Client::all_hook>::next(*client))
    left.push_back(client);
  for (Client* client : left) {
    if (!client->gone) client->session.close(error_of(PoolerError::server_shutting_down));
  }
  for (const auto& [name, database] : databases_) {
    for (const auto& pool : database->pools) close_idle(*pool, PoolerError::server_shutting_down);
  }
  std::vector<Server*> open;
  open.reserve(servers_.size());
  for (const auto& [id, server] : servers_) open.push_back(server.get());
  for (Server* server : open) {
    if (!server->gone) server->session.close(error_of(PoolerError::server_shutting_down));
  }
  for (Client* client : left) {
    if (!client->gone) client_gone(client->session);
  }
  see_departed();
  reap();
  while (pump_.pop_front() != nullptr) {
  }
  while (released_.pop_front() != nullptr) {
  }
}

Status Pooler::Impl::start() {
  started_at_ = period_began_ = now();
  next_period_ = started_at_ + settings_->stats_period;
  std::optional<Error> trouble;
  const auto listen = [&](const io::Address& address, auto& listeners) {
    Result<std::unique_ptr<io::Listener>> listener = parts_.network.listen(address, *this);
    if (!listener) {
      log().warning(concat({"cannot listen: ", listener.error().text()}));
      if (!trouble) trouble = listener.error();
      return false;
    }
    log().log(concat({"listening on ", (*listener)->name()}));
    listeners.push_back(std::move(*listener));
    return true;
  };
  for (io::Network::Inherited& passed : parts_.network.inherited(*this)) {
    log().log(concat({"listening on ", passed.listener->name(), " (from the service manager)"}));
    const bool tcp = passed.kind == io::Address::Kind::tcp;
    (tcp ? tcp_listeners_ : unix_listeners_).push_back(std::move(passed.listener));
  }
  if (!tcp_listeners_.empty() || !unix_listeners_.empty()) {
    log().warning("the service manager opened the sockets: listen_addr and unix_socket_dir are "
                  "ignored");
    return {};
  }
  const auto port = static_cast<std::uint16_t>(settings_->listen_port);
  for (const std::string_view host : split(settings_->listen_addr, ',')) {
    if (!host.empty())
      (void)listen({io::Address::Kind::tcp, std::string(host), port}, tcp_listeners_);
  }
  if (!settings_->unix_socket_dir.empty()) {
    // Another pooler that answers there must not be pushed aside unnoticed, so this one is not
    // optional.
    if (!listen({io::Address::Kind::unix_socket, settings_->unix_socket_dir, port},
                unix_listeners_))
      return *trouble;
  }
  if (tcp_listeners_.empty() && unix_listeners_.empty()) {
    return trouble ? Status(*trouble)
                   : Status(Error("nowhere to listen: set listen_addr or unix_socket_dir"));
  }
  return {};
}

void Pooler::Impl::request_shutdown(Shutdown how) noexcept {
  // Who asks twice does not want to wait any longer.
  const bool again = shutting_down_ || shutdown_requested_;
  shutdown_requested_ = again ? Shutdown::now : how;
}

void Pooler::Impl::on_accepted(std::unique_ptr<io::Door> door) noexcept {
  auto client = std::make_unique<Client>(*this, ClientId{++last_id_}, std::move(door));
  all_clients_.push_back(*client);
  logging_in_.push_back(*client);
  lower(now() + settings_->client_login_timeout);
  clients_.emplace(client->session.id().value, std::move(client));
}

Pooler::Pooler(const Parts& parts) : impl_(std::make_unique<Impl>(parts)) {}
Pooler::~Pooler() = default;
Status Pooler::configure(const std::string& path) { return impl_->configure(path); }
Status Pooler::start() { return impl_->start(); }
const config::Settings& Pooler::settings() const noexcept { return impl_->settings(); }
void Pooler::request_reload() noexcept { impl_->request_reload(); }
void Pooler::pause_all() noexcept { impl_->request_pause(true); }
void Pooler::resume_all() noexcept { impl_->request_pause(false); }
void Pooler::request_shutdown(Shutdown how) noexcept { impl_->request_shutdown(how); }
std::string Pooler::take_stats_line() noexcept { return impl_->take_stats_line(); }
bool Pooler::finished() const noexcept { return impl_->finished(); }
Time Pooler::turn() noexcept { return impl_->turn(); }
admin::World& Pooler::world() noexcept { return impl_->world(); }

}  // namespace pgweir::app
