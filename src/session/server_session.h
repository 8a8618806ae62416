// One connection to PostgreSQL: login, what is prepared and set there, the answers it still owes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "auth/credentials.h"
#include "auth/server_login.h"
#include "base/ids.h"
#include "base/list.h"
#include "io/io.h"
#include "protocol/framer.h"
#include "session/hub.h"
#include "session/owed.h"
#include "session/server_state.h"

namespace pgweir::session {

/// How to log in. `parameters` go into the startup packet behind user and database.
struct ServerLoginParams {
  std::string user;
  std::string database;
  auth::Credentials credentials;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string connect_query;
  /// Ask which instance answers (databases that are split).
  bool identify = false;
};

class ServerSession final : public io::TransportUser {
 public:
  ServerSession(Hub& hub, PoolContext& pool, ServerId id, NodeId node, ServerLoginParams login,
                auth::SaltedPasswordCache& cache);
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  // For app.
  /// What Dialer::dial() gave for this session. Hub::server_idle() or server_gone() follows.
  void attach(std::unique_ptr<io::Transport> transport);
  /// From idle: runs the check query ("<empty>" an empty one); server_idle() or server_gone() follows.
  void check(std::string_view query);
  /// Closes it; with a client bound to it that client loses its connection too, with `why`. server_gone() follows in the same call.
  void close(const Error& why);

  // For clients: a binding is made and undone in the turn.
  void bind(ClientSession& client);
  /// Ends the binding. Dirty: session state of the client is left there, reset it first. Owes nothing, or is closed.
  void unbind(bool dirty);

  ServerState state() const noexcept { return state_; }
  ServerId id() const noexcept { return id_; }
  NodeId node() const noexcept { return node_; }
  PoolContext& pool() const noexcept { return pool_; }
  ClientSession* client() const noexcept { return client_; }
  std::uint32_t backend_pid() const noexcept { return pid_; }
  std::uint32_t backend_key() const noexcept { return key_; }
  bool owes_nothing() const noexcept { return owed_.empty(); }
  Time connected_at() const noexcept { return connected_at_; }
  Time state_since() const noexcept { return state_since_; }
  const io::Transport* transport() const noexcept { return transport_.get(); }
  std::size_t prepared_count() const noexcept { return prepared_.size(); }
  const std::string& started_at() const noexcept { return started_at_; }
  /// The pooler's place for this session, so that it finds it without a look-up; nothing here looks at it.
  void* seat = nullptr;

  /// What it reported at login and since, in its order.
  const std::vector<std::pair<std::string, std::string>>& reported() const noexcept { return reported_; }

 private:
  friend class ClientSession;
};

}  // namespace pgweir::session
