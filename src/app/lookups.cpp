// What servers are asked about users who log in: auth_query, and the roles that HBA rules name.
//
// The question runs as auth_user in auth_dbname, on a server of that pool on which no client has worked yet:
// nothing that anybody has set or left behind can change what it means. The primary is asked while it can be, so that
// a changed password counts at once; a replica when there is no primary now.
#include <algorithm>

#include "admin/console.h"
#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

/// All roles that a user is a member of, as HBA rules count them: superusers are not members of everything.
constexpr std::string_view kRolesQuery =
    "WITH RECURSIVE r(oid) AS (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1"
    " UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN r ON m.member = r.oid)"
    " SELECT a.rolname FROM r JOIN pg_catalog.pg_roles a ON a.oid = r.oid";

Error config_error() { return Error("08P01", "bouncer config error"); }

Server& entry(session::ServerSession& session) noexcept {
  return *static_cast<Server*>(session.seat);
}

}  // namespace

const FoundSecrets::Kept* FoundSecrets::find(const std::string& key, Time now) noexcept {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  if (found->second.until > now) return &found->second;
  by_key_.erase(found);
  return nullptr;
}

void FoundSecrets::keep(const std::string& key, Kept found) {
  if (by_key_.size() >= kSecretsMax) by_key_.erase(by_key_.begin());
  by_key_.insert_or_assign(key, std::move(found));
}

auth::SecretForm FoundForms::usual() const noexcept {
  const auto most = std::max_element(counts_.begin(), counts_.end());
  return *most == 0 ? auth::SecretForm::none : static_cast<auth::SecretForm>(most - counts_.begin());
}

void FoundForms::add(auth::SecretForm form) noexcept {
  if (form == auth::SecretForm::none) return;
  if (++counts_[static_cast<std::size_t>(form)] < kFoundMax) return;
  for (std::uint32_t& count : counts_) count /= 2;
}

/// The name is the server's from now on, and rules are looked for anew.
void Entrance::take(std::string name, auth::Secret of_server) {
  if (name != user) roles.reset();
  user = std::move(name);
  secret = std::move(of_server);
  found = true;
}

/// Automatic databases that nobody has come in to yet, and that are not needed now, go when there are too many.
/// False: all are needed, and there is no place for one more.
bool Pooler::Impl::place_for_unproven() {
  std::vector<DatabaseEntry*> unproven;
  for (const auto& [name, database] : databases_) {
    if (database->automatic && !database->entered) unproven.push_back(database.get());
  }
  if (unproven.size() < kUnprovenMax) return true;
  const bool may_drop = departed_.empty() && gone_clients_.empty();  // They would still point there.
  std::size_t left = unproven.size();
  for (DatabaseEntry* database : unproven) {
    if (has_lookups(*database) || database->clients > 0) continue;
    for (const auto& pool : database->pools) {
      each_server(*pool, [&](Server& server) {
        if (!server.lookup) close_server(server, "evicted");
      });
    }
    if (!may_drop || database->servers() > 0 || !departed_.empty()) continue;
    drop_database(*database);
    --left;
  }
  return left < kUnprovenMax;
}

/// Finds out who can be asked about the client's user. `nobody`: there is no auth_user or no database to
/// ask in, or asking can't work and Entrance::problem says why; `known`: it was remembered.
Pooler::Impl::Asked Pooler::Impl::ask(Client& client, Lookup::What what) {
  Entrance& entrance = *client.entrance;
  static const config::Database kNone{};
  const config::Database* line = client.is_console ? &kNone : nullptr;
  if (const DatabaseEntry* known = client.is_console ? nullptr : find_database(entrance.database)) line = &known->line;
  if (!line) line = settings_->fallback_database();
  if (!line) line = &kNone;
  const std::string asker(config::auth_user(*settings_, *line));
  if (asker.empty()) return Asked::nobody;
  const std::string place(config::auth_dbname(*settings_, *line));
  if (place.empty() && client.is_console) return Asked::nobody;
  if (admin::is_console_database(place)) {
    log().error(concat({"cannot use the reserved \"", place, "\" database as an auth_dbname"}));
    entrance.problem = config_error();
    return Asked::nobody;
  }
  // Who names a database need not have proved anything yet, and each that is made for him opens a server.
  if (place.empty() && !find_database(entrance.database) && settings_->fallback_database() && !place_for_unproven()) {
    log().warning(concat({name_of(client), "refused: ", std::to_string(kUnprovenMax),
                          " databases that nobody has used yet are being asked about users (auth_dbname would ask one)"}));
    entrance.problem = Error("53300", "too many databases that nobody has used yet are being asked about users");
    return Asked::nobody;
  }
  DatabaseEntry* database = database_for(place.empty() ? entrance.database : place);
  if (!database) {
    if (place.empty()) return Asked::nobody;
    log().error(concat({"authentication database \"", place, "\" is not configured"}));
    entrance.problem = config_error();
    return Asked::nobody;
  }
  if (database->disabled) {
    entrance.problem = Error("08P01", concat({"authentication database \"", database->name, "\" is disabled"}));
    return Asked::nobody;
  }
  Lookup& lookup = entrance.lookup;
  lookup.what = what;
  lookup.sql = what == Lookup::What::roles ? std::string(kRolesQuery) : std::string(config::auth_query(*settings_, *line));
  if (what == Lookup::What::secret) {
    static constexpr std::string_view kGap("\0", 1);
    entrance.secret_ttl = config::auth_query_cache_ttl(*settings_, *line);
    entrance.secret_key = concat({database->name, kGap, asker, kGap, lookup.sql, kGap, entrance.user});
    if (entrance.secret_ttl > Duration{}) {
      if (const FoundSecrets::Kept* kept = secrets_.find(entrance.secret_key, now())) {
        entrance.take(kept->name, kept->secret);
        entrance.from_cache = true;
        return Asked::known;
      }
    }
  }
  PoolEntry& pool = pool_for(*database, asker, false);
  lookup.client = &client;
  lookup.pool = &pool;
  lookup.server = nullptr;
  lookup.asked_again = false;
  pool.lookups.push_back(lookup);
  wants_pump(pool);
  return Asked::under_way;
}

