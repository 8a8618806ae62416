// Who is let in, where, and how he has to prove who he is.
#include "admin/commands.h"
#include "admin/console.h"
#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

std::string hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[value & 15]);
  while ((value >>= 4) != 0);
  return text;
}

Client& entry(session::ClientSession& session) noexcept {
  return *static_cast<Client*>(session.seat);
}

/// What the client is told where no rule fits.
std::string no_rule_text(const session::ClientSession& session, const auth::HbaQuestion& asked) {
  if (!asked.physical_replication) return std::string(text_of(PoolerError::no_method));
  const std::string host = asked.address ? session.peer().host : "[local]";
  return error_of(PoolerError::no_replication_rule,
                  concat({"\"", host, "\", user \"", asked.user, "\", ", asked.encrypted ? "SSL encryption" : "no encryption"}))
      .text();
}

}  // namespace

/// "C-0x1f: shop/web@10.1.2.3:4711 ": what stands before a log line about a client.
std::string Pooler::Impl::name_of(const Client& client) const {
  const std::string& database = client.session.database();
  const std::string& user = client.session.user();
  return concat({"C-0x", hex(client.session.id().value), ": ",
                 database.empty() ? "(nodb)" : database, "/", user.empty() ? "(nouser)" : user, "@",
                 client.address, " "});
}

std::string Pooler::Impl::name_of(const Server& server) const {
  const io::Address& to = server.dialled;
  const bool v6 = to.host.find(':') != std::string::npos;
  return concat({"S-0x", hex(server.session.id().value), ": ", server.pool.database.name, "/",
                 server.pool.context.user, "@", v6 ? "[" : "",
                 to.kind == io::Address::Kind::tcp ? to.host : "unix", v6 ? "]:" : ":",
                 std::to_string(to.port), " "});
}

std::string Pooler::Impl::log_name(const session::ClientSession& session) const {
  return name_of(*static_cast<const Client*>(session.seat));
}

std::string Pooler::Impl::log_name(const session::ServerSession& session) const {
  return name_of(*static_cast<const Server*>(session.seat));
}

session::Admission Pooler::Impl::admit(session::ClientSession& session, std::string_view database,
                                       std::string_view user, std::int64_t local_uid) {
  Client& client = entry(session);
  const session::Replication replication = session.replication();
  const io::TlsInfo* tls = session.transport()->tls();
  if (settings_->log_connections) {
    log().log(concat({name_of(client), "login attempt: db=", database, " user=", user,
                      " tls=", tls ? tls->text() : "no",
                      " replication=", replication == session::Replication::none ? "no" : to_string(replication),
                      session.proxied() ? " proxy=" : "", session.proxied() ? session.transport()->peer().host : ""}));
  }
  client.is_console = admin::is_console_database(database);
  client.entrance = std::make_unique<Entrance>();
  Entrance& entrance = *client.entrance;
  entrance.client = &client;
  entrance.answered = &answered_;
  entrance.database = database;
  entrance.user = user;
  entrance.local_uid = local_uid;
  entrance.access = access_;
  entrance.auth_type = settings_->auth_type;
  if (client.is_console && replication != session::Replication::none)
    entrance.problem = Error("0A000", "the console has nothing to replicate");
  return decide(client);
}

/// How the client is to prove who he is, as far as what is known of him tells. Comes back when a server has
/// answered what had to be asked.
session::Admission Pooler::Impl::decide(Client& client) {
  Entrance& entrance = *client.entrance;
  session::Admission answer;
  answer.console = client.is_console;
  const auto pending = [&] {
    answer.pending = true;
    return std::move(answer);
  };
  // The operator on this machine, as the account that the process runs under, needs no password.
  if (!entrance.problem && client.is_console && entrance.user == "pgbouncer" && entrance.local_uid >= 0 &&
      entrance.local_uid == parts_.own_uid) {
    answer.user_known = true;
    answer.method = auth::Method::any;
    return answer;
  }
  if (!entrance.problem && !choose_method(client, answer)) return pending();
  if (!entrance.problem && !find_secret(client, answer)) return pending();
  if (!entrance.problem && answer.method == auth::Method::peer && !find_account(entrance)) return pending();
  if (entrance.found) answer.user = entrance.user;
  if (entrance.problem) {
    answer.method = auth::Method::any;
    answer.refusal = *entrance.problem;
    return answer;
  }
  check_identity(client, answer);
  return let_in(client, std::move(answer));
}

