// Databases, pools, users and nodes as the configuration names them, and what a new configuration
// does to them.
#include <algorithm>

#include "app/encryption.h"
#include "app/impl.h"
#include "base/text.h"
#include "sql/classifier.h"

namespace pgweir::app {
namespace {

std::vector<std::string> names_in(const std::string& comma_list) {
  std::vector<std::string> names;
  for (const std::string_view name : split(comma_list, ',')) {
    if (!name.empty()) names.push_back(to_lower(name));
  }
  return names;
}

}  // namespace

// --- the files
// -------------------------------------------------------------------------------------------------------

Status Pooler::Impl::configure(const std::string& path) {
  Result<config::Settings> settings = config::load(parts_.files, path);
  if (!settings) return settings.error();
  Result<Access> access = read_access(parts_.files, *settings);
  if (!access) {
    // As with PgBouncer: without auth_file nobody can log in by it, which is worth a line and not the whole
    // process. Rules that can't be understood are.
    log().error(access.error().text());
    access = read_access(parts_.files, *settings, {});
    if (!access) return access.error();
  }
  if (Status ok = use_tls(*settings); !ok) return ok;
  use_access(std::move(*access));
  adopt(std::make_shared<const config::Settings>(std::move(*settings)));
  return {};
}

void Pooler::Impl::use_access(Access fresh) {
  for (const std::string& warning : fresh.warnings) log().warning(warning);
  access_ = std::make_shared<const Access>(std::move(fresh));
  found_forms_.clear();
  login_context_.usual_form = usual_form();
  secrets_.clear();
}

Status Pooler::Impl::reload() {
  Result<config::Settings> settings = config::load(parts_.files, settings_->conffile);
  if (!settings) {
    log().error(concat({"reload failed, the old configuration stays: ", settings.error().text()}));
    return settings.error();
  }
  Result<Access> access = read_access(parts_.files, *settings);
  if (!access) {
    log().error(concat({"reload failed, the old configuration stays: ", access.error().text()}));
    return access.error();
  }
  // Last, because it takes effect at once.
  if (Status ok = use_tls(*settings); !ok) {
    log().error(concat({"reload failed, the old configuration stays: ", ok.error().text()}));
    return ok;
  }
  for (const std::string& name : config::keep_restart_only(*settings_, *settings)) {
    log().warning(concat({name, " has changed: the new value waits for a restart"}));
  }
  use_access(std::move(*access));
  adopt(std::make_shared<const config::Settings>(std::move(*settings)));
  // Whoever mends a function that wrote behind a read can say so at once.
  for (const auto& [name, database] : databases_) {
    database->learned.clear();
    database->proven_reads.clear();
  }
  log().log("configuration reloaded");
  return {};
}

void Pooler::Impl::adopt(std::shared_ptr<const config::Settings> fresh) {
  settings_ = std::move(fresh);
  login_context_.scram_iterations = static_cast<std::uint32_t>(settings_->scram_iterations);
  for (const auto& [name, node] : nodes_) node->connections.max = settings_->max_node_connections;
  peers_.configure(*settings_);
  apply_databases();
  say_what_is_not_kept();
  for (const auto& cluster : clusters_) cluster->configure(*settings_);
  clients_have_deadlines_ = clients_have_deadlines();
  next_deadline_ = Time{};
  next_client_look_ = Time{};
}

/// Certificates and keys are read here, so that a file that can't be used is found while the old ones
/// still serve.
Status Pooler::Impl::use_tls(const config::Settings& fresh) {
  if (!parts_.tls) return {};
  return parts_.tls->use(tls_towards_clients(fresh), tls_towards_servers(fresh));
}

/// Whether the database's servers are to be encrypted otherwise from now on.
bool Pooler::Impl::take_tls(DatabaseEntry& database) {
  io::TlsSettings wanted = tls_towards_servers(*settings_, database.line);
  if (database.tls && *database.tls == wanted) return false;
  database.tls = std::make_shared<const io::TlsSettings>(std::move(wanted));
  return true;
}

// --- databases
// -------------------------------------------------------------------------------------------------------

DatabaseEntry* Pooler::Impl::find_database(std::string_view name) const noexcept {
  const auto found = databases_.find(name);
  return found == databases_.end() ? nullptr : found->second.get();
}

DatabaseEntry* Pooler::Impl::database_for(std::string_view name) {
  if (DatabaseEntry* known = find_database(name)) return known;
  const config::Database* fallback = settings_->fallback_database();
  if (!fallback || name.empty()) return nullptr;
  log().log(concat({"registered new auto-database: ", name}));
  return &add_database(config::auto_database(*fallback, name), true);
}

DatabaseEntry& Pooler::Impl::add_database(config::Database line, bool automatic) {
  auto entry = std::make_unique<DatabaseEntry>();
  DatabaseEntry& database = *entry;
  database.name = line.name;
  database.line = std::move(line);
  database.automatic = automatic;
  database.paused = paused_;
  database.unused_since = now();
  databases_.emplace(database.name, std::move(entry));
  (void)take_tls(database);
  set_nodes(database);
  use_rules(database);
  weigh_replicas(database);
  return database;
}

/// What the configuration says of the functions and tables of one database.
void Pooler::Impl::use_rules(DatabaseEntry& database) {
  if (!database.cluster) return;
  database.use_rules({names_in(config::replica_functions(*settings_, database.line)),
                      names_in(config::primary_functions(*settings_, database.line))});
  database.settings = settings_;
  database.resolve_table_rules();
}

void Pooler::Impl::apply_databases() {
  std::vector<DatabaseEntry*> gone;
  for (const auto& [name, entry] : databases_) {
    DatabaseEntry& database = *entry;
    const config::Database* line = settings_->find_database(name);
    std::optional<config::Database> from_fallback;
    if (!line && database.automatic && settings_->fallback_database()) {
      line = &from_fallback.emplace(config::auto_database(*settings_->fallback_database(), name));
    }
    if (!line) {
      gone.push_back(&database);
      continue;
    }
    database.automatic = from_fallback.has_value();
    const config::Database before = std::exchange(database.line, *line);
    const bool other_tls = take_tls(database);
    const bool replace = config::needs_new_servers(before, *line) || other_tls;
    if (before.hosts != line->hosts || before.replica_hosts != line->replica_hosts || before.dbname != line->dbname)
      set_nodes(database);
    for (const auto& pool : database.pools) {
      if (replace) {
        retire_servers(*pool, PoolerError::database_changed);
        pool->context.welcome.clear();
      }
    }
  }
  for (DatabaseEntry* database : gone) remove_database(*database);
  for (const auto& [name, line] : settings_->databases) {
    if (name != "*" && !find_database(name)) (void)add_database(line, false);
  }
  for (const auto& [name, database] : databases_) {
    use_rules(*database);
    weigh_replicas(*database);
    for (auto& [node, tally] : database->connections)
      tally.max = config::max_db_connections(*settings_, database->line);
    for (const auto& pool : database->pools) {
      configure_pool(*pool);
      route_waiters_again(*pool);
    }
    // Their login is known without a client, so they are filled before the first one comes.
    if (!database->automatic && fills_itself(*database)) (void)pool_for(*database, database->line.user, true);
  }
  for (const auto& [name, user] : users_) {
    for (auto& [node, tally] : user->connections)
      tally.max = config::max_user_connections(*settings_, settings_->find_user(name));
  }
  std::erase_if(clusters_, [](const auto& cluster) { return cluster->databases().empty(); });
}

void Pooler::Impl::remove_database(DatabaseEntry& database) {
  log().log(concat({"database ", database.name, " removed"}));
  database.removed = true;
  for (const auto& pool : database.pools) {
    fail_lookups(*pool, Error("57P01", "database removed"));
    while (Client* client = pool->clients.front()) {
      pool->clients.remove(*client);
      client->session.close(error_of(PoolerError::database_removed));
    }
    retire_servers(*pool, PoolerError::database_removed);
    each_server(*pool, [&](Server& server) { close_server(server, PoolerError::database_removed); });
  }
  if (database.cluster) database.cluster->forget(database);
  const auto found = databases_.find(database.name);
  removed_databases_.push_back(std::move(found->second));
  databases_.erase(found);
}

// --- nodes and clusters
// ----------------------------------------------------------------------------------------------

Node& Pooler::Impl::node_for(const std::vector<config::HostPort>& hosts) {
  std::string name;
  for (const config::HostPort& host : hosts) name += (name.empty() ? "" : ",") + host.text();
  std::unique_ptr<Node>& node = nodes_[name];
  if (!node) {
    node = std::make_unique<Node>();
    node->id = NodeId{++last_node_};
    node->name = name;
    node->hosts = hosts;
    node->connections.max = settings_->max_node_connections;
  }
  return *node;
}

/// Finds or makes the nodes of the database's line, and the cluster that watches them when there
/// are replicas.
void Pooler::Impl::set_nodes(DatabaseEntry& database) {
  const config::Database& line = database.line;
  Cluster* const before = database.cluster;
  database.nodes.clear();
  if (line.replica_hosts.empty()) {
    database.nodes.push_back(&node_for(line.hosts));
    if (before) before->forget(database);
    database.cluster = nullptr;
    database.captures = nullptr;
    database.classifier.reset();
    database.catalog.reset();
    database.snapshot.reset();
    database.catalog_stale = true;
  } else {
    for (const config::HostPort& host : line.hosts) database.nodes.push_back(&node_for({host}));
    const std::size_t primaries = database.nodes.size();
    for (const config::HostPort& host : line.replica_hosts) {
      Node* node = &node_for({host});
      if (std::find(database.nodes.begin(), database.nodes.end(), node) == database.nodes.end())
        database.nodes.push_back(node);
    }
    Cluster* const after = cluster_for(database, primaries, before);
    if (before && before != after) before->forget(database);
    database.cluster = after;
    const std::string& dbname = line.dbname.empty() ? database.name : line.dbname;
    if (before != after || !database.captures || dbname != database.marks_of) {
      const std::shared_ptr<session::DatabaseMarks> old = std::exchange(database.marks, after->marks_of(dbname));
      // Sessions hold on to the keys of before: those who name one from now on must find the same.
      if (dbname == database.marks_of && database.marks->keys.size() == 0) std::swap(database.marks->keys, old->keys);
      database.marks_of = dbname;
      database.ddl_told = database.marks->ddl_done;
      database.catalog_stale = true;
      after->forget(database);  // What its catalog loader was told is of the old marks.
    }
    after->watch(database);
    database.captures = &after->log();
    if (!database.classifier) {
      database.classifier = std::make_unique<sql::Classifier>(
          parts_.random, static_cast<std::size_t>(std::max(settings_->classify_cache_size, 1)));
      database.catalog_stale = true;
    }
  }
  for (const auto& pool : database.pools) place_nodes(*pool);
}

void Pooler::Impl::weigh_replicas(DatabaseEntry& database) {
  const config::Database& line = database.line;
  database.weights.clear();
  for (std::size_t i = 0; i < line.replica_weights.size(); ++i)
    database.weights.set(node_for({line.replica_hosts[i]}).id, static_cast<std::uint32_t>(line.replica_weights[i]));
}

/// The cluster of these nodes. A database that changes its nodes takes its cluster's log along when
/// nobody else uses it: what its sessions have seen and written stays known.
Cluster* Pooler::Impl::cluster_for(const DatabaseEntry& database, std::size_t primaries,
                                   Cluster* before) {
  for (const auto& cluster : clusters_) {
    if (!cluster->same_nodes(database.nodes, primaries)) continue;
    if (before && before != cluster.get()) cluster->take_over_marks(*before);
    return cluster.get();
  }
  if (before && before->databases().size() == 1) {
    before->use_nodes(database.nodes, primaries);
    return before;
  }
  Cluster& fresh = *clusters_.emplace_back(std::make_unique<Cluster>(parts_, *this, *settings_));
  fresh.use_nodes(database.nodes, primaries);
  if (before) fresh.take_over_marks(*before);
  return &fresh;
}

std::optional<monitor::Login> Pooler::Impl::monitor_login(const Cluster&,
                                                          const DatabaseEntry& database) const {
  const config::Database& line = database.line;
  const auto cleartext = settings_->server_cleartext_password ? monitor::Cleartext::anywhere : monitor::Cleartext::within_machine;
  const std::string dbname = line.dbname.empty() ? database.name : line.dbname;
  if (!settings_->monitor_user.empty())
    return monitor::Login{settings_->monitor_user, settings_->monitor_password, dbname, database.tls, cleartext};
  const auto stored = [&](std::string_view user) {
    const auth::Secret* secret = access_->users.find(user);
    return secret && secret->form() == auth::SecretForm::plain ? secret->text() : std::string();
  };
  if (!line.user.empty()) {
    return monitor::Login{line.user, line.password.empty() ? stored(line.user) : line.password,
                          dbname, database.tls, cleartext};
  }
  if (const std::string_view user = config::auth_user(*settings_, line); !user.empty()) {
    return monitor::Login{std::string(user), stored(user), dbname, database.tls, cleartext};
  }
  // The first client's: by its password when that is known, else by trust.
  for (const auto& pool : database.pools) {
    if (!pool->used) continue;
    const auth::Credentials known = credentials_for(*pool);
    return monitor::Login{pool->context.user, known.password.value_or(std::string()), dbname,
                          database.tls, cleartext};
  }
  return std::nullopt;
}

// --- users and pools
// -------------------------------------------------------------------------------------------------

UserEntry& Pooler::Impl::user_for(std::string_view name) {
  const auto found = users_.find(name);
  if (found != users_.end()) return *found->second;
  auto user = std::make_unique<UserEntry>();
  user->name = name;
  return *users_.emplace(user->name, std::move(user)).first->second;
}

PoolEntry& Pooler::Impl::pool_for(DatabaseEntry& database, const std::string& user, bool forced) {
  for (const auto& pool : database.pools) {
    if (pool->context.user == user && pool->forced_user == forced) return *pool;
  }
  PoolEntry& pool =
      *database.pools.emplace_back(std::make_unique<PoolEntry>(database, user_for(user)));
  pool.context.database = &database;
  pool.context.user = user;
  pool.forced_user = forced;
  configure_pool(pool);
  place_nodes(pool);
  return pool;
}

/// Other processes serve the same clients, and what is written through them is not known here.
bool Pooler::Impl::others_write_too() const noexcept {
  return settings_->so_reuseport || settings_->peer_id > 0 || !settings_->peers.empty();
}

/// A level that rests on having seen all writes can only be kept by asking the primary.
config::ConsistencyLevel Pooler::Impl::level_kept(config::ConsistencyLevel asked) const noexcept {
  using enum config::ConsistencyLevel;
  if (!others_write_too()) return asked;
  switch (asked) {
    case table:
    case session:
    case window:
    case pin:
      return latest;
    case eventual:
    case latest:
    case primary:
      return asked;
  }
  return latest;
}

std::string Pooler::Impl::node_name(NodeId node) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& each) { return each.second->id == node; });
  return found == nodes_.end() ? "?" : found->first;
}

