// Who runs where: routes for clients that wait, servers for routes.
#include <algorithm>

#include "app/impl.h"
#include "base/fault.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

/// How long a replica is left alone that answered as another instance than the one that is watched; it doubles.
constexpr Duration kStrangerPauseMin = std::chrono::milliseconds(50);
constexpr Duration kStrangerPauseMax = std::chrono::seconds(2);

}  // namespace

std::uint32_t PoolLoad::outstanding(NodeId node) const noexcept {
  if (!pool_) return 0;
  // Of the node's servers in all pools: what loads it is the sum.
  for (const Node* known : pool_->database.nodes) {
    if (known->id == node) return known->outstanding;
  }
  return 0;
}

bool PoolLoad::failing(NodeId node) const noexcept {
  if (!pool_) return false;
  const pool::Subpool* subpool = pool_->seats.find(node);
  return !subpool || subpool->failing(now_);
}

routing::Route Pooler::Impl::route_of(Client& client) {
  PoolEntry& pool = *client.pool_entry;
  const Cluster* cluster = pool.database.cluster;
  if (!cluster || !cluster->view()) return {};
  load_.look_at(&pool, now());
  const routing::Route route = routing::decide(client.session.facts(*cluster->view()),
                                               *cluster->view(), client.session.policy(), load_);
  if (route.wants_capture) pool.database.cluster->want_capture();
  return route;
}

pool::Subpool* Pooler::Impl::primary_of(PoolEntry& pool) const noexcept {
  const DatabaseEntry& database = pool.database;
  if (!database.cluster)
    return database.nodes.empty() ? nullptr : pool.seats.find(database.nodes.front()->id);
  const routing::ClusterSnapshot& view = database.cluster->view();
  return view && view->primary ? pool.seats.find(view->primary) : nullptr;
}

pool::NodeSet Pooler::Impl::nodes_of(PoolEntry& pool, const routing::Route& route,
                                     unsigned& preferred) {
  preferred = 0;
  switch (route.target) {
    case sql::Target::primary: {
      const pool::Subpool* primary = primary_of(pool);
      if (!primary) return 0;
      preferred = primary->index();
      return primary->bit();
    }
    case sql::Target::replica: {
      const std::span<const NodeId> nodes(route.replicas.data(), route.replica_count);
      if (const pool::Subpool* first = nodes.empty() ? nullptr : pool.seats.find(nodes.front()))
        preferred = first->index();
      return pool.seats.set_of(nodes);
    }
  }
  return 0;
}

void Pooler::Impl::count(Client& client, const routing::Route& route) {
  if (client.pool_entry->database.cluster)
    client.pool_entry->database.routes.add(route.target, route.reason);
}

void Pooler::Impl::bind(Client& client, Server& server, const routing::Route& route) {
  ENSURE(server.session.owes_nothing() && server.session.client() == nullptr);
  ENSURE(&server.pool == client.pool_entry);
  place(server, pool::Place::active);
  server.served = true;
  count(client, route);
  if (route.target == sql::Target::replica && settings_->replica_read_timeout > Duration{})
    lower(now() + settings_->replica_read_timeout);
  const Cluster* cluster = client.pool_entry->database.cluster;
  const routing::NodeView* node = route.check.value != 0 && cluster ? cluster->view()->find(server.node.id) : nullptr;
  client.session.bind(server.session, route, node && node->several ? cluster->view()->timeline : 0);
}

void Pooler::Impl::dispatch(Client& client) {
  if (client.gone || client.session.state() != session::ClientState::waiting) return;
  PoolEntry& pool = *client.pool_entry;
  routing::Route route = route_of(client);
  if (route.may_wait && park(client)) return;
  unsigned preferred = 0;
  pool::NodeSet nodes = nodes_of(pool, route, preferred);
  if (serve(client, route, nodes, preferred)) return;
  if (route.target == sql::Target::primary && fails_fast(pool, client)) return;
  if (shutting_down_ == Shutdown::wait_for_servers)
    return client.session.close(error_of(PoolerError::server_shutting_down));
  client.route = route;
  client.told_to_wait = false;
  pool.seats.wait(client, nodes, preferred, now());
  if (settings_->query_wait_notify > Duration{}) lower(now() + settings_->query_wait_notify);
  if (pool.seats.limits.query_wait_timeout > Duration{})
    lower(now() + pool.seats.limits.query_wait_timeout);
  if (pool.seats.limits.reserve_pool_size > 0)
    lower(now() + pool.seats.limits.reserve_pool_timeout);
  wants_pump(pool);
}

