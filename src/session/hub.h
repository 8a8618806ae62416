// session: the state machines of one client and of one server connection, and what travels between them: units,
// settings, prepared statements, pins, the answers still owed.
//
// Sessions see the world through Hub, which app implements. Its calls only take note: what touches another object's
// life or the pool happens in Pooler::turn(), so nobody dies while a method of his is on the stack. Start
// with client_session.h; docs/internals/life-of-a-unit.md tells the story.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/client_login.h"
#include "auth/credentials.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "config/settings.h"
#include "io/io.h"
#include "routing/decide.h"
#include "session/cancel_key.h"
#include "session/causality.h"
#include "session/learned.h"
#include "session/settings_set.h"
#include "session/statements.h"
#include "sql/catalog.h"
#include "sql/classifier.h"
#include "stats/counters.h"
#include "tokens/commit_log.h"
#include "tokens/open_writers.h"

namespace pgweir::session {

class ClientSession;
class ServerSession;

/// What is known of the writes to one database of one cluster. All lines of [databases] that lead there share it.
struct DatabaseMarks {
  tokens::TableWrites writes;
  tokens::OpenWriters open_writers;
  CausalKeys keys;
  /// Units with DDL that were sent to a server, and how many of them have ended.
  std::uint64_t ddl_begun = 0;
  std::uint64_t ddl_done = 0;
};

/// What the sessions of one line of [databases] share. Owned by app, which outlives them with it.
struct DatabaseContext {
  std::string name;
  /// Null when the database is not split: then nothing is classified, routed or marked.
  std::unique_ptr<sql::Classifier> classifier;
  /// Null until the catalog has been read; until then functions count as unknown, and reads as reads of all tables.
  std::shared_ptr<const sql::Catalog> catalog;
  /// Grows with each change of catalog or rules: what a prepared statement was judged by.
  std::uint64_t judging = 1;
  /// From a DDL's dispatch until a catalog read after its end is loaded, every commit marks all tables.
  bool catalog_stale = true;
  /// A statement named what the catalog does not have; its loader has not been told yet.
  bool name_unknown = false;
  /// How much of marks->ddl_begun its catalog loader has been told.
  std::uint64_t ddl_told = 0;
  tokens::CaptureLog* captures = nullptr;   ///< the cluster's; null when not split
  std::shared_ptr<DatabaseMarks> marks = std::make_shared<DatabaseMarks>();  ///< never null
  std::shared_ptr<const routing::TableRules> table_rules;  ///< null when there is none for this database
  Misroutes learned;
  ShapeSet proven_reads;            ///< A standby ran them though their functions are only said to write nothing.
  StatementStore statements;
  stats::RouteCounts routes;

  /// The catalog may not be what it is on the primary: another line's DDL counts too.
  bool stale() const noexcept { return catalog_stale || marks->ddl_begun != ddl_told; }
  bool split() const noexcept { return classifier != nullptr; }
  /// A catalog read after the end of every DDL seen so far.
  void use_catalog(std::shared_ptr<const sql::Catalog> fresh) {
    catalog = std::move(fresh);
    classifier->use_catalog(catalog);
    catalog_stale = false;
    ++judging;
  }
  void use_rules(sql::FunctionRules rules) {
    classifier->use_rules(std::move(rules));
    ++judging;
  }
};

/// What the sessions of one pool, a (database, user), share. Owned by app; a reload changes it in place.
struct PoolContext {
  DatabaseContext* database = nullptr;
  std::string user;                         ///< as servers are logged in
  config::PoolMode mode = config::PoolMode::session;
  routing::Policy policy;
  config::OnSessionState on_session_state = config::OnSessionState::pin;
  int max_prepared_statements = 200;        ///< per server; 0: names are passed through untouched
  bool read_only_on_replicas = false;       ///< read_only_transactions = replica
  bool transaction_reads_on_replicas = false;
  /// The catalog says so of the role's transactions; false while it is not known.
  bool serializable_by_default = false;     ///< of transactions of this user, by what the catalog says
  bool read_committed_by_default = false;
  stats::Counters counters;
  /// What the first server of the pool reported at login, in its order; empty until then.
  std::vector<std::pair<std::string, std::string>> welcome;
};

/// How a client that sent its startup packet is let in.
struct Admission {
  /// Something has to be asked first: ClientSession::admitted() follows. Of the rest only `console` counts.
  bool pending = false;
  PoolContext* pool = nullptr;              ///< null for the console, and until an outsider has judged the password
  bool console = false;
  auth::Method method = auth::Method::trust;
  bool user_known = false;
  std::string user;                         ///< as auth_query spells the name; empty: as the client did
  auth::Secret secret;                      ///< when user_known
  std::string stranger_text;                ///< what one who is unknown or rejected is told; empty: the usual text
  /// Said after the exchange, so that a stranger learns nothing: no such database, limits, not allowed.
  std::optional<Error> refusal;
};

/// Rows of an answer to a question of our own; nullopt is NULL.
using LookupRows = std::vector<std::vector<std::optional<std::string>>>;

/// The console's side of one client, implemented over admin by app.
class Console {
 public:
  virtual ~Console() = default;
  virtual void append_welcome(std::string& out) const = 0;
  virtual void on_message(char type, Bytes body, std::string& out) = 0;
  /// Answers to orders that took their time (PAUSE, RELOAD): after Hub::wants_turn() the session sends what is appended.
  virtual void append_late(std::string& out) = 0;
  virtual bool finished() const noexcept = 0;
};

class Hub {
 public:
  virtual Time now() const noexcept = 0;
  virtual Log& log() noexcept = 0;
  /// "C-0x1f: shop/web@10.1.2.3:4711 ": what stands before a line about it in the log.
  virtual std::string log_name(const ClientSession& client) const = 0;
  virtual std::string log_name(const ServerSession& server) const = 0;
  virtual Random& random() noexcept = 0;
  virtual const config::Settings& settings() const noexcept = 0;
  virtual const auth::LoginContext& login_context() noexcept = 0;
  virtual SettingsInterner& interner() noexcept = 0;
  /// Whether a client that asks for encryption gets it.
  virtual bool offers_tls() const noexcept = 0;
  /// As io::Tls::accept(). Only where offers_tls().
  virtual std::unique_ptr<io::Transport> encrypt(std::unique_ptr<io::Transport> plain, io::TransportUser& user,
                                                 io::TlsStart how, Bytes read) = 0;

