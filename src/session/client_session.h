// One client connection, from its startup packet to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "io/io.h"
#include "routing/decide.h"
#include "session/client_state.h"
#include "session/hub.h"

namespace pgweir::session {

class ClientSession final : public io::TransportUser {
 public:
  /// Takes the connection in; `key` is the cancel key's second half (its first is the id).
  ClientSession(Hub& hub, ClientId id, std::unique_ptr<io::Door> door);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  // For app, all within Pooler::turn().
  void on_turn();
  /// The pool's servers have reported: ends the login (PoolContext::welcome is there).
  void welcome();
  /// State waiting: what the router needs to know of the unit, as of now.
  const routing::UnitFacts& facts();
  /// State waiting: the unit may run on `server`, which is idle and past its checks.
  void bind(ServerSession& server, const routing::Route& route);
  /// Session pooling and pins: the unit is for the server that the client already holds.
  bool holds_server_for(sql::Target target) const noexcept;
  /// State waiting, unit for the server held: go on with it.
  void resume_on_held(const routing::Route& route);
  /// A FATAL with `why`, then the end. Takes its server down with it when that is in the middle of something.
  void close(const Error& why);
  /// A cancel request came while the client waits for a server: its unit gets 57014 and the client stays.
  void cancel_waiting();

  ClientState state() const noexcept { return state_; }
  ClientId id() const noexcept { return id_; }
  std::uint32_t cancel_pid() const noexcept { return static_cast<std::uint32_t>(id_.value); }
  std::uint32_t cancel_key() const noexcept { return cancel_key_; }
  PoolContext* pool() const noexcept { return pool_; }
  ServerSession* server() const noexcept { return server_; }
  Console* console() const noexcept { return console_.get(); }
  const std::string& user() const noexcept { return user_; }
  const std::string& database() const noexcept { return database_; }
  const io::Transport* transport() const noexcept { return transport_.get(); }
  Time connected_at() const noexcept { return connected_at_; }
  /// When the state was entered: how long it has been waiting, idle, in login.
  Time state_since() const noexcept { return state_since_; }
  Time request_at() const noexcept { return request_at_; }
  bool in_transaction() const noexcept;
  bool pinned() const noexcept;
  std::string application_name() const;
  std::size_t prepared_count() const noexcept;

  /// The pooler's place for this session, so that it finds it without a look-up; nothing here looks at it.
  void* seat = nullptr;

 private:
  friend class ServerSession;
};

}  // namespace pgweir::session
