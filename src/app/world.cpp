// What SHOW shows: rows made of the entries, when somebody asks.
#include "app/world.h"

#include <algorithm>

#include "app/impl.h"
#include "base/text.h"
#include "routing/reason.h"
#include "session/statement_hints.h"
#include "session/table_judgement.h"
#include "sql/names.h"

namespace pgweir::app {
namespace {

std::string client_state(const session::ClientSession& session) {
  switch (session.state()) {
    case session::ClientState::startup:
    case session::ClientState::authenticating:
    case session::ClientState::welcoming:
      return "login";
    case session::ClientState::console:
    case session::ClientState::active:
    case session::ClientState::replicating:
    case session::ClientState::collecting:
      return "active";
    case session::ClientState::idle:
      return session.server() ? "active" : "idle";
    case session::ClientState::waiting:
      return "waiting";
    case session::ClientState::cancelling:
      return "active_cancel_req";
    case session::ClientState::closed:
      return "closed";
  }
  return "";
}

std::string server_state(const Server& server) {
  switch (server.seat_place()) {
    case pool::Place::login:
      return "new";
    case pool::Place::idle:
      return "idle";
    case pool::Place::active:
      return server.session.client() ? "active" : "tested";
    case pool::Place::testing:
      return "tested";
    case pool::Place::being_canceled:
      return "being_canceled";
  }
  return "";
}

void add_ends(admin::SocketRow& row, const io::Transport* transport, const io::Address& peer) {
  if (!transport) return;
  const io::Address local = transport->local();
  row.address = peer.kind == io::Address::Kind::unix_socket ? "unix" : peer.host;
  row.port = peer.port;
  row.local_address = local.kind == io::Address::Kind::unix_socket ? "unix" : local.host;
  row.local_port = local.port;
  if (const io::TlsInfo* tls = transport->tls()) row.tls = tls->text();
}

std::string joined(const std::vector<sql::RelationName>& names) {
  std::string text;
  for (const sql::RelationName& name : names) {
    if (!text.empty()) text += ", ";
    if (!name.schema.empty()) text += name.schema + ".";
    text += name.name;
  }
  return text;
}

std::string joined(bool all, const std::vector<sql::RelationName>& names) {
  return all ? "*" : joined(names);
}

std::string joined(const std::vector<sql::FunctionName>& names) {
  std::string text;
  for (const sql::FunctionName& name : names) {
    if (!text.empty()) text += ", ";
    if (!name.schema.empty()) text += name.schema + ".";
    text += name.name;
  }
  return text;
}

}  // namespace

ConsoleSeat::ConsoleSeat(ConsoleWorld& world, admin::Access access, Client& client)
    : world_(world), client_(client), session_(world, access) {
  world_.opened(*this);
}

ConsoleSeat::~ConsoleSeat() { world_.closed(*this); }

std::shared_ptr<const config::Settings> ConsoleWorld::settings() const { return impl_.settings_; }

std::vector<admin::SocketRow> ConsoleWorld::clients() const {
  std::vector<admin::SocketRow> rows;
  const Time now = impl_.now();
  const WallTime wall = impl_.parts_.clock.wall();
  for (const Client* client = impl_.all_clients_.front(); client;
       client = List<Client, &Client::all_hook>::next(*client)) {
    const session::ClientSession& session = client->session;
    if (session.user().empty()) continue;
    admin::SocketRow row;
    row.type = 'C';
    row.user = session.user();
    row.database = session.database();
    row.replication = to_string(session.replication());
    row.state = client_state(session);
    add_ends(row, session.transport(), session.peer());
    row.connect_time = wall - (now - session.connected_at());
    row.request_time = wall - (now - session.request_at());
    if (session.state() == session::ClientState::waiting) row.wait = now - session.state_since();
    row.id = session.id().value;
    row.link = session.server() ? session.server()->id().value : 0;
    row.application_name = session.application_name();
    row.prepared_statements = static_cast<int>(session.prepared_count());
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<admin::SocketRow> ConsoleWorld::servers() const {
  std::vector<admin::SocketRow> rows;
  const Time now = impl_.now();
  const WallTime wall = impl_.parts_.clock.wall();
  std::vector<const Server*> by_id;
  by_id.reserve(impl_.servers_.size());
  for (const auto& [id, server] : impl_.servers_) {
    if (!server->gone) by_id.push_back(server.get());
  }
  std::sort(by_id.begin(), by_id.end(),
            [](const Server* a, const Server* b) { return a->session.id() < b->session.id(); });
  for (const Server* server : by_id) {
    const session::ServerSession& session = server->session;
    admin::SocketRow row;
    row.type = 'S';
    row.user = server->pool.context.user;
    row.database = server->pool.database.name;
    row.state = server_state(*server);
    add_ends(row, session.transport(), session.transport() ? session.transport()->peer() : io::Address{});
    row.connect_time = wall - (now - session.connected_at());
    row.request_time = wall - (now - session.state_since());
    row.close_needed = server->close_needed;
    row.id = session.id().value;
    row.link = session.client() ? session.client()->id().value : 0;
    row.remote_pid = static_cast<int>(session.backend_pid());
    row.application_name = server->pool.database.line.application_name;
    row.prepared_statements = static_cast<int>(session.prepared_count());
    const session::ClientSession* own = session.client() ? session.client() : server->client ? &server->client->session : nullptr;
    if (server->dedicated && own) {
      row.replication = to_string(own->replication());
      row.application_name = own->application_name();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<admin::PoolRow> ConsoleWorld::pools() const {
  std::vector<admin::PoolRow> rows;
  const Time now = impl_.now();
  for (const auto& [name, database] : impl_.databases_) {
    for (const auto& pool : database->pools) {
      admin::PoolRow row;
      row.database = name;
      row.user = pool->context.user;
      for (const Client* client = pool->clients.front(); client;
           client = List<Client, &Client::pool_hook>::next(*client)) {
        const session::ClientState state = client->session.state();
        if (state == session::ClientState::startup || state == session::ClientState::authenticating)
          continue;
        const bool waits =
            state == session::ClientState::waiting || state == session::ClientState::welcoming;
        ++(waits ? row.cl_waiting : row.cl_active);
        if (state == session::ClientState::waiting)
          row.maxwait = std::max(row.maxwait, now - client->session.state_since());
      }
      Pooler::Impl::each_server(*pool, [&](Server& server) {
        if (server.cancels > 0 && server.seat_place() == pool::Place::active)
          ++row.sv_active_cancel;
        switch (server.seat_place()) {
          case pool::Place::login:
            ++row.sv_login;
            return;
          case pool::Place::idle:
            ++row.sv_idle;
            return;
          case pool::Place::active:
            ++(server.session.client() ? row.sv_active : row.sv_tested);
            return;
          case pool::Place::testing:
            ++row.sv_tested;
            return;
          case pool::Place::being_canceled:
            ++row.sv_being_canceled;
            return;
        }
      });
      row.cl_active_cancel_req = row.sv_active_cancel;
      row.pool_mode = pool->context.mode;
      if (!database->cluster && database->line.hosts.size() > 1)
        row.load_balance_hosts = config::to_string(database->line.load_balance_hosts);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<admin::DatabaseRow> ConsoleWorld::databases() const {
  std::vector<admin::DatabaseRow> rows;
  for (const auto& [name, database] : impl_.databases_) {
    rows.push_back({.database = database->line,
                    .current_connections = database->servers(),
                    .current_client_connections = database->clients,
                    .paused = database->paused,
                    .disabled = database->disabled});
  }
  return rows;
}

std::vector<admin::UserRow> ConsoleWorld::users() const {
  std::map<std::string, admin::UserRow, std::less<>> rows;
  for (const auto& [name, secret] : impl_.access_->users) rows[name].name = name;
  for (const auto& [name, user] : impl_.settings_->users) rows[name].name = name;
  for (const auto& [name, user] : impl_.users_) {
    admin::UserRow& row = rows[name];
    row.name = name;
    row.current_client_connections = user->clients;
    for (const auto& [node, tally] : user->connections) row.current_connections += tally.open;
  }
  std::vector<admin::UserRow> list;
  for (auto& [name, row] : rows) list.push_back(std::move(row));
  return list;
}

std::vector<admin::StatsRow> ConsoleWorld::stats() const {
  std::vector<admin::StatsRow> rows;
  for (const auto& [name, database] : impl_.databases_)
    rows.push_back({name, database->totals(), database->averages.last()});
  return rows;
}

admin::Lists ConsoleWorld::lists() const {
  admin::Lists lists;
  lists.databases = static_cast<int>(impl_.databases_.size());
  lists.users = static_cast<int>(users().size());
  lists.peers = static_cast<int>(impl_.settings_->peers.size());
  lists.peer_pools = static_cast<int>(peer_pools().size());
  for (const auto& [name, database] : impl_.databases_) {
    lists.pools += static_cast<int>(database->pools.size());
    for (const auto& pool : database->pools) {
      for (const auto& subpool : pool->seats.subpools()) {
        lists.free_servers += static_cast<int>(subpool->count(pool::Place::idle));
        lists.used_servers += static_cast<int>(subpool->count(pool::Place::active));
      }
    }
  }
  for (const io::KnownName& name : impl_.parts_.dialer.names()) {
    ++lists.dns_names;
    if (name.pending) ++lists.dns_queries;
  }
  lists.login_clients = static_cast<int>(impl_.logging_in_.size());
  lists.used_clients = static_cast<int>(impl_.all_clients_.size());
  return lists;
}

std::vector<admin::PeerPoolRow> ConsoleWorld::peer_pools() const { return impl_.peers_.rows(); }

std::vector<admin::DnsHostRow> ConsoleWorld::dns_hosts() const {
  std::vector<admin::DnsHostRow> rows;
  for (const io::KnownName& name : impl_.parts_.dialer.names()) {
    admin::DnsHostRow& row = rows.emplace_back();
    row.name = name.host;
    row.ttl_s = std::chrono::duration_cast<std::chrono::seconds>(name.believed_for).count();
    for (const std::string& address : name.addresses) {
      if (!row.addresses.empty()) row.addresses += ',';
      row.addresses += address;
    }
  }
  return rows;
}

admin::State ConsoleWorld::state() const {
  return {.paused = impl_.paused_, .suspended = impl_.suspended_};
}

std::vector<admin::MemoryRow> ConsoleWorld::memory() const {
  const auto row = [](std::string_view name, std::size_t size, std::size_t used) {
    return admin::MemoryRow{std::string(name), static_cast<std::int64_t>(size),
                            static_cast<std::int64_t>(used), 0};
  };
  std::size_t pools = 0;
  for (const auto& [name, database] : impl_.databases_) pools += database->pools.size();
  return {row("client", sizeof(Client), impl_.clients_.size()),
          row("server", sizeof(Server), impl_.servers_.size()),
          row("pool", sizeof(PoolEntry), pools),
          row("database", sizeof(DatabaseEntry), impl_.databases_.size()),
          row("user", sizeof(UserEntry), impl_.users_.size()),
          row("settings_set", sizeof(session::SettingsSet), impl_.interner_.size())};
}

std::vector<admin::NodeRow> ConsoleWorld::nodes() const {
  std::vector<admin::NodeRow> rows;
  for (const auto& [name, database] : impl_.databases_) {
    const routing::ClusterSnapshot view = database->cluster ? database->cluster->view() : nullptr;
    const routing::NodeView* primary = view && view->primary ? view->find(view->primary) : nullptr;
    for (const Node* node : database->nodes) {
      admin::NodeRow row;
      row.database = name;
      row.node = node->name;
      row.role = "unknown";
      row.health = "ok";
      if (const routing::NodeView* seen = view ? view->find(node->id) : nullptr) {
        row.role = routing::to_string(seen->role);
        if (seen->replayed.value != 0) row.lsn = tokens::to_string(seen->replayed);
        if (primary && primary->replayed > seen->replayed && seen->role == routing::Role::replica) {
          row.lag_bytes = static_cast<std::int64_t>(primary->replayed.value - seen->replayed.value);
        }
        row.lag = seen->lag;
        row.lag_p50 = seen->lag_p50;
        row.lag_p99 = seen->lag_p99;
        row.lag_p999 = seen->lag_p999;
        row.timeline = static_cast<int>(seen->timeline);
        row.system_id = seen->system_id;
        row.weight = static_cast<int>(database->weights.of(node->id));
        row.reason = !seen->excluded.empty() ? seen->excluded : seen->last_error;
        if (row.reason.empty() && impl_.said_what_is_not_kept_) row.reason = kNotKept;
        if (seen->role == routing::Role::down)
          row.health = "down";
        else if (!seen->excluded.empty())
          row.health = "excluded";
        else if (seen->several)
          row.health = "several";
        else if (seen->role == routing::Role::unknown)
          row.health = "unknown";
      }
      for (const auto& pool : database->pools) {
        const pool::Subpool* subpool = pool->seats.find(node->id);
        if (!subpool) continue;
        row.sv_active += static_cast<int>(subpool->count(pool::Place::active));
        row.sv_idle += static_cast<int>(subpool->count(pool::Place::idle));
        row.sv_login += static_cast<int>(subpool->count(pool::Place::login));
        if (!subpool->failing(impl_.now()) || row.health != "ok") continue;
        if (!subpool->refused)
          row.health = "failing";
        else if (row.reason.empty())
          row.reason = concat({"refuses the login of user \"", pool->context.user, "\""});
      }
      row.outstanding = static_cast<int>(node->outstanding);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<admin::RoutingRow> ConsoleWorld::routing() const {
  std::vector<admin::RoutingRow> rows;
  for (const auto& [name, database] : impl_.databases_) {
    for (const sql::Target target : {sql::Target::primary, sql::Target::replica}) {
      for (std::size_t i = 0; i < routing::kReasonCount; ++i) {
        const auto reason = static_cast<routing::Reason>(i);
        const std::uint64_t units = database->routes.get(target, reason);
        if (units == 0) continue;
        rows.push_back({name, std::string(sql::to_string(target)),
                        std::string(routing::to_string(reason)), units});
      }
    }
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> ConsoleWorld::facts() const {
  const auto uptime =
      std::chrono::duration_cast<std::chrono::seconds>(impl_.now() - impl_.started_at_).count();
  return {{"version", "pgweir " PGWEIR_VERSION},
          {"uptime_seconds", std::to_string(uptime)},
          {"config_file", impl_.settings_->conffile},
          {"clusters", std::to_string(impl_.clusters_.size())},
          {"token_store", impl_.others_write_too() ? concat({"local: ", kNotKept}) : "local"},
          {"cancel_requests_under_way", std::to_string(impl_.canceller_.under_way())}};
}

/// Where a fresh session's statement would go now, in each database that is split.
std::vector<admin::ExplainRow> ConsoleWorld::explain_route(std::string_view sql) const {
  std::vector<admin::ExplainRow> rows;
  for (const auto& [name, database] : impl_.databases_) {
    if (!database->cluster || !database->classifier || !database->cluster->view()) continue;
    sql::Trace trace;
    const auto meaning = database->classifier->explain(sql, {}, trace);
    const routing::ClusterView& view = *database->cluster->view();
    routing::UnitFacts facts;
    facts.cause = meaning->cause;
    facts.hint = meaning->hint;
    facts.certain = meaning->certain;
    facts.statements = static_cast<std::uint32_t>(meaning->statements.size());
    facts.learned = database->learned.sends_to_primary(meaning->shape, impl_.now(), impl_.settings_->misroute_expiry);
    facts.unknown_tables = !database->catalog && !meaning->reads.empty();
    routing::Policy policy = impl_.policy_of(*database, nullptr);
    if (meaning->hint_named) {
      const session::StatementHints hints = session::judge_hints(sql::read_hints(sql, {}), {});
      if (hints.level) policy.level = impl_.level_kept(*hints.level);
      if (hints.doubtful) facts.hint = sql::Hint::primary;
    }
    const bool all = meaning->reads.all || database->stale();
    const tokens::TableWrites& writes = database->marks->writes;
    std::vector<sql::TableKey> tables = meaning->reads.keys;
    if (database->table_rules) {
      tokens::Ticket arrival = database->captures->last_ticket();
      session::judge_tables(impl_, *database, {meaning->reads.keys, all}, arrival, facts, tables);
    }
    if (policy.level == config::ConsistencyLevel::table) {
      facts.tables = database->captures->need(writes.last_write(tables, all));
    } else if (policy.level == config::ConsistencyLevel::latest) {
      facts.tables = database->captures->need(database->captures->last_ticket());
    } else if (policy.level == config::ConsistencyLevel::window) {
      const Time written = writes.last_write_time(tables, all);
      if (written != Time{}) facts.since_table_write = impl_.now() - written;
    }
    impl_.load_.look_at(database->pools.empty() ? nullptr : database->pools.front().get(),
                        impl_.now());
    const routing::Route route = routing::decide(facts, view, policy, impl_.load_);
    admin::ExplainRow row;
    row.database = name;
    row.target = sql::to_string(route.target);
    const NodeId node = route.target == sql::Target::primary ? view.primary : route.replicas[0];
    if (const routing::NodeView* seen = view.find(node)) row.node = seen->name;
    row.reason = routing::to_string(route.reason);
    row.statement_class = sql::to_string(meaning->kind);
    row.tables_read = joined(meaning->tables_read);
    row.tables_written = joined(meaning->tables_written);
    row.functions = joined(meaning->functions);
    if (meaning->cause != sql::Cause::none) row.because = std::move(trace.because);
    row.read_deep = joined(meaning->reads.all, trace.reads);
    row.written_deep = joined(meaning->writes.all, trace.writes);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Which rules and which window count for a table, for people.
void ConsoleWorld::judge(const DatabaseEntry& database, sql::TableKey table, admin::TableRow& row) const {
  bool by_level = true;
  const auto take_window = [&](const config::TableWindow& window) {
    Duration longest = window.time;
    if (window.measured) {
      longest = {};
      for (const routing::NodeView& node : database.cluster->view()->nodes) longest = std::max(longest, node.lag_p999);
    }
    row.window = std::max(row.window.value_or(Duration{}), longest);
  };
  if (const routing::TableRules* rules = database.table_rules.get(); rules && row.table != "*") {
    const routing::TableRules::Set judges = rules->of(table);
    by_level = (judges & routing::TableRules::kLevelInForce) != 0;
    for (std::size_t i = 0; i < rules->rules().size(); ++i) {
      if ((judges >> (i + 1) & 1U) == 0) continue;
      const config::TableRule& rule = rules->rules()[i];
      row.rule += concat({row.rule.empty() ? "" : ", ", to_string(rule)});
      if (rule.kind == config::TableRule::Kind::window) take_window(rule.window);
    }
  }
  const config::Settings& all = *impl_.settings_;
  if (by_level && database.cluster && config::read_consistency(all, database.line, nullptr) == config::ConsistencyLevel::window)
    take_window(config::table_window(all, database.line));
}

std::vector<admin::TableRow> ConsoleWorld::tables() const {
  constexpr std::size_t kTablesMax = 1000;
  std::vector<admin::TableRow> rows;
  for (const auto& [name, database] : impl_.databases_) {
    if (!database->captures) continue;
    const auto add = [&, &database_name = name, &entry = *database](
                         const tokens::TableWrites::LastWrite& write, std::string table) {
      const tokens::Need need = entry.captures->need(write.ticket);
      admin::TableRow row{.database = database_name, .table = std::move(table), .lsn = {}, .pending = need.pending != 0};
      if (!row.pending) row.lsn = tokens::to_string(need.lsn);
      if (write.at != Time{}) row.age = impl_.now() - write.at;
      judge(entry, write.table, row);
      rows.push_back(std::move(row));
    };
    add(database->marks->writes.floor(), "*");
    const auto writes = database->marks->writes.newest(kTablesMax);
    std::vector<sql::TableKey> keys;
    for (const auto& write : writes) keys.push_back(write.table);
    const std::vector<std::string> names = database->snapshot
                                               ? database->snapshot->names_of(keys)
                                               : std::vector<std::string>(keys.size());
    for (std::size_t i = 0; i < writes.size(); ++i)
      add(writes[i], names[i].empty() ? "(not in the catalog)" : names[i]);
  }
  return rows;
}

/// The newest first.
std::vector<admin::MisrouteRow> ConsoleWorld::misroutes() const {
  std::vector<admin::MisrouteRow> rows;
  const Time now = impl_.now();
  const WallTime wall = impl_.parts_.clock.wall();
  const Duration kept_for = impl_.settings_->misroute_expiry;
  for (const auto& [name, database] : impl_.databases_) {
    const auto& entries = database->learned.entries();
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      admin::MisrouteRow row;
      row.database = name;
      row.statement = entry->text;
      row.count = entry->count;
      row.sqlstate = entry->sqlstate;
      row.first = wall - (now - entry->first);
      row.last = wall - (now - entry->last);
      if (kept_for != Duration::zero()) row.left = std::max(Duration::zero(), entry->last + kept_for - now);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<admin::DependencyRow> ConsoleWorld::dependencies(std::string_view table) const {
  static constexpr std::pair<std::string_view, sql::Uses> kActions[] = {
      {"read", sql::use::kRead},
      {"insert", sql::use::kInsert},
      {"update", sql::use::kUpdate},
      {"delete", sql::use::kDelete},
      {"truncate", sql::use::kTruncate},
      {"truncate cascade", sql::use::kTruncate | sql::use::kTruncateCascade},
      {"refresh", sql::use::kRefresh}};
  const sql::RelationName named = sql::parse_relation_name(table);
  std::vector<admin::DependencyRow> rows;
  for (const auto& [name, database] : impl_.databases_) {
    if (!database->snapshot) continue;
    for (const auto& [action, uses] : kActions) {
      sql::Trace trace;
      sql::Effects effects;
      effects.trace = &trace;
      if (!database->snapshot->relation(named.schema, named.name, uses, effects)) break;
      rows.push_back({name, std::string(action), joined(effects.reads.all, trace.reads),
                      joined(effects.writes.all, trace.writes), std::move(trace.chain)});
    }
  }
  return rows;
}

}  // namespace pgweir::app
