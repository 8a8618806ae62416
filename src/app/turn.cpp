// The turn: once after each poll of the loop, in this order: what signals and the console ask for,
// the monitors, ready clients, servers that are free, routes, new connections, captures, time-outs,
// and at last what is gone is freed.
#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

Client& entry(session::ClientSession& session) noexcept {
  return *static_cast<Client*>(session.seat);
}
Server& entry(session::ServerSession& session) noexcept {
  return *static_cast<Server*>(session.seat);
}

/// PgBouncer's word for it, which log watchers know, where no connection came to stand. It does not tell the cause.
std::optional<PoolerError> failed_dial(const io::Transport* transport) noexcept {
  switch (transport ? transport->dial_failure() : io::DialFailure::none) {
    case io::DialFailure::none: return {};
    case io::DialFailure::name: return PoolerError::name_lookup_failed;
    case io::DialFailure::connect: return PoolerError::connect_failed;
  }
  return {};
}

/// What was closed keeps its transport this long, so that the last words go out.
constexpr Duration kGraveTime = std::chrono::seconds(1);

}  // namespace

Time Pooler::Impl::turn() noexcept {
  const Time at = now();
  if (reload_requested_ || pause_requested_ || shutdown_requested_ || world_.busy())
    carry_out_requests();

  Time next = kNever;
  for (const auto& cluster : clusters_) {
    cluster->turn(at);
    if (cluster->take_change()) cluster_changed(*cluster);
  }
  if (!parked_.empty() && !suspended_) route_parked();
  if (!capture_waiters_.empty() && !suspended_) wake_capture_waiters();
  for (int round = 0; round < kRoundsMax && work_left(); ++round) {
    run_ready();
    see_departed();
    if (suspended_) continue;
    go_on_with_answered();
    hand_out_released();
    route_wanting();
    pump_all();
  }
  if (!cancel_requests_.empty()) answer_cancels();
  if (canceller_.under_way() > 0) next = std::min(next, canceller_.turn(at));
  if (peers_.busy()) next = std::min(next, peers_.turn(at));
  for (const auto& cluster : clusters_) next = std::min(next, cluster->capture_if_due(at));
  if (at >= next_deadline_) deadlines();
  if (tcp_closes_at_ != kNever) close_tcp_if_due();
  reap();
  if (world_.busy())
    world_.turn();  // The last server that a pause waits for may have gone just now.
  finish_if_done();
  return work_left() ? at : std::min(next, next_deadline_);
}

void Pooler::Impl::carry_out_requests() {
  if (std::exchange(reload_requested_, false)) (void)reload();
  if (pause_requested_ && !shutting_down_) {
    if (!*pause_requested_) {
      log().log(suspended_ ? "got SIGUSR2, continuing from SUSPEND"
                           : "got SIGUSR2, continuing from PAUSE");
      resume_all();
    } else if (suspended_) {
      log().log("got SIGUSR1, but already paused/suspended");
    } else {
      log().log("got SIGUSR1, pausing all activity");
      paused_ = true;
      for (const auto& [name, database] : databases_) pause(*database);
    }
  } else if (pause_requested_ && !*pause_requested_) {
    log().log("got SIGUSR2 while shutting down, ignoring");
  }
  pause_requested_.reset();
  if (shutdown_requested_) begin_shutdown(*std::exchange(shutdown_requested_, std::nullopt));
  world_.turn();
}

/// Those that are on the list now: who asks again meanwhile comes in the next round.
void Pooler::Impl::run_ready() {
  for (std::size_t left = ready_.size(); left > 0; --left) {
    Client* client = ready_.pop_front();
    if (!client) return;
    client->session.on_turn();
  }
}

void Pooler::Impl::hand_out_released() {
  for (std::size_t left = released_.size(); left > 0; --left) {
    Server* server = released_.pop_front();
    if (!server) return;
    hand_out(*server);
  }
}

