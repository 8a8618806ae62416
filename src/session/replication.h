// A replication connection: what the startup packet asked for, and where its two streams stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "protocol/framer.h"

namespace pgweir::session {

enum class Replication : std::uint8_t { none, physical, logical };

std::string_view to_string(Replication kind) noexcept;

/// What the startup parameter `replication` asks for: `database` is logical, a boolean in any of the spellings that PostgreSQL
/// takes is physical or none. nullopt: neither.
std::optional<Replication> replication_asked(std::string_view value) noexcept;

/// Whether the text of a query begins as a command of the walsender's own, which is no SQL and writes no table. SHOW is both, and
/// is left to be read as SQL.
bool is_replication_command(Bytes text) noexcept;

/// Of a client that has, or waits for, a server of its own. Everything passes as it comes; the framers only tell where messages
/// begin and end, and keep nothing.
struct ReplicationLink {
  Replication kind = Replication::none;
  std::string value;                   ///< of the startup parameter, as it was sent
  std::optional<std::string> options;  ///< the startup parameter, which passes unread
  protocol::Framer from_client;
  char last_answer = 0;                ///< the type of the last message from the server that has come whole
  bool at_rest = true;                 ///< the server waits for a command: ReadyForQuery was the last that either side said
};

}  // namespace pgweir::session
