// Server connections: opening, what a failed login means for whom, closing.
#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

/// The database's next connection goes where the last one went. There is one primary, so who looks for it stays with it.
bool sticks_to_host(const config::Database& line) noexcept {
  return line.load_balance_hosts == config::LoadBalanceHosts::disable ||
         line.target_session_attrs == config::TargetSessionAttrs::primary ||
         line.target_session_attrs == config::TargetSessionAttrs::read_write;
}

/// What a client sees is the primary, also while only its replicas can be asked.
auto greeting_of(const Server& server) {
  auto greeting = server.session.reported();
  for (auto& [name, value] : greeting) {
    if (name == "in_hot_standby" || (server.read_only && name == "default_transaction_read_only")) value = "off";
  }
  return greeting;
}

/// The first pause after a failed login where other nodes can serve meanwhile; it doubles from
/// there.
constexpr Duration kFirstPause = std::chrono::milliseconds(500);

}  // namespace

bool Pooler::Impl::passes(std::string_view sqlstate) noexcept {
  return sqlstate == "57P03" || sqlstate == "57P01" || sqlstate == "57P02";
}

/// Errors of the connection itself are of class 08, or carry no SQLSTATE.
bool Pooler::Impl::node_said_no(const Error& error) noexcept {
  return !error.sqlstate().empty() && error.sqlstate().substr(0, 2) != "08" &&
         !passes(error.sqlstate());
}

io::Address Pooler::Impl::address_of(const config::HostPort& host) const {
  const auto port = static_cast<std::uint16_t>(host.port);
  if (!host.is_unix()) return {io::Address::Kind::tcp, host.host, port};
  return {io::Address::Kind::unix_socket,
          host.host.empty() ? settings_->unix_socket_dir : host.host, port};
}

/// What is known for a login to the nodes: the line's password, what is stored of the user, what a
/// client proved.
auth::Credentials Pooler::Impl::credentials_for(const PoolEntry& pool) const {
  const config::Database& line = pool.database.line;
  auth::Credentials known;
  if (!line.password.empty() && (pool.forced_user || line.user.empty())) {
    known.password = line.password;
    return known;
  }
  if (const auth::Secret* secret = access_->users.find(pool.context.user))
    known = auth::credentials_of(*secret);
  if (!known.password && pool.gained.password) known.password = pool.gained.password;
  if (!known.md5 && pool.gained.md5) known.md5 = pool.gained.md5;
  if (!known.scram && pool.gained.scram) known.scram = pool.gained.scram;
  return known;
}

session::ServerLoginParams Pooler::Impl::login_params(const PoolEntry& pool) const {
  const config::Database& line = pool.database.line;
  session::ServerLoginParams params;
  params.user = pool.context.user;
  params.database = line.dbname.empty() ? pool.database.name : line.dbname;
  params.credentials = credentials_for(pool);
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) params.parameters.emplace_back(name, value);
  };
  add("client_encoding", line.client_encoding);
  add("DateStyle", line.datestyle);
  add("TimeZone", line.timezone);
  add("application_name", line.application_name);
  params.connect_query = line.connect_query;
  params.identify = pool.database.cluster != nullptr;
  params.cleartext_allowed = settings_->server_cleartext_password;
  return params;
}