void Pooler::Impl::see_departed() {
  while (Server* server = departed_.pop_front()) {
    PoolEntry& pool = server->pool;
    if (!server->ever_idle) login_failed(*server);
    wants_pump(pool);
    const auto found = servers_.find(server->session.id().value);
    ENSURE(found != servers_.end());
    graves_.push_back({now() + kGraveTime, nullptr, std::move(found->second)});
    servers_.erase(found);
  }
}

void Pooler::Impl::route_wanting() {
  for (std::size_t left = wanting_.size(); left > 0; --left) {
    Client* client = wanting_.pop_front();
    if (!client) return;
    dispatch(*client);
  }
}

void Pooler::Impl::pump_all() {
  for (std::size_t left = pump_.size(); left > 0; --left) {
    PoolEntry* pool = pump_.pop_front();
    if (!pool) return;
    pump(*pool);
  }
}

void Pooler::Impl::answer_cancels() {
  for (const auto& [key, asker] : std::exchange(cancel_requests_, {})) {
    Client* const client = client_of(key);
    if (!client) {
      peers_.pass_on(key, asker, now());
    } else if (!carry_cancel(*client, asker)) {
      cancel_answered(asker);
    }
  }
}

/// False when it is done with: nothing of the client's runs on a server now.
bool Pooler::Impl::carry_cancel(Client& client, ClientId asker) {
  if (client.is_console) {
    world_.cancel(client);
    return false;
  }
  const session::ClientState state = client.session.state();
  if (state == session::ClientState::waiting) {
    client.session.cancel_waiting();
    return false;
  }
  session::ServerSession* session = client.session.server();
  // Nothing is running for an idle client, and what its server does next may be another's.
  if (!session || (state != session::ClientState::active && state != session::ClientState::replicating)) return false;
  client.session.cancel_asked();
  return send_cancel(entry(*session), asker);
}

/// False when it can't be sent.
bool Pooler::Impl::send_cancel(Server& server, ClientId asker) {
  const session::ServerSession& session = server.session;
  io::Address to = server.dialled;
  if (to.kind == io::Address::Kind::tcp && session.transport()) to = session.transport()->peer();
  const Duration patience = settings_->cancel_wait_timeout > Duration{}
                                ? settings_->cancel_wait_timeout
                                : std::chrono::hours(1);
  // The machine by its address, whose certificate is still that of the name it was found by.
  const io::DialTls tls{.settings = server.tls, .server_name = server.dialled.host};
  if (!canceller_.send(session.id().value, asker, to, tls,
                       {session.backend_pid(), session.backend_key()}, now() + patience))
    return false;
  ++server.cancels;
  return true;
}

/// Looked for one by one: requests are rare, and a table of keys would be paid for by every client.
Client* Pooler::Impl::client_of(const session::CancelKey& key) noexcept {
  for (Client* client = all_clients_.front(); client;
       client = List<Client, &Client::all_hook>::next(*client)) {
    if (client->session.cancel_key().is_of_same_client(key)) return client;
  }
  return nullptr;
}

/// Its connection may be gone meanwhile.
void Pooler::Impl::cancel_answered(ClientId asker) noexcept {
  const auto found = clients_.find(asker.value);
  if (found != clients_.end() && !found->second->gone) found->second->session.cancel_answered();
}

void Pooler::Impl::cancel_ended(std::uint64_t server_id, ClientId asker, bool timed_out) noexcept {
  cancel_answered(asker);
  const auto found = servers_.find(server_id);
  if (found == servers_.end()) return;
  Server& server = *found->second;
  if (server.cancels > 0) --server.cancels;
  if (server.gone) return;
  if (timed_out) {
    // It may still arrive: nobody else may get this server.
    server.close_needed = true;
    if (server.seat_place() == pool::Place::being_canceled)
      close_server(server, PoolerError::cancel_wait_timeout);
    return;
  }
  if (server.cancels == 0 && server.seat_place() == pool::Place::being_canceled)
    released_.push_back(server);
}

