// The states of a client connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pgweir::session {

//  startup ─► authenticating ─► welcoming ─► idle ──message──► collecting ──unit complete──► waiting ──bound──► active
//     │                            │          ▲                  (a unit that may still be a replica's)           │
//     │                            ▼          └──────────────────── unit answered, server given back ◄────────────┘
//     └──────► closed ◄── (any)  console, cancelling
//
// A client of a replication connection waits in welcoming for a server of its own, and then is replicating to its end.
enum class ClientState : std::uint8_t {
  startup,         ///< until the startup packet has been read
  authenticating,
  welcoming,       ///< until the pool knows what its servers report
  console,         ///< talks to the admin console
  cancelling,      ///< has asked for a cancel: hears by its end that the request has been delivered
  idle,
  collecting,      ///< part of a unit is here and nothing of it has been sent
  waiting,         ///< a unit wants a server
  active,          ///< holds a server
  replicating,     ///< everything passes between it and a server of its own
  closed,
};

enum class ClientEvent : std::uint8_t {
  startup_read, cancel_asked, authenticated, console_opened, welcomed, message, unit_complete, answered_here, server_bound, run_again, server_left, quit
};

/// Where `event` leads from `from`; nullopt when it can't happen there, which is a peer's protocol error or our bug.
std::optional<ClientState> next(ClientState from, ClientEvent event) noexcept;
std::string_view to_string(ClientState state) noexcept;

}  // namespace pgweir::session