/// Once, not with each reload.
void Pooler::Impl::say_what_is_not_kept() {
  const bool concerned = std::any_of(databases_.begin(), databases_.end(), [&](const auto& each) {
    const auto asked = config::read_consistency(*settings_, each.second->line, nullptr);
    return each.second->cluster && level_kept(asked) != asked;
  });
  if (concerned && !said_what_is_not_kept_)
    log().warning(concat({kNotKept, "; read_consistency = eventual reads on replicas"}));
  said_what_is_not_kept_ = concerned;
}

routing::Policy Pooler::Impl::policy_of(const DatabaseEntry& database, const config::User* user) const {
  const config::Settings& all = *settings_;
  const config::Database& line = database.line;
  routing::Policy policy;
  policy.level = level_kept(config::read_consistency(all, line, user));
  policy.lsn_check = config::lsn_check(all, line);
  policy.max_replica_lag = config::max_replica_lag(all, line);
  if (const std::int64_t bytes = config::max_replica_lag_bytes(all, line); bytes > 0)
    policy.max_replica_lag_bytes = static_cast<std::uint64_t>(bytes);
  policy.replica_wait = config::replica_wait(all, line);
  policy.replica_slow_start = config::replica_slow_start(all, line);
  policy.weights = &database.weights;
  policy.pin_window = config::pin_window(all, line);
  policy.table_window = config::table_window(all, line);
  policy.split = database.cluster != nullptr && config::is_split(all, line, user);
  return policy;
}