/// `for_one`: the client of a replication connection, who alone will have the server.
void Pooler::Impl::open(PoolEntry& pool, pool::Subpool& on, bool from_reserve, Client* for_one) {
  Node* node = nullptr;
  for (Node* known : pool.database.nodes) {
    if (known->id == on.node()) node = known;
  }
  if (!node) return;
  if (from_reserve) log().log("taking connection from reserve_pool");
  const ServerId id{++last_id_};
  session::ServerLoginParams login = for_one ? own_login_params(pool, *for_one) : login_params(pool);
  // A standby refuses writes anyway. Should it be promoted, by mistake or before the monitor has seen it, it goes on refusing what was
  // sent to a replica, and the unit is run again on the primary.
  const bool read_only = pool.database.cluster && on.side == pool::Side::replica;
  if (read_only) login.parameters.emplace_back("default_transaction_read_only", "on");
  auto server =
      std::make_unique<Server>(*this, pool, *node, id, std::move(login), salted_passwords_);
  server->read_only = read_only;
  server->dialled = address_of(node->hosts[node->next_host % node->hosts.size()]);
  if (!sticks_to_host(pool.database.line)) ++node->next_host;
  Server& opened = *server;
  if (for_one) {
    opened.dedicated = true;
    opened.client = for_one;
    for_one->own_server = &opened;
  }
  servers_.emplace(id.value, std::move(server));
  pool.seats.opened(opened, on, now());
  opened.tls = pool.database.tls;
  if (log().wants(LogLevel::debug))
    log().debug(concat({name_of(opened), "connecting to ", opened.dialled.host, ":", std::to_string(opened.dialled.port)}));
  opened.session.attach(parts_.dialer.dial(opened.dialled, opened.session, {.settings = opened.tls}));
  if (pool.seats.limits.server_connect_timeout > Duration{})
    lower(now() + pool.seats.limits.server_connect_timeout);
}

void Pooler::Impl::pump(PoolEntry& pool) {
  if (!pool.lookups.empty()) serve_lookups(pool);
  if (!pool.welcoming.empty()) {
    if (!pool.context.welcome.empty()) {
      while (Client* client = pool.welcoming.pop_front()) {
        client->session.welcome();
        wants_turn(client->session);
      }
    } else if (pool::Subpool* primary = primary_of(pool)) {
      const bool unreachable = !pool.database.cluster && pool.last_failure && !passes(pool.last_failure->sqlstate());
      if (pool.node_refused || unreachable) {
        if (const auto why = cached_failure(pool)) return refuse_welcome(pool, *why);
      }
      if (primary->pooled() == 0 && pool.seats.may_open(*primary, now(), Duration{}))
        open(pool, *primary, false);
      if (primary->pooled() == 0 && make_room(pool, *primary)) open(pool, *primary, false);
      // One that logged in while this node was a replica greets nobody by itself.
      each_server(pool, [&](Server& server) {
        if (server.subpool != primary || server.dedicated || !server.ever_idle || !pool.context.welcome.empty()) return;
        pool.context.welcome = greeting_of(server);
        wants_pump(pool);
      });
      if (primary->pooled() == 0)
        lower(std::max(now() + std::chrono::milliseconds(100), primary->backoff.until()));
    } else if (pool.database.cluster->all_down()) {
      return refuse_welcome(
          pool,
          error_of(PoolerError::login_failed, pool.database.cluster->trouble()));
    }
    if (!pool.welcoming.empty() && without_primary(pool)) open_replica(pool);
  }
  open_own_servers(pool);
  give_idle(pool);
  while (const pool::Opening next = pool.seats.next_to_open(now()))
    open(pool, *next.subpool, next.from_reserve);
  // Full by a limit that is shared: an idle server of another pool can make room.
  if (pool.seats.waiting() == 0 || pool.seats.paused) return;
  for (const auto& subpool : pool.seats.subpools()) {
    if (subpool->waiting() == 0 || subpool->coming() > 0 || !make_room(pool, *subpool)) continue;
    if (const pool::Opening next = pool.seats.next_to_open(now()))
      open(pool, *next.subpool, next.from_reserve);
  }
  lower(pool.seats.next_deadline(now()));
}

/// No primary to ask now: unknown, or it has just refused.
bool Pooler::Impl::without_primary(PoolEntry& pool) {
  if (!pool.database.cluster) return false;
  const pool::Subpool* primary = primary_of(pool);
  return !primary || primary->failing(now());
}

/// A first server of a replica, so that clients can log in and read while there is no primary.
void Pooler::Impl::open_replica(PoolEntry& pool) {
  const routing::ClusterSnapshot& view = pool.database.cluster->view();
  for (const routing::NodeView& node : view->nodes) {
    pool::Subpool* subpool = pool.seats.find(node.id);
    if (!subpool || node.role != routing::Role::replica || subpool->failing(now())) continue;
    if (subpool->open() == 0 && pool.seats.may_open(*subpool, now(), Duration{})) open(pool, *subpool, false);
    if (subpool->open() > 0) return;
  }
}