  // From clients.
  /// The startup packet has been read: where the client belongs. `local_uid` is the peer's uid on a Unix socket, else -1.
  virtual Admission admit(ClientSession& client, std::string_view database, std::string_view user,
                          std::int64_t local_uid) = 0;
  /// PAM or LDAP is to judge the password: ClientSession::password_judged() follows.
  virtual void judge_password(ClientSession& client, const std::string& password) = 0;
  /// The client did not prove who it is.
  virtual void login_refused(ClientSession& client) noexcept = 0;
  /// A proxy has told where it comes from: ClientSession::peer() is that now.
  virtual void client_named(ClientSession& client) noexcept = 0;
  /// Its handshake is done.
  virtual void client_encrypted(ClientSession& client) noexcept = 0;
  /// The exchange succeeded. The pool takes the client in, and its credentials for servers when it has none.
  virtual void logged_in(ClientSession& client, auth::Credentials credentials) = 0;
  virtual std::unique_ptr<Console> console(ClientSession& client) = 0;
  /// ClientSession::on_turn() is to be called in the next turn.
  virtual void wants_turn(ClientSession& client) noexcept = 0;
  /// The client waits in state waiting: decide its route, and bind it when a server is there.
  virtual void wants_server(ClientSession& client) noexcept = 0;
  /// The client waits no longer (it went away, or was cancelled): take it off the queue.
  virtual void wants_no_server(ClientSession& client) noexcept = 0;
  /// The client waits for PoolContext::welcome: answer by ClientSession::welcome() or close().
  virtual void wants_welcome(ClientSession& client) noexcept = 0;
  /// A client of a replication connection is let in: open a server for it alone, on the primary; answer by
  /// ClientSession::replicate() or close().
  virtual void wants_own_server(ClientSession& client) noexcept = 0;
  /// The connection is gone and the session holds no server: free it in the next turn.
  virtual void client_gone(ClientSession& client) noexcept = 0;
  /// A CancelRequest came in. Whoever asked may think, once his connection is closed, that nothing comes after it: answer by
  /// ClientSession::cancel_answered() when it has been delivered, or can't be.
  virtual void cancel(ClientSession& asker, const CancelKey& key) noexcept = 0;

  // From servers.
  /// Logged in, or checked, or reset, or given back by its client: idle, owes nothing.
  virtual void server_idle(ServerSession& server) noexcept = 0;
  /// Its client has left it, and it is being reset; server_idle() or server_gone() follows.
  virtual void server_resetting(ServerSession& server) noexcept = 0;
  /// Its client has left it while it works: server_idle() follows when it is done.
  virtual void server_unfinished(ServerSession& server) noexcept = 0;
  /// Gone, whatever the reason; its client, if it had one, has been told. `error` has the node's SQLSTATE when it sent one.
  virtual void server_gone(ServerSession& server, const Error& error) noexcept = 0;
  /// The answer to ServerSession::look_up(), or the server's error. server_idle() follows.
  virtual void looked_up(ServerSession& server, const Error* problem, LookupRows rows) noexcept = 0;
  /// Which instance answered on this server connection.
  virtual void server_identified(ServerSession& server, std::string_view system_id,
                                 std::string_view started_at) noexcept = 0;

  // About consistency.
  /// What is served where a level is asked for: with several processes some can't be kept.
  virtual config::ConsistencyLevel level_kept(config::ConsistencyLevel asked) const noexcept = 0;
  /// Of the cluster that the client's database is on; null while nothing is known of it.
  virtual const routing::ClusterView* cluster_view(const ClientSession& client) const noexcept = 0;
  /// The client waits for the answer to a capture: on_turn() is due once its cluster has got further, or at `until`.
  virtual void wants_capture(ClientSession& client, Time until) noexcept = 0;
  /// As configured, for people.
  virtual std::string node_name(NodeId node) const = 0;
 protected:
  ~Hub() = default;
};

}  // namespace pgweir::session
