// Who is let in, where, and how he has to prove who he is.
#include "admin/commands.h"
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

auth::Method Pooler::Impl::method() const noexcept {
  switch (settings_->auth_type) {
    case config::AuthType::any:
      return auth::Method::any;
    case config::AuthType::trust:
      return auth::Method::trust;
    case config::AuthType::md5:
      return auth::Method::md5;
    case config::AuthType::scram_sha_256:
      return auth::Method::scram_sha_256;
  }
  return auth::Method::reject;
}

session::Admission Pooler::Impl::admit(session::ClientSession& session, std::string_view database,
                                       std::string_view user, std::int64_t local_uid) {
  Client& client = entry(session);
  if (settings_->log_connections) {
    log().log(concat({name_of(client), "login attempt: db=", database, " user=", user,
                      " tls=no replication=no"}));
  }
  session::Admission answer;
  answer.method = method();
  if (const auth::Secret* secret = userlist_.find(user)) {
    answer.user_known = true;
    answer.secret = *secret;
  }
  if (answer.method == auth::Method::any) answer.user_known = true;
  if (admin::is_console_database(database))
    return console_admission(client, std::move(answer), user, local_uid);
  const auto refuse = [&](std::string_view sqlstate, std::string text) {
    answer.refusal = std::move(text);
    answer.refusal_sqlstate = sqlstate;
    return answer;
  };
  if (shutting_down_ && !may_still_come_in(client))
    return refuse("08P01", "pooler is shutting down");
  // A stranger gets his refusal for the wrong password, and no pool or database is made for him.
  if (!answer.user_known) return refuse("28P01", "password authentication failed");
  DatabaseEntry* found = database_for(database);
  if (!found) return refuse("3D000", concat({"no such database: ", database}));
  if (found->disabled) return refuse("3D000", concat({"database \"", database, "\" is disabled"}));
  UserEntry& known = user_for(user);
  if (std::string full = too_many_clients(*found, known); !full.empty())
    return refuse("53300", std::move(full));
  const bool forced = !found->line.user.empty();
  PoolEntry& pool = pool_for(*found, forced ? found->line.user : std::string(user), forced);
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

session::Admission Pooler::Impl::console_admission(Client& client, session::Admission answer,
                                                   std::string_view user, std::int64_t local_uid) {
  client.is_console = true;
  answer.console = true;
  // The operator on this machine, as the account that the process runs under, needs no password.
  if (user == "pgbouncer" && local_uid >= 0 && local_uid == parts_.own_uid) {
    answer.user_known = true;
    answer.method = auth::Method::any;
    return answer;
  }
  if (admin::access_of(*settings_, user) == admin::Access::none) {
    answer.refusal = "not allowed";
    answer.refusal_sqlstate = "42501";
  }
  return answer;
}

std::string Pooler::Impl::too_many_clients(const DatabaseEntry& database,
                                           const UserEntry& user) const {
  if (settings_->max_client_conn > 0 && client_count_ >= settings_->max_client_conn) {
    return "no more connections allowed (max_client_conn)";
  }
  const int of_database = config::max_db_client_connections(*settings_, database.line);
  if (of_database > 0 && database.clients >= of_database)
    return "client connections exceeded (max_db_client_connections)";
  const int of_user =
      config::max_user_client_connections(*settings_, settings_->find_user(user.name));
  if (of_user > 0 && user.clients >= of_user)
    return "client connections exceeded (max_user_client_connections)";
  return {};
}

void Pooler::Impl::logged_in(session::ClientSession& session, auth::Credentials credentials) {
  Client& client = entry(session);
  PoolEntry& pool = *client.pool_entry;
  if (suspended_) session.suspend(true);
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
  return std::make_unique<ConsoleSeat>(world_, access, client);
}

}  // namespace pgweir::app