/// Closes the idle server of another pool that shares a full limit with this sub-pool; false when
/// there is none, or when the pool could not use the room.
bool Pooler::Impl::make_room(PoolEntry& pool, const pool::Subpool& on) {
  const auto& mine = on.tallies();
  if (!pool.seats.needs_room(on, now())) return false;
  for (const auto& [name, database] : databases_) {
    for (const auto& other : database->pools) {
      if (other.get() == &pool) continue;
      const pool::Subpool* theirs = other->seats.find(on.node());
      if (!theirs) continue;
      const auto shared = [](const pool::Tally* a, const pool::Tally* b) {
        return a == b && a && a->full();
      };
      if (!shared(mine.database, theirs->tallies().database) &&
          !shared(mine.user, theirs->tallies().user) &&
          !shared(mine.node, theirs->tallies().node)) {
        continue;
      }
      pool::ServerSeat* idle = theirs->first(pool::Place::idle);
      if (!idle || theirs->waiting() > 0) continue;
      close_server(static_cast<Server&>(*idle), PoolerError::evicted);
      if (!on.crowded()) return true;
    }
  }
  return false;
}

void Pooler::Impl::place(Server& server, pool::Place to) noexcept {
  if (server.seat_place() == pool::Place::active) --server.node.outstanding;
  server.pool.seats.place(server, to, now());
  if (to == pool::Place::active) ++server.node.outstanding;
}

/// Why the server is not what target_session_attrs asks for; empty when it is. Servers before PostgreSQL 14 do not tell.
std::string_view Pooler::Impl::unfit(const Server& server) const noexcept {
  using enum config::TargetSessionAttrs;
  const config::TargetSessionAttrs wanted = server.pool.database.line.target_session_attrs;
  if (wanted == any) return {};
  const auto reports = [&](std::string_view name, std::string_view value) {
    const auto& reported = server.session.reported();
    return std::any_of(reported.begin(), reported.end(), [&](const auto& each) { return each.first == name && each.second == value; });
  };
  const bool in_standby = reports("in_hot_standby", "on");
  if (!in_standby && !reports("in_hot_standby", "off")) return "the server does not tell whether it is a standby";
  const bool refuses_writes = in_standby || reports("default_transaction_read_only", "on");
  const bool tried_all = server.subpool->backoff.failures() >= static_cast<int>(server.node.hosts.size());
  switch (wanted) {
    case any: break;
    case read_write: return refuses_writes ? "the session is read-only" : "";
    case read_only: return refuses_writes ? "" : "the session is not read-only";
    case primary: return in_standby ? "the server is in hot standby mode" : "";
    case standby: return in_standby ? "" : "the server is not in hot standby mode";
    case prefer_standby: return in_standby || server.ever_idle || tried_all ? "" : "the server is not in hot standby mode";
  }
  return {};
}

void Pooler::Impl::logged_in_server(Server& server) {
  PoolEntry& pool = server.pool;
  server.ever_idle = true;
  server.subpool->backoff.clear();
  server.subpool->refused = false;
  pool.last_failure.reset();
  pool.node_refused = false;
  const bool primary = !pool.database.cluster || server.subpool->side == pool::Side::primary;
  if (pool.context.welcome.empty() && (primary || without_primary(pool))) {
    pool.context.welcome = greeting_of(server);
    wants_pump(pool);
  }
  if (!pool.replicating.empty()) wants_pump(pool);  // There are so many logins at a time only.
  log_new_connection(server);
}