void Pooler::Impl::configure_pool(PoolEntry& pool) {
  const config::Settings& all = *settings_;
  const config::Database& line = pool.database.line;
  const config::User* user = all.find_user(pool.context.user);
  session::PoolContext& context = pool.context;
  context.mode = config::pool_mode(all, line, user);
  context.policy = policy_of(pool.database, user);
  pool.apply_snapshot();
  context.on_session_state = all.on_session_state;
  context.read_only_on_replicas = config::read_only_transactions(all, line, user) == config::BlockReads::replica;
  context.transaction_reads_on_replicas = config::transaction_reads(all, line, user) == config::BlockReads::replica;
  context.max_prepared_statements = all.max_prepared_statements;
  pool::Limits& limits = pool.seats.limits;
  limits.pool_size = config::pool_size(all, line, user);
  limits.replica_pool_size = config::replica_pool_size(all, line, user);
  limits.min_pool_size = config::min_pool_size(all, line);
  limits.reserve_pool_size = config::reserve_pool_size(all, line, user);
  limits.reserve_pool_timeout = all.reserve_pool_timeout;
  limits.query_wait_timeout = config::query_wait_timeout(all, line, user);
  limits.server_idle_timeout = all.server_idle_timeout;
  limits.server_lifetime = config::server_lifetime(all, line);
  limits.server_connect_timeout = all.server_connect_timeout;
  limits.server_login_retry = all.server_login_retry;
  limits.round_robin = all.server_round_robin;
  pool.seats.paused = pool.database.paused;
  wants_pump(pool);
}