/// The node to ask: the primary, and where there is none now, a replica. Null: nobody can be asked now.
pool::Subpool* Pooler::Impl::may_be_asked(PoolEntry& pool) noexcept {
  pool::Subpool* primary = primary_of(pool);
  if (primary && !primary->failing(now())) return primary;
  if (!pool.database.cluster) return nullptr;
  for (const routing::NodeView& node : pool.database.cluster->view()->nodes) {
    pool::Subpool* subpool = pool.seats.find(node.id);
    if (subpool && node.role == routing::Role::replica && !subpool->failing(now())) return subpool;
  }
  return nullptr;
}

/// Gives what waits to servers that are idle, and has one opened where there are too few. `checked` needs no
/// check: it has just come.
void Pooler::Impl::serve_lookups(PoolEntry& pool, const Server* checked) {
  if (pool.seats.paused) return;
  while (Lookup* lookup = pool.lookups.front()) {
    pool::Subpool* on = may_be_asked(pool);
    if (!on) break;
    pool::ServerSeat* seat = on->first(pool::Place::idle);
    while (seat && static_cast<Server*>(seat)->served) seat = pool::Subpool::next(*seat);
    if (!seat) {
      if (on->coming() >= static_cast<int>(pool.lookups.size())) break;
      if (!pool.seats.may_open(*on, now(), Duration{})) {
        // One that has served makes room; closing it comes back here.
        pool::ServerSeat* used = on->coming() == 0 ? on->first(pool::Place::idle) : nullptr;
        if (used) close_server(static_cast<Server&>(*used), "evicted");
        if (!used && !(on->open() == 0 && make_room(pool, *on))) break;
        if (!pool.seats.may_open(*on, now(), Duration{})) break;
      }
      open(pool, *on, false);
      continue;
    }
    auto& server = static_cast<Server&>(*seat);
    if (&server != checked && check_first(server)) continue;
    pool.lookups.remove(*lookup);
    lookup->server = &server;
    server.lookup = lookup;
    place_to_be_asked(server);
    server.session.look_up(lookup->sql, lookup->client->entrance->user);
  }
  if (!pool.lookups.empty()) lower(now() + std::chrono::milliseconds(100));
}

void Pooler::Impl::looked_up(session::ServerSession& session, const Error* problem,
                             session::LookupRows rows) noexcept {
  Server& server = entry(session);
  Lookup* lookup = std::exchange(server.lookup, nullptr);
  if (!lookup) return;  // The client has left.
  lookup->server = nullptr;
  lookup->pool = nullptr;
  Client& client = *lookup->client;
  Entrance& entrance = *client.entrance;
  switch (lookup->what) {
    case Lookup::What::roles: {
      if (problem) {
        log().error(concat({"the roles of a user could not be read: ", problem->text()}));
        entrance.problem = config_error();
        break;
      }
      auth::Roles& roles = entrance.roles.emplace();
      for (auto& row : rows) {
        if (row.size() == 1 && row[0]) roles.insert(std::move(*row[0]));
      }
      roles.insert(entrance.user);
      break;
    }
    case Lookup::What::secret:
      if (problem) {
        log().error(concat({"auth_query failed: ", problem->text()}));
        entrance.problem = config_error();
      } else if (!rows.empty() && rows[0].size() != 2) {
        log().error("auth_query failed: expected 2 columns, a name and a secret");
        entrance.problem = config_error();
      } else if (!rows.empty() && (!rows[0][0] || rows[0][0]->empty())) {
        log().error("auth_query failed: the name of the user is empty");
        entrance.problem = config_error();
      } else if (!rows.empty()) {
        auth::Secret secret;
        if (const std::optional<std::string>& text = rows[0][1]) secret = auth::Secret::parse(*text);
        found_forms_.add(secret.form());
        login_context_.usual_form = usual_form();
        if (entrance.secret_ttl > Duration{} && secret.form() != auth::SecretForm::none)
          secrets_.keep(entrance.secret_key, {*rows[0][0], secret, now() + entrance.secret_ttl});
        if (*rows[0][0] != entrance.user)
          log().log(concat({name_of(client), "auth_query calls ", entrance.user, " ", *rows[0][0]}));
        entrance.take(*rows[0][0], std::move(secret));
      }
      for (auto& row : rows) {
        for (std::optional<std::string>& field : row) {
          if (field) auth::wipe(*field);
        }
      }
      break;
  }
  lookup_done(client);
}