/// A read that could soon be a replica's waits for that, up to replica_wait from the moment it came. Not one whose client holds a
/// server: nobody waits while holding one.
bool Pooler::Impl::park(Client& client) {
  Cluster& cluster = *client.pool_entry->database.cluster;
  const Time until = client.session.state_since() + client.pool_entry->context.policy.replica_wait;
  if (until <= now() || client.session.holds_server_for(sql::Target::primary) || client.pool_entry->seats.paused) return false;
  client.parked_at_progress = cluster.progress();
  parked_.push_back(client);
  cluster.want_capture();
  cluster.want_replay();
  lower(until);
  return true;
}

/// Decides anew for reads that wait: their cluster has got further, or their time is over.
void Pooler::Impl::route_parked() {
  for (std::size_t left = parked_.size(); left > 0; --left) {
    Client& client = *parked_.pop_front();
    Cluster* const cluster = client.pool_entry->database.cluster;
    const Time until = client.session.state_since() + client.pool_entry->context.policy.replica_wait;
    if (!cluster || until <= now() || cluster->progress() != client.parked_at_progress || client.pool_entry->seats.paused) {
      wanting_.push_back(client);
      continue;
    }
    cluster->want_replay();
    lower(until);
    parked_.push_back(client);
  }
}

bool Pooler::Impl::serve(Client& client, const routing::Route& route, pool::NodeSet nodes,
                         unsigned preferred) {
  PoolEntry& pool = *client.pool_entry;
  const bool at_home = client.session.holds_server_for(sql::Target::primary);
  if (route.target == sql::Target::primary) {
    if (!at_home) {
      pool::ServerSeat* seat = pool.seats.idle_for(nodes, preferred);
      if (!seat || FAULT("pool.refuse_idle")) return false;
      auto& server = static_cast<Server&>(*seat);
      if (check_first(server)) return false;
      bind(client, server, route);
      return true;
    }
    count(client, route);
    client.session.resume_on_held(route);
    return true;
  }
  bool checking = false;
  // The node that comes first has no server to give now, though nobody has to wait for one: it has one when the next unit comes. A
  // replica that has come back would get none as long as others have enough.
  const auto open_for_the_next = [&] {
    pool::Subpool* wish = preferred < pool.seats.subpools().size() ? pool.seats.subpools()[preferred].get() : nullptr;
    if (wish && !checking && wish->coming() == 0 && pool.seats.may_open(*wish, now(), Duration{})) open(pool, *wish, false);
  };
  for (std::uint32_t i = 0; i < route.replica_count; ++i) {
    const pool::Subpool* subpool = pool.seats.find(route.replicas[i]);
    if (!subpool) continue;
    pool::ServerSeat* seat = pool.seats.idle_for(subpool->bit(), subpool->index());
    while (seat && send_away_stranger(static_cast<Server&>(*seat))) seat = pool.seats.idle_for(subpool->bit(), subpool->index());
    if (!seat || FAULT("pool.refuse_idle")) continue;
    auto& server = static_cast<Server&>(*seat);
    if (check_first(server)) {
      checking = true;
      continue;
    }
    bind(client, server, route);
    if (i > 0) open_for_the_next();
    return true;
  }
  if (!at_home) return false;
  // Nobody waits for a server while holding one (two pools could wait for each other for ever): the
  // read runs at home.
  open_for_the_next();
  routing::Route home;
  home.reason = client.session.pinned() ? routing::Reason::pinned : routing::Reason::no_replica;
  count(client, home);
  client.session.resume_on_held(home);
  return true;
}

/// True when the server has been idle for so long that it is asked first whether it is still there.
bool Pooler::Impl::check_first(Server& server) {
  if (settings_->server_check_query.empty() || now() - server.since < settings_->server_check_delay)
    return false;
  place_to_be_asked(server);
  server.session.check(settings_->server_check_query);
  return true;
}

/// The pooler has a question of its own, which has to be answered in time.
void Pooler::Impl::place_to_be_asked(Server& server) noexcept {
  place(server, pool::Place::testing);
  if (settings_->server_connect_timeout > Duration{}) lower(now() + settings_->server_connect_timeout);
}

/// Why nobody can log in to the primary now, as it was found less than server_login_retry ago.
std::optional<Error> Pooler::Impl::cached_failure(PoolEntry& pool) const {
  const pool::Subpool* primary = primary_of(pool);
  if (!primary || !pool.last_failure || pool.seats.paused || !primary->failing(now()))
    return std::nullopt;
  Error why = error_of(PoolerError::login_has_been_failing, pool.last_failure->text());
  return pool.node_refused ? Error(pool.last_failure->sqlstate(), why.text()) : why;
}