void Pooler::Impl::log_new_connection(const Server& server) {
  if (!settings_->log_connections) return;
  const io::Transport* transport = server.session.transport();
  if (const io::TlsInfo* tls = transport ? transport->tls() : nullptr)
    log().log(concat({name_of(server), "SSL established: ", tls->text()}));
  const io::Address local = transport ? transport->local() : io::Address{};
  log().log(concat({name_of(server), "new connection to server",
                    local.host.empty()
                        ? ""
                        : concat({" (from ", local.host, ":", std::to_string(local.port), ")"})}));
}

/// How long the node is left alone.
void Pooler::Impl::note_failed_login(Server& server, pool::Subpool& subpool, bool said_no) {
  PoolEntry& pool = server.pool;
  const Duration retry = settings_->server_login_retry;
  subpool.refused = said_no;
  if (pool.database.cluster) {
    pool.database.cluster->connect_failed(server.node.id);
    lower(now());  // The monitor asks that node in the next turn.
    subpool.backoff.failed(now(), std::min(kFirstPause, retry), retry);
  } else {
    // A database that sticks to one host does so until it fails.
    if (sticks_to_host(pool.database.line)) ++server.node.next_host;
    const int hosts = static_cast<int>(server.node.hosts.size());
    const int failures = subpool.backoff.failures() + 1;
    // Who would rather have a standby takes the first that answers once all have been asked.
    const bool takes_any = failures == hosts && pool.database.line.target_session_attrs == config::TargetSessionAttrs::prefer_standby;
    if (!said_no && (failures % hosts != 0 || takes_any))
      subpool.backoff.failed_without_pause();
    else
      subpool.backoff.failed(now(), retry, retry);
  }
  if (subpool.backoff.blocked(now())) lower(subpool.backoff.until());
}

/// A server never came to its first idle moment.
void Pooler::Impl::login_failed(Server& server) {
  if (server.dedicated) return own_login_failed(server);
  PoolEntry& pool = server.pool;
  const Error why = server.why_gone.value_or(error_of(PoolerError::connect_failed));
  pool::Subpool* subpool = pool.seats.find(server.node.id);
  if (!subpool || server.close_needed) return;
  const bool said_no = node_said_no(why);
  note_failed_login(server, *subpool, said_no);
  if (!pool.lookups.empty() && said_no && !may_be_asked(pool)) {
    log().error(concat({"auth_query: ", why.text()}));
    fail_lookups(pool, Error("08P01", "bouncer config error"));
  }
  const bool concerns_writes = primary_of(pool) == subpool;
  if (!concerns_writes) {
    // Reads that waited for this node may be served elsewhere.
    if (subpool->waiting() > 0) route_waiters_again(pool);
    return;
  }
  pool.last_failure = why;
  pool.node_refused = said_no;
  if (!subpool->failing(now())) return;
  if (said_no) {
    refuse_welcome(pool, why);
    while (pool::Waiter* waiter = pool.seats.first_for(*subpool)) {
      auto& client = static_cast<Client&>(*waiter);
      pool.seats.leave(client);
      if (!fails_fast(pool, client)) client.session.close(why);
    }
  } else if (!passes(why.sqlstate()) &&
             (!pool.database.cluster || pool.database.cluster->all_down())) {
    refuse_welcome(pool, error_of(PoolerError::login_failed, why.text()));
  }
}

/// Clients that wait for the pool's first server get the cause at once.
void Pooler::Impl::refuse_welcome(PoolEntry& pool, const Error& why) {
  while (Client* client = pool.welcoming.pop_front()) client->session.close(why);
}

void Pooler::Impl::close_server(Server& server, const Error& why) {
  if (!server.gone) server.session.close(why);
}

void Pooler::Impl::close_idle(PoolEntry& pool, PoolerError why) {
  for (const auto& subpool : pool.seats.subpools()) {
    while (pool::ServerSeat* seat = subpool->first(pool::Place::idle))
      close_server(static_cast<Server&>(*seat), why);
  }
}

void Pooler::Impl::retire_servers(PoolEntry& pool, PoolerError why) {
  each_server(pool, [&](Server& server) { server.close_needed = true; });
  if (settings_->server_fast_close) lower(now());
  close_idle(pool, why);
}

}  // namespace pgweir::app