/// By auth_type, or by the rule that fits. False: which one fits has to be asked first.
bool Pooler::Impl::choose_method(Client& client, session::Admission& answer) {
  Entrance& entrance = *client.entrance;
  switch (entrance.auth_type) {
    case config::AuthType::any: answer.method = auth::Method::any; return true;
    case config::AuthType::trust: answer.method = auth::Method::trust; return true;
    case config::AuthType::plain: answer.method = auth::Method::plain; return true;
    case config::AuthType::md5: answer.method = auth::Method::md5; return true;
    case config::AuthType::scram_sha_256: answer.method = auth::Method::scram_sha_256; return true;
    case config::AuthType::cert: answer.method = auth::Method::cert; return true;
    case config::AuthType::peer: answer.method = auth::Method::peer; return true;
    case config::AuthType::pam: answer.method = auth::Method::pam; return true;
    case config::AuthType::ldap: answer.method = auth::Method::ldap; return true;
    case config::AuthType::hba: break;
  }
  const io::Transport& transport = *client.session.transport();
  const io::Address peer = client.session.peer();
  // The console has two names; rules know it by PgBouncer's.
  auth::HbaQuestion question{.database = client.is_console ? std::string_view("pgbouncer") : entrance.database,
                             .user = entrance.user,
                             .physical_replication = client.session.replication() == session::Replication::physical,
                             .encrypted = transport.tls() != nullptr,
                             .address = std::nullopt,
                             .roles = entrance.roles ? &*entrance.roles : nullptr};
  if (peer.kind == io::Address::Kind::tcp) {
    question.address = parse_ip(peer.host);
    if (!question.address) {  // Nobody's; a rule for Unix sockets must not fit it.
      answer.method = auth::Method::reject;
      return true;
    }
  }
  if (!entrance.roles && entrance.access->rules.needs_roles(question)) {
    if (ask(client, Lookup::What::roles) == Asked::under_way) return false;
    if (entrance.problem) return true;
    // The rule that is passed over may be the one that keeps him out, or asks him for more than the next one.
    log().warning(concat({name_of(client), "nobody can be asked for the roles of ", entrance.user,
                          " (auth_user, auth_dbname), and a rule for +role may fit: refused"}));
    answer.method = auth::Method::reject;
    answer.stranger_text = no_rule_text(client.session, question);
    return true;
  }
  entrance.rule = entrance.access->rules.find(question);
  answer.method = entrance.rule ? entrance.rule->method : auth::Method::reject;
  if (!entrance.rule) answer.stranger_text = no_rule_text(client.session, question);
  return true;
}

/// From auth_file, else from a server. False: it has to be asked first.
bool Pooler::Impl::find_secret(Client& client, session::Admission& answer) {
  Entrance& entrance = *client.entrance;
  switch (answer.method) {
    case auth::Method::any:
    case auth::Method::pam:
    case auth::Method::ldap:
      answer.user_known = true;
      break;
    case auth::Method::reject: return true;
    case auth::Method::trust:
    case auth::Method::plain:
    case auth::Method::md5:
    case auth::Method::scram_sha_256:
    case auth::Method::cert:
    case auth::Method::peer: break;
  }
  // What a server has said of him counts: the name may be one that it gave.
  if (const auth::Secret* secret = entrance.found ? &entrance.secret : entrance.access->users.find(entrance.user)) {
    answer.user_known = true;
    answer.secret = *secret;
    return true;
  }
  if (answer.user_known) return true;
  if (!std::exchange(entrance.asked_for_secret, true)) {
    switch (ask(client, Lookup::What::secret)) {
      case Asked::under_way: return false;
      case Asked::known: return choose_method(client, answer) && find_secret(client, answer);
      case Asked::nobody: break;
    }
  }
  return true;
}

/// Who is at the other end of a Unix socket. False: the system is being asked.
bool Pooler::Impl::find_account(Entrance& entrance) {
  if (entrance.account_known || entrance.local_uid < 0 || !parts_.passwords) return true;
  entrance.check = parts_.passwords->account_of(entrance.local_uid, entrance);
  return false;
}

/// What the connection itself proves: the certificate it was opened with, the account at its other end.
void Pooler::Impl::check_identity(Client& client, session::Admission& answer) {
  const Entrance& entrance = *client.entrance;
  const auth::HbaRule* rule = entrance.rule;
  const io::TlsInfo* tls = client.session.transport()->tls();
  const bool certified = tls && tls->peer_has_certificate && tls->peer_verified;
  const auto is_user = [&](const std::string& name) {
    if (!rule || rule->map.empty()) return !name.empty() && name == entrance.user;
    if (entrance.access->maps.allows(rule->map, name, entrance.user)) return true;
    log().warning(concat({name_of(client), "ident map: ", rule->map, " does not have a match"}));
    return false;
  };
  const auto refuse = [&](std::string_view text) {
    answer.method = auth::Method::reject;
    answer.stranger_text = text;
  };
  if (rule && rule->client_cert != auth::HbaRule::ClientCert::none) {
    const bool named = rule->client_cert == auth::HbaRule::ClientCert::verify_ca ||
                       (tls && tls->peer_common_name == entrance.user);
    if (!certified || !named) return refuse("certificate authentication failed");
  }
  if (answer.method == auth::Method::cert) {
    if (!certified || !is_user(rule && rule->by_dn ? tls->peer_dn : tls->peer_common_name))
      refuse("certificate authentication failed");
  } else if (answer.method == auth::Method::peer) {
    if (!entrance.account || !is_user(*entrance.account)) refuse("unix socket login rejected");
  }
}