/// A refused login is told to who asks. A connection that failed may be a node that restarts: who is logged in waits for it.
bool Pooler::Impl::fails_fast(PoolEntry& pool, Client& client) {
  if (!pool.node_refused) return false;
  const std::optional<Error> why = cached_failure(pool);
  if (why) client.session.close(*why);
  return why.has_value();
}

void Pooler::Impl::hand_out(Server& server) {
  if (server.gone) return;
  ENSURE(server.session.owes_nothing() && server.session.client() == nullptr);
  if (server.dedicated) return begin_replication(server);
  PoolEntry& pool = server.pool;
  if (!server.ever_idle) {
    if (is_fallen_primary(server)) return;
    if (const std::string_view why = unfit(server); !why.empty()) return server.session.close(Error("08006", std::string(why)));
    logged_in_server(server);
  }
  if (server.cancels > 0) return place(server, pool::Place::being_canceled);
  if (server.close_needed) return close_server(server, PoolerError::database_changed);
  if (server.subpool->retired) return close_server(server, PoolerError::database_changed);
  if (pool.seats.paused) return close_server(server, PoolerError::pause_mode);
  if (pool.seats.outlived(server, now())) return close_server(server, PoolerError::server_lifetime_over);
  if (const std::string_view why = unfit(server); !why.empty()) return close_server(server, why);
  if (send_away_stranger(server)) return;
  if (!pool.replicating.empty() && gives_way(server)) return;
  place(server, pool::Place::idle);
  if (!pool.lookups.empty()) serve_lookups(pool, &server);
  if (server.seat_place() != pool::Place::idle || server.gone) return;
  if (give_to_waiter(server)) return;
  const pool::Limits& limits = pool.seats.limits;
  if (limits.server_idle_timeout > Duration{}) lower(now() + limits.server_idle_timeout);
  lower(pool.seats.outlived_at(server));
}

/// A replica's server that has reached another instance than the monitor asks: what the monitor knows of the replay position is
/// not true of it. Closes it; once the node is known to be several, only reads without a token come here.
bool Pooler::Impl::send_away_stranger(Server& server) noexcept {
  const Cluster* cluster = server.pool.database.cluster;
  if (!cluster || server.subpool->side != pool::Side::replica) return false;
  const routing::NodeView* node = cluster->view()->find(server.node.id);
  if (!node || node->several || node->started_at.empty() || server.session.started_at() == node->started_at) return false;
  // A restarted node is another instance too, until the monitor has asked it again.
  server.subpool->backoff.failed(now(), kStrangerPauseMin, kStrangerPauseMax);
  close_server(server, Error("57P01", "another instance answers at this address"));
  return true;
}

/// A new server of what counts as the primary says that it is a standby: the node was rebuilt, and
/// the monitor has not seen it yet. Writes go on waiting.
bool Pooler::Impl::is_fallen_primary(Server& server) {
  PoolEntry& pool = server.pool;
  if (!pool.database.cluster || server.subpool != primary_of(pool)) return false;
  const auto& reported = server.session.reported();
  const bool standby = std::any_of(reported.begin(), reported.end(), [](const auto& parameter) {
    return parameter.first == "in_hot_standby" && parameter.second == "on";
  });
  if (!standby) return false;
  server.session.close(Error("08006", "the node is a standby now"));
  return true;
}

bool Pooler::Impl::give_to_waiter(Server& server) {
  PoolEntry& pool = server.pool;
  const pool::Subpool& subpool = *server.subpool;
  const Cluster* cluster = pool.database.cluster;
  pool::Waiter* waiter = pool.seats.first_for(subpool);
  while (waiter) {
    auto& client = static_cast<Client&>(*waiter);
    if (client.route.target == sql::Target::replica && cluster && cluster->view() &&
        !routing::still_allowed(server.node.id, client.session.facts(*cluster->view()),
                                *cluster->view(), client.session.policy(), client.route.check)) {
      // It has waited while others wrote: this node may not answer any more.
      client.route = route_of(client);
      unsigned preferred = 0;
      pool::NodeSet nodes = nodes_of(pool, client.route, preferred) & ~subpool.bit();
      if (nodes == 0 && client.route.target == sql::Target::replica) {
        client.route = {};
        client.route.reason = routing::Reason::no_replica;
        nodes = nodes_of(pool, client.route, preferred);
      }
      pool.seats.rewrite(client, nodes, preferred);
      wants_pump(pool);
      // A server that is idle elsewhere would not come back to this client by itself.
      if (pool::ServerSeat* other = idle_in(pool, nodes)) {
        pool.seats.leave(client);
        bind(client, static_cast<Server&>(*other), client.route);
      }
      waiter = pool.seats.first_for(subpool);
      continue;
    }
    pool.seats.leave(client);
    bind(client, server, client.route);
    return true;
  }
  return false;
}

