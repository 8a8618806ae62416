// Servers for replication connections: each is opened for one client, on the primary, and ends with it. They count
// against the limits of the pool as others do; an idle one makes room for them.
#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

/// How soon it is looked again whether other pools have made room under a limit that is shared with them.
constexpr Duration kCrowdedLook = std::chrono::milliseconds(100);

Client& entry(session::ClientSession& session) noexcept {
  return *static_cast<Client*>(session.seat);
}

}  // namespace

void Pooler::Impl::wants_own_server(session::ClientSession& session) noexcept {
  Client& client = entry(session);
  PoolEntry& pool = *client.pool_entry;
  pool.replicating.push_back(client);
  if (pool.seats.limits.query_wait_timeout > Duration{})
    lower(now() + pool.seats.limits.query_wait_timeout);
  wants_pump(pool);
}

/// The startup packet of the server is the client's, over what the database's line says.
session::ServerLoginParams Pooler::Impl::own_login_params(const PoolEntry& pool, const Client& client) const {
  session::ServerLoginParams params = login_params(pool);
  const session::SettingsSet& asked = *client.session.settings();
  std::erase_if(params.parameters, [&](const auto& ours) { return asked.find(ours.first) != nullptr; });
  for (const session::SettingsSet::Item& item : asked.items()) params.parameters.emplace_back(item.name, item.value);
  const session::ReplicationLink& link = *client.session.replication_link();
  if (link.options) params.parameters.emplace_back("options", *link.options);
  params.parameters.emplace_back("replication", link.value);
  // Which instance answers matters for reads. A walsender for physical replication knows no SQL.
  params.identify = false;
  if (link.kind == session::Replication::physical) params.connect_query.clear();
  return params;
}

/// Opens a connection for each client that waits for one of its own, the oldest first, as far as the limits allow.
void Pooler::Impl::open_own_servers(PoolEntry& pool) {
  if (pool.replicating.empty() || pool.seats.paused) return;
  pool::Subpool* primary = primary_of(pool);
  if (!primary) {
    if (!pool.database.cluster || !pool.database.cluster->all_down()) return;
    const Error why("08001", concat({"server login failed: ", pool.database.cluster->trouble()}));
    return refuse_replication(pool, why);
  }
  for (Client* client = pool.replicating.front(); client;) {
    Client& each = *client;
    client = List<Client, &Client::replicating_hook>::next(each);
    if (each.own_server) continue;
    const Duration waited = now() - each.session.state_since();
    bool from_reserve = false;
    if (!pool.seats.may_open(*primary, now(), waited, &from_reserve)) {
      const bool room = make_own_room(pool, *primary);
      if (!room || !pool.seats.may_open(*primary, now(), waited, &from_reserve)) {
        if (primary->backoff.blocked(now())) lower(primary->backoff.until());
        if (primary->crowded()) lower(now() + kCrowdedLook);
        const pool::Limits& limits = pool.seats.limits;
        if (limits.reserve_pool_size > 0 && waited < limits.reserve_pool_timeout)
          lower(now() + (limits.reserve_pool_timeout - waited));
        return;
      }
    }
    open(pool, *primary, from_reserve, &each);
  }
}

/// Closes an idle server, of this pool if it has one, else of another that shares the limit.
bool Pooler::Impl::make_own_room(PoolEntry& pool, pool::Subpool& on) {
  if (on.retired || on.backoff.blocked(now())) return false;
  if (!pool.seats.full(on) && !on.crowded()) return false;  // Too many logins under way: they end by themselves.
  if (pool::ServerSeat* idle = on.first(pool::Place::idle)) {
    close_server(static_cast<Server&>(*idle), "evicted");
    return true;
  }
  return make_room(pool, on);
}

