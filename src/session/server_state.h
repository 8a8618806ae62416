// The states of a server connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pgweir::session {

//            attach            R K S Z                      bind
//  created ────────► login ───────────────► identifying? ──► idle ◄──────────► active
//                      │                                    │  ▲  ▲   unbind     │
//                      │                              check │  │  └── resetting ◄┘ (dirty, or session pooling)
//                      ▼                                    ▼  │
//                    closed ◄──────────── (any) ────────  testing
//
// A server that was opened for a replication connection goes from idle to dedicated, and from there to its end.
enum class ServerState : std::uint8_t { created, login, identifying, idle, active, testing, resetting, dedicated, closed };

enum class ServerEvent : std::uint8_t { attached, logged_in, identified, bound, unbound, dirty, check, answered, dedicated, lost };

/// Where `event` leads from `from`; nullopt when it can't happen there.
std::optional<ServerState> next(ServerState from, ServerEvent event) noexcept;
std::string_view to_string(ServerState state) noexcept;

}  // namespace pgweir::session