/// The checks that need no secret, and the place in a pool. What they say is told after the exchange.
session::Admission Pooler::Impl::let_in(Client& client, session::Admission answer) {
  const Entrance& entrance = *client.entrance;
  if (client.is_console) return console_admission(client, std::move(answer));
  const auto refuse = [&](PoolerError why, std::string_view name = {}) {
    answer.refusal = error_of(why, name);
    return answer;
  };
  if (shutting_down_ && !may_still_come_in(client))
    return refuse(PoolerError::pooler_shutting_down);
  // A stranger gets his refusal for the wrong password, and no pool or database is made for him.
  if (!answer.user_known) log().log(concat({name_of(client), "no such user: ", entrance.user}));
  if (!answer.user_known || answer.method == auth::Method::reject)
    return refuse(PoolerError::wrong_password);
  const bool judged_outside = answer.method == auth::Method::pam || answer.method == auth::Method::ldap;
  if (judged_outside && !entrance.judged) return answer;
  DatabaseEntry* found = database_for(entrance.database);
  if (!found) return refuse(PoolerError::no_such_database, entrance.database);
  if (found->disabled) return refuse(PoolerError::database_disabled, entrance.database);
  const bool forced = !found->line.user.empty();
  // Who says any name would be logged in to the servers with what is stored of its owner.
  if (!forced && answer.method == auth::Method::any) {
    log().error(concat({name_of(client), "auth_type = any needs user= on the line of database ", entrance.database}));
    return refuse(PoolerError::bad_configuration);
  }
  UserEntry& known = user_for(entrance.user);
  if (const auto full = too_many_clients(*found, known)) return refuse(*full);
  PoolEntry& pool = pool_for(*found, forced ? found->line.user : entrance.user, forced);
  client.pool_entry = &pool;
  client.user_entry = &known;
  client.counted = true;
  ++client_count_;
  ++found->clients;
  ++known.clients;
  pool.clients.push_back(client);
  answer.pool = &pool.context;
  return answer;
}

/// Who had connected before the port was given up gets what he came for: he may not find another
/// process by trying again.
bool Pooler::Impl::may_still_come_in(const Client& client) const noexcept {
  const io::Transport* transport = client.session.transport();
  return shutting_down_ == Shutdown::wait_for_clients && transport &&
         transport->peer().kind == io::Address::Kind::tcp;
}

session::Admission Pooler::Impl::console_admission(Client& client, session::Admission answer) {
  if (admin::access_of(*settings_, client.entrance->user) == admin::Access::none) {
    answer.refusal = error_of(PoolerError::console_not_allowed);
  }
  return answer;
}

std::optional<PoolerError> Pooler::Impl::too_many_clients(const DatabaseEntry& database,
                                                          const UserEntry& user) const {
  if (settings_->max_client_conn > 0 && client_count_ >= settings_->max_client_conn) {
    return PoolerError::too_many_clients;
  }
  const int of_database = config::max_db_client_connections(*settings_, database.line);
  if (of_database > 0 && database.clients >= of_database)
    return PoolerError::too_many_database_clients;
  const int of_user =
      config::max_user_client_connections(*settings_, settings_->find_user(user.name));
  if (of_user > 0 && user.clients >= of_user)
    return PoolerError::too_many_user_clients;
  return std::nullopt;
}

void Pooler::Impl::logged_in(session::ClientSession& session, auth::Credentials credentials) {
  Client& client = entry(session);
  forget_entrance(client);
  PoolEntry& pool = *client.pool_entry;
  if (suspended_) session.suspend(true);
  pool.database.entered = true;
  const bool first = !std::exchange(pool.used, true);
  // What this client proved is good for servers of its own name only.
  const bool more_is_known =
      !pool.forced_user && !credentials.empty() && !(pool.gained == credentials);
  if (more_is_known) {
    pool.gained = std::move(credentials);
    pool.node_refused = false;
  }
  if ((first || more_is_known) && pool.database.cluster) pool.database.cluster->login_may_work();
}

std::unique_ptr<session::Console> Pooler::Impl::console(session::ClientSession& session) {
  Client& client = entry(session);
  const bool operator_here = session.user() == "pgbouncer" && session.transport() &&
                             session.transport()->peer_uid() >= 0 &&
                             session.transport()->peer_uid() == parts_.own_uid;
  const admin::Access access =
      operator_here ? admin::Access::admin : admin::access_of(*settings_, session.user());
  if (access == admin::Access::none) return nullptr;
  if (List<Client, &Client::login_hook>::linked(client)) logging_in_.remove(client);
  forget_entrance(client);
  return std::make_unique<ConsoleSeat>(world_, access, client);
}

}  // namespace pgweir::app