/// Nobody waits beside an idle server that may serve him, however it came to be passed over.
void Pooler::Impl::give_idle(PoolEntry& pool) {
  if (pool.seats.paused) return;
  for (const auto& subpool : pool.seats.subpools()) {
    while (subpool->waiting() > 0) {
      pool::ServerSeat* seat = pool.seats.idle_of(*subpool);
      if (!seat || check_first(static_cast<Server&>(*seat))) break;
      if (!give_to_waiter(static_cast<Server&>(*seat))) break;
    }
  }
}

/// An idle server of any of these nodes, whoever else waits.
pool::ServerSeat* Pooler::Impl::idle_in(PoolEntry& pool, pool::NodeSet nodes) noexcept {
  if (pool.seats.paused) return nullptr;
  for (const auto& subpool : pool.seats.subpools()) {
    if ((nodes & subpool->bit()) == 0) continue;
    pool::ServerSeat* seat = pool.seats.idle_of(*subpool);
    while (seat && send_away_stranger(static_cast<Server&>(*seat))) seat = pool.seats.idle_of(*subpool);
    if (seat && !check_first(static_cast<Server&>(*seat))) return seat;
  }
  return nullptr;
}

void Pooler::Impl::route_waiters_again(PoolEntry& pool) {
  pool::Waiter* waiter = pool.seats.front();
  while (waiter) {
    auto& client = static_cast<Client&>(*waiter);
    waiter = pool::Pool::next(*waiter);
    client.route = route_of(client);
    unsigned preferred = 0;
    const pool::NodeSet nodes = nodes_of(pool, client.route, preferred);
    pool.seats.rewrite(client, nodes, preferred);
    if (pool::ServerSeat* seat = idle_in(pool, nodes)) {
      pool.seats.leave(client);
      bind(client, static_cast<Server&>(*seat), client.route);
    }
  }
  wants_pump(pool);
}

/// Another node is the primary now. The old one may still answer, after a partition: nobody goes on writing there between
/// two transactions. Who keeps a server there loses it, as he would have if the node had gone; who works on one, when his
/// transaction has ended.
void Pooler::Impl::leave_old_primary(PoolEntry& pool, NodeId old) {
  std::vector<Client*> keepers;
  each_server(pool, [&](Server& server) {
    if (server.node.id != old) return;
    server.close_needed = true;
    server.session.abandon();
    session::ClientSession* client = server.session.client();
    const bool keeps = client && client->holds_server_for(sql::Target::primary) && !client->server_in_transaction();
    if (keeps || (client && server.dedicated)) {
      keepers.push_back(static_cast<Client*>(client->seat));
    }
  });
  for (Client* client : keepers) client->session.close(error_of(PoolerError::primary_changed));
  if (const pool::Subpool* subpool = pool.seats.find(old)) {
    while (pool::ServerSeat* seat = subpool->first(pool::Place::idle)) {
      close_server(static_cast<Server&>(*seat), PoolerError::primary_changed);
    }
  }
}

/// The node is the primary now: servers that were opened to a replica would refuse its writes.
void Pooler::Impl::leave_replica_servers(PoolEntry& pool, const pool::Subpool& subpool) {
  each_server(pool, [&](Server& server) {
    if (server.subpool != &subpool || !server.read_only || server.close_needed) return;
    server.close_needed = true;
    if (server.seat_place() == pool::Place::idle) close_server(server, Error("57P01", "the replica has become the primary"));
  });
}

/// A new view: roles may have moved, nodes may have come back, replicas have replayed more.
void Pooler::Impl::cluster_changed(Cluster& cluster) {
  const routing::ClusterSnapshot& view = cluster.view();
  const NodeId succeeded = cluster.take_succeeded();
  for (DatabaseEntry* database : cluster.databases()) {
    for (const auto& pool : database->pools) {
      if (succeeded) leave_old_primary(*pool, succeeded);
      for (const auto& subpool : pool->seats.subpools()) {
        const routing::NodeView* node = view->find(subpool->node());
        if (!node) continue;
        subpool->side = node->id == view->primary ? pool::Side::primary : pool::Side::replica;
        if (cluster.came_back(node->id)) subpool->backoff.clear();
        if (subpool->side == pool::Side::primary) leave_replica_servers(*pool, *subpool);
      }
      if (pool->seats.waiting() > 0) route_waiters_again(*pool);
      if (!pool->welcoming.empty() || !pool->replicating.empty()) wants_pump(*pool);
    }
  }
}

}  // namespace pgweir::app