void Pooler::Impl::reap() {
  see_departed();  // They point at pools that may go now.
  while (Client* client = gone_clients_.pop_front()) {
    const auto found = clients_.find(client->session.id().value);
    ENSURE(found != clients_.end());
    graves_.push_back({now() + kGraveTime, std::move(found->second), nullptr});
    clients_.erase(found);
    leave_pool(*client);
  }
  const Time at = now();
  while (!graves_.empty() && graves_.front().until <= at) graves_.pop_front();
  // Each turn looks at them: a wake-up of its own for each one that is due would cost as much as a login.
  if (!graves_.empty()) lower(graves_.back().until);
}

void Pooler::Impl::finish_if_done() {
  if (!shutting_down_ || finished_) return;
  switch (*shutting_down_) {
    case Shutdown::now:
      finished_ = true;
      return;
    case Shutdown::wait_for_servers:
      finished_ = servers_.empty();
      break;
    case Shutdown::wait_for_clients:
      finished_ = client_count_ == 0 && tcp_listeners_.empty() && !somebody_logs_in_over_tcp();
      break;
  }
  if (finished_) log().log("server connections dropped, exiting");
}

// --- notes that sessions leave
// ---------------------------------------------------------------------------------------

void Pooler::Impl::wants_turn(session::ClientSession& session) noexcept {
  Client& client = entry(session);
  if (!client.gone && !List<Client, &Client::ready_hook>::linked(client)) ready_.push_back(client);
}

void Pooler::Impl::wants_server(session::ClientSession& session) noexcept {
  Client& client = entry(session);
  if (client.gone || client.pool != nullptr || List<Client, &Client::parked_hook>::linked(client)) return;
  if (!List<Client, &Client::wanting_hook>::linked(client)) wanting_.push_back(client);
}

const routing::ClusterView* Pooler::Impl::cluster_view(const session::ClientSession& session) const noexcept {
  const PoolEntry* const pool = static_cast<const Client*>(session.seat)->pool_entry;
  return pool && pool->database.cluster ? pool->database.cluster->view().get() : nullptr;
}

void Pooler::Impl::wants_capture(session::ClientSession& session, Time until) noexcept {
  Client& client = entry(session);
  Cluster* const cluster = client.pool_entry ? client.pool_entry->database.cluster : nullptr;
  if (client.gone || !cluster) return;
  client.waits_since_progress = cluster->progress();
  client.waits_until = until;
  if (!List<Client, &Client::capture_hook>::linked(client)) capture_waiters_.push_back(client);
  cluster->want_capture();
  if (until != kNever) lower(until);
}

/// Those whose cluster has got further, or whose time is over, look again; who has to wait on comes back to the list.
void Pooler::Impl::wake_capture_waiters() {
  for (std::size_t left = capture_waiters_.size(); left > 0; --left) {
    Client& client = *capture_waiters_.pop_front();
    Cluster* const cluster = client.pool_entry->database.cluster;
    if (!cluster || client.waits_until <= now() || cluster->progress() != client.waits_since_progress) {
      wants_turn(client.session);
      continue;
    }
    if (client.waits_until != kNever) lower(client.waits_until);
    capture_waiters_.push_back(client);
  }
}

void Pooler::Impl::wants_no_server(session::ClientSession& session) noexcept {
  Client& client = entry(session);
  if (List<Client, &Client::wanting_hook>::linked(client)) wanting_.remove(client);
  if (List<Client, &Client::parked_hook>::linked(client)) parked_.remove(client);
  if (client.pool) client.pool->leave(client);
}

void Pooler::Impl::wants_welcome(session::ClientSession& session) noexcept {
  Client& client = entry(session);
  PoolEntry& pool = *client.pool_entry;
  if (List<Client, &Client::welcome_hook>::linked(client)) return;
  pool.welcoming.push_back(client);
  wants_pump(pool);
}