/// A sub-pool for each node of the database; those of nodes that it no longer has are emptied.
void Pooler::Impl::place_nodes(PoolEntry& pool) {
  DatabaseEntry& database = pool.database;
  for (const auto& subpool : pool.seats.subpools()) {
    const bool stays = std::any_of(database.nodes.begin(), database.nodes.end(),
                                   [&](const Node* node) { return node->id == subpool->node(); });
    if (!stays) subpool->retired = true;
  }
  const routing::ClusterSnapshot view = database.cluster ? database.cluster->view() : nullptr;
  for (std::size_t i = 0; i < database.nodes.size(); ++i) {
    Node& node = *database.nodes[i];
    pool::Tally& of_database = database.connections[node.id];
    pool::Tally& of_user = pool.user.connections[node.id];
    of_database.max = config::max_db_connections(*settings_, database.line);
    of_user.max = config::max_user_connections(*settings_, settings_->find_user(pool.user.name));
    const bool primary = view && view->primary
                             ? view->primary == node.id
                             : i < database.line.hosts.size() || !database.cluster;
    if (!pool.seats.add(node.id, primary ? pool::Side::primary : pool::Side::replica,
                        {&of_database, &of_user, &node.connections})) {
      log().warning(
          concat({"database ", database.name, ": too many nodes, ", node.name, " is not used"}));
    }
  }
  each_server(pool, [](Server& server) {
    if (server.subpool->retired) server.close_needed = true;
  });
  lower(now());
}