/// A server that has come back would be the place of a client that waits for one of its own, for longer than anybody waits for this
/// one: closes it.
bool Pooler::Impl::gives_way(Server& server) {
  PoolEntry& pool = server.pool;
  Client* longest = pool.replicating.front();
  while (longest && longest->own_server) longest = List<Client, &Client::replicating_hook>::next(*longest);
  pool::Subpool& subpool = *server.subpool;
  if (!longest || &subpool != primary_of(pool) || subpool.backoff.blocked(now())) return false;
  if (!pool.seats.full(subpool) && !subpool.crowded()) return false;
  const pool::Waiter* waiter = pool.seats.first_for(subpool);
  if (waiter && waiter->since <= longest->session.state_since()) return false;
  close_server(server, "evicted");
  return true;
}

/// The login for a client of its own is done.
void Pooler::Impl::begin_replication(Server& server) {
  PoolEntry& pool = server.pool;
  if (is_fallen_primary(server)) return;
  if (const std::string_view why = unfit(server); !why.empty()) return server.session.close(Error("08006", std::string(why)));
  server.ever_idle = true;
  server.subpool->backoff.clear();
  log_new_connection(server);
  Client* const client = server.client;
  const bool outdated = server.close_needed || server.subpool->retired || server.subpool != primary_of(pool);
  if (!client || outdated || pool.seats.paused) {
    leave_own_server(server);  // The client, if there is one, gets another.
    close_server(server, !client ? "replication client disconnected" : outdated ? "database configuration changed" : "pause mode");
    return;
  }
  leave_own_server(server);
  pool.replicating.remove(*client);
  place(server, pool::Place::active);
  client->session.replicate(server.session);
  wants_pump(pool);  // Others may have counted this login as one for them.
}

/// Server and client no longer wait for each other.
void Pooler::Impl::leave_own_server(Server& server) noexcept {
  if (Client* client = std::exchange(server.client, nullptr)) client->own_server = nullptr;
}

/// The client is gone, or let go: it waits no more, and a login that is under way for it is of no use.
void Pooler::Impl::wants_no_own_server(Client& client) noexcept {
  if (!List<Client, &Client::replicating_hook>::linked(client)) return;
  client.pool_entry->replicating.remove(client);
  Server* const server = client.own_server;
  if (!server) return;
  leave_own_server(*server);
  server->close_needed = true;  // So that it is not taken for a failed login.
  close_server(*server, "replication client disconnected");
}

/// What a node says against a replication connection (the role may not, no line of its pg_hba.conf, no free walsender) is said of
/// this one alone; that it can't be reached concerns all.
void Pooler::Impl::own_login_failed(Server& server) {
  PoolEntry& pool = server.pool;
  Client* const client = server.client;
  leave_own_server(server);
  const Error why = server.why_gone.value_or(error_of(PoolerError::connect_failed));
  if (node_said_no(why)) {
    if (client) client->session.close(why);
    return;
  }
  pool::Subpool* subpool = pool.seats.find(server.node.id);
  if (!subpool || server.close_needed) return;
  note_failed_login(server, *subpool, false);
  if (!client || !subpool->backoff.blocked(now()) || passes(why.sqlstate())) return;
  if (!pool.database.cluster || pool.database.cluster->all_down())
    client->session.close(Error("08001", concat({"server login failed: ", why.text()})));
}

void Pooler::Impl::refuse_replication(PoolEntry& pool, const Error& why) {
  while (Client* client = pool.replicating.front()) client->session.close(why);
}

/// Clients that have waited for too long; the others' time is noted.
void Pooler::Impl::replication_deadlines(PoolEntry& pool) {
  const Duration patience = pool.seats.limits.query_wait_timeout;
  if (patience > Duration{} && !pool.seats.paused) {
    while (Client* client = pool.replicating.front()) {
      const Time until = client->session.state_since() + patience;
      if (now() < until) {
        lower(until);
        break;
      }
      client->session.close(Error("57P03", "query_wait_timeout"));
    }
  }
  if (!pool.replicating.empty()) wants_pump(pool);
}

}  // namespace pgweir::app