void Pooler::Impl::client_gone(session::ClientSession& session) noexcept {
  Client& client = entry(session);
  if (client.gone) return;
  client.gone = true;
  wants_no_server(session);
  if (List<Client, &Client::ready_hook>::linked(client)) ready_.remove(client);
  if (List<Client, &Client::capture_hook>::linked(client)) capture_waiters_.remove(client);
  if (List<Client, &Client::login_hook>::linked(client)) logging_in_.remove(client);
  if (List<Client, &Client::welcome_hook>::linked(client))
    client.pool_entry->welcoming.remove(client);
  forget_entrance(client);
  wants_no_own_server(client);
  all_clients_.remove(client);
  gone_clients_.push_back(client);
  if (settings_->log_disconnections) {
    log().log(concat({name_of(client), "closing because: ", session.end_reason(), " (age=",
                      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                         now() - session.connected_at())
                                         .count()),
                      "s)"}));
  }
}

bool Pooler::Impl::offers_tls() const noexcept {
  return parts_.tls && settings_->client_tls_sslmode != config::TlsMode::disable;
}

std::unique_ptr<io::Transport> Pooler::Impl::encrypt(std::unique_ptr<io::Transport> plain,
                                                     io::TransportUser& user, io::TlsStart how,
                                                     Bytes read) {
  return parts_.tls->accept(std::move(plain), user, how, read);
}

void Pooler::Impl::client_named(session::ClientSession& session) noexcept {
  entry(session).note_address();
}

void Pooler::Impl::client_encrypted(session::ClientSession& session) noexcept {
  const io::TlsInfo* tls = session.transport()->tls();
  if (!tls || !settings_->log_connections) return;
  log().log(concat({name_of(entry(session)), "SSL established: ", tls->text(),
                    tls->server_name.empty() ? "" : " sni=", tls->server_name, tls->resumed ? " resumed" : ""}));
}

void Pooler::Impl::cancel(session::ClientSession& asker, const session::CancelKey& key) noexcept {
  cancel_requests_.push_back({key, asker.id()});
}

void Pooler::Impl::server_idle(session::ServerSession& session) noexcept {
  Server& server = entry(session);
  if (List<Server, &Server::unfinished_hook>::linked(server)) unfinished_.remove(server);
  if (!List<Server, &Server::released_hook>::linked(server)) released_.push_back(server);
}

void Pooler::Impl::server_resetting(session::ServerSession& session) noexcept {
  place_to_be_asked(entry(session));
}

/// What it works on is a read that nobody wants any more. Most are done in no time; one that is not is cancelled.
void Pooler::Impl::server_unfinished(session::ServerSession& session) noexcept {
  Server& server = entry(session);
  if (server.gone) return;
  server.unfinished_since = now();
  if (!List<Server, &Server::unfinished_hook>::linked(server)) unfinished_.push_back(server);
  lower(now() + kUnfinishedTime);
}

void Pooler::Impl::server_gone(session::ServerSession& session, const Error& error) noexcept {
  Server& server = entry(session);
  if (server.gone) return;
  server.gone = true;
  server.why_gone = error;
  if (List<Server, &Server::released_hook>::linked(server)) released_.remove(server);
  if (List<Server, &Server::unfinished_hook>::linked(server)) unfinished_.remove(server);
  lookup_lost(server);
  if (server.subpool && server.seat_place() == pool::Place::active) --server.node.outstanding;
  server.pool.seats.closed(server);
  departed_.push_back(server);
  const std::optional<PoolerError> failed = failed_dial(session.transport());
  if (failed) log().warning(concat({name_of(server), error.text()}));
  if (settings_->log_disconnections) {
    log().log(concat({name_of(server), "closing because: ", failed ? text_of(*failed) : error.text(), " (age=",
                      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                         now() - session.connected_at())
                                         .count()),
                      "s)"}));
  }
}

void Pooler::Impl::server_identified(session::ServerSession& session, std::string_view system_id,
                                     std::string_view started_at) noexcept {
  Server& server = entry(session);
  if (Cluster* cluster = server.pool.database.cluster)
    cluster->identified(server.node.id, system_id, started_at);
}

}  // namespace pgweir::app