void Pooler::Impl::leave_pool(Client& client) {
  if (!client.pool_entry) return;
  PoolEntry& pool = *client.pool_entry;
  DatabaseEntry& database = pool.database;
  if (List<Client, &Client::pool_hook>::linked(client)) pool.clients.remove(client);
  if (client.counted) {
    --client_count_;
    --database.clients;
    --client.user_entry->clients;
    if (database.clients == 0) database.unused_since = now();
  }
  client.pool_entry = nullptr;
  // Made for a client that never came in: it leaves nothing behind.
  const bool stays = pool.used || (pool.forced_user && fills_itself(database));
  if (!stays && pool.clients.empty() && pool.seats.open() == 0 && pool.lookups.empty()) drop_pool(pool);
  if (database.automatic && !database.removed && database.pools.empty()) drop_database(database);
}

/// The pool of a forced user keeps min_pool_size servers, whether there are clients or not.
bool Pooler::Impl::fills_itself(const DatabaseEntry& database) const noexcept {
  return !database.line.user.empty() && config::min_pool_size(*settings_, database.line) > 0;
}

void Pooler::Impl::drop_pool(PoolEntry& pool) {
  DatabaseEntry& database = pool.database;
  if (List<PoolEntry, &PoolEntry::pump_hook>::linked(pool)) pump_.remove(pool);
  database.departed += pool.context.counters;
  std::erase_if(database.pools, [&](const auto& each) { return each.get() == &pool; });
}

void Pooler::Impl::drop_database(DatabaseEntry& database) {
  if (database.cluster) database.cluster->forget(database);
  while (!database.pools.empty()) drop_pool(*database.pools.back());
  databases_.erase(database.name);
  std::erase_if(clusters_, [](const auto& cluster) { return cluster->databases().empty(); });
}

/// Automatic databases that nobody has used for autodb_idle_timeout, and removed ones whose last
/// session is gone.
void Pooler::Impl::drop_unused_databases() {
  if (!departed_.empty() || !gone_clients_.empty()) return;  // They still point there.
  std::vector<DatabaseEntry*> unused;
  for (const auto& [name, database] : databases_) {
    const Duration patience = settings_->autodb_idle_timeout;
    if (database->automatic && database->clients == 0 && database->servers() == 0 &&
        patience > Duration{} && now() - database->unused_since >= patience && !has_lookups(*database)) {
      unused.push_back(database.get());
    }
  }
  for (DatabaseEntry* database : unused) drop_database(*database);
  // Sessions in the graves still point there.
  if (!graves_.empty()) return;
  std::erase_if(removed_databases_, [&](const auto& database) {
    if (database->clients > 0 || database->servers() > 0) return false;
    while (!database->pools.empty()) drop_pool(*database->pools.back());
    return true;
  });
}

}  // namespace pgweir::app
