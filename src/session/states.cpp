#include "session/client_state.h"
#include "session/server_state.h"

namespace pgweir::session {

std::optional<ServerState> next(ServerState from, ServerEvent event) noexcept {
  using enum ServerState;
  if (event == ServerEvent::lost) return closed;
  switch (from) {
    case created: return event == ServerEvent::attached ? std::optional(login) : std::nullopt;
    case login: return event == ServerEvent::logged_in ? std::optional(identifying) : std::nullopt;
    case identifying: return event == ServerEvent::identified ? std::optional(idle) : std::nullopt;
    case idle:
      if (event == ServerEvent::bound) return active;
      if (event == ServerEvent::check) return testing;
      if (event == ServerEvent::dedicated) return dedicated;
      return std::nullopt;
    case active:
      if (event == ServerEvent::unbound) return idle;
      if (event == ServerEvent::dirty) return resetting;
      return std::nullopt;
    case testing:
    case resetting: return event == ServerEvent::answered ? std::optional(idle) : std::nullopt;
    case dedicated:
    case closed: return std::nullopt;
  }
  return std::nullopt;
}

std::string_view to_string(ServerState state) noexcept {
  switch (state) {
    case ServerState::created: return "created";
    case ServerState::login: return "login";
    case ServerState::identifying: return "identifying";
    case ServerState::idle: return "idle";
    case ServerState::active: return "active";
    case ServerState::testing: return "testing";
    case ServerState::resetting: return "resetting";
    case ServerState::dedicated: return "dedicated";
    case ServerState::closed: return "closed";
  }
  return "?";
}

std::optional<ClientState> next(ClientState from, ClientEvent event) noexcept {
  using enum ClientState;
  if (event == ClientEvent::quit) return closed;
  switch (from) {
    case startup:
      if (event == ClientEvent::startup_read) return authenticating;
      if (event == ClientEvent::cancel_asked) return cancelling;
      return std::nullopt;
    case authenticating:
      if (event == ClientEvent::authenticated) return welcoming;
      if (event == ClientEvent::console_opened) return console;
      return std::nullopt;
    case welcoming:
      if (event == ClientEvent::welcomed) return idle;
      if (event == ClientEvent::server_bound) return replicating;
      return std::nullopt;
    case console:
    case cancelling: return std::nullopt;
    case idle:
      if (event == ClientEvent::message) return collecting;
      if (event == ClientEvent::server_bound) return active;
      return std::nullopt;
    case collecting:
      if (event == ClientEvent::unit_complete) return waiting;
      if (event == ClientEvent::answered_here) return idle;
      return std::nullopt;
    case waiting:
      if (event == ClientEvent::server_bound) return active;
      if (event == ClientEvent::answered_here) return idle;
      return std::nullopt;
    case active:
      if (event == ClientEvent::server_left) return idle;
      if (event == ClientEvent::run_again) return waiting;
      return std::nullopt;
    case replicating:
    case closed: return std::nullopt;
  }
  return std::nullopt;
}

std::string_view to_string(ClientState state) noexcept {
  switch (state) {
    case ClientState::startup: return "startup";
    case ClientState::authenticating: return "authenticating";
    case ClientState::welcoming: return "welcoming";
    case ClientState::console: return "console";
    case ClientState::cancelling: return "cancelling";
    case ClientState::idle: return "idle";
    case ClientState::collecting: return "collecting";
    case ClientState::waiting: return "waiting";
    case ClientState::active: return "active";
    case ClientState::replicating: return "replicating";
    case ClientState::closed: return "closed";
  }
  return "?";
}

}  // namespace pgweir::session