/// The connection is gone: the question is put to another one, once.
void Pooler::Impl::lookup_lost(Server& server) noexcept {
  Lookup* lookup = std::exchange(server.lookup, nullptr);
  if (!lookup) return;
  lookup->server = nullptr;
  if (std::exchange(lookup->asked_again, true) || server.pool.database.removed) {
    lookup->pool = nullptr;
    lookup->client->entrance->problem = Error("08006", "server conn crashed?");
    return lookup_done(*lookup->client);
  }
  server.pool.lookups.push_back(*lookup);
  wants_pump(server.pool);
}

void Pooler::Impl::fail_lookups(PoolEntry& pool, const Error& why) {
  while (Lookup* lookup = pool.lookups.pop_front()) {
    lookup->pool = nullptr;
    lookup->client->entrance->problem = why;
    lookup_done(*lookup->client);
  }
}

void Pooler::Impl::lookup_done(Client& client) {
  if (!client.gone) answered_.add(client);
}

void Entrance::on_checked(const Status& what) noexcept {
  verdict = what;
  answered->add(*client);
}

void Entrance::on_account(std::optional<std::string> name) noexcept {
  account = std::move(name);
  account_known = true;
  answered->add(*client);
}

void Pooler::Impl::go_on_with_answered() {
  for (std::size_t left = answered_.size(); left > 0; --left) {
    Client* client = answered_.take();
    if (!client || client->gone) continue;
    Entrance& entrance = *client->entrance;
    if (entrance.verdict) {
      const Status verdict = *std::exchange(entrance.verdict, std::nullopt);
      entrance.check.reset();
      entrance.judged = verdict.ok();
      session::Admission admission = verdict ? decide(*client) : session::Admission{};
      ENSURE(!admission.pending);  // His method is the one that was judged: nothing is left to be asked.
      client->session.password_judged(verdict, std::move(admission));
      continue;
    }
    session::Admission answer = decide(*client);
    if (!answer.pending) client->session.admitted(std::move(answer));
  }
}

void Pooler::Impl::judge_password(session::ClientSession& session, const std::string& password) {
  Client& client = *static_cast<Client*>(session.seat);
  Entrance& entrance = *client.entrance;
  if (!parts_.passwords) {
    entrance.verdict = Error("this build knows neither PAM nor LDAP");
    return answered_.add(client);
  }
  const auth::HbaRule* rule = entrance.rule;
  const io::Address peer = session.peer();
  auth::PasswordQuestion question{.user = entrance.user,
                                  .password = password,
                                  .client_host = peer.kind == io::Address::Kind::tcp ? peer.host : std::string(),
                                  .ldap = rule ? rule->ldap : entrance.access->ldap,
                                  .pam_service = rule && !rule->pam_service.empty() ? rule->pam_service : "pgbouncer",
                                  .pam_confdir = settings_->auth_pam_confdir};
  entrance.check = parts_.passwords->ask(std::move(question), entrance);
}

/// A secret that was kept may have been changed meanwhile: the next try asks for it anew.
void Pooler::Impl::login_refused(session::ClientSession& session) noexcept {
  const Client& client = *static_cast<Client*>(session.seat);
  if (client.entrance && client.entrance->from_cache) secrets_.forget(client.entrance->secret_key);
}

void Pooler::Impl::forget_entrance(Client& client) noexcept {
  answered_.remove(client);
  if (!client.entrance) return;
  Lookup& lookup = client.entrance->lookup;
  if (lookup.server) {
    lookup.server->lookup = nullptr;
  } else if (lookup.pool) {
    lookup.pool->lookups.remove(lookup);
  }
  client.entrance.reset();
}

bool Pooler::Impl::has_lookups(const DatabaseEntry& database) noexcept {
  return std::any_of(database.pools.begin(), database.pools.end(),
                     [](const auto& pool) { return !pool->lookups.empty(); });
}

}  // namespace pgweir::app
