// Every reason a route can have: one row each, with its word (log, SHOW, tests) and its sentence
// (docs, EXPLAIN ROUTE).
#pragma once

#include <cstdint>
#include <string_view>

#include "sql/statement_class.h"

namespace pgweir::routing {

enum class Reason : std::uint8_t {
  read,  ///< The one reason of a replica: a read that a replica may answer.
  pinned,
  in_transaction,
  write,
  primary_function,
  unlogged,
  unparsed,
  hint,
  table_rule,
  token_ahead,
  table_written,
  lag,
  no_replica,
  level_primary,
  recent_write,
  latest_wait,
  transaction_control,
  session_state,
  server_view,
  serializable,
  learned,
  token_store,
  oversize,
  flush,
  replication,
  read_limit,
  not_split,  ///< The database has no replica, or read_split is off.
  healed,     ///< A standby refused it; it was run again on the primary.
};
inline constexpr std::size_t kReasonCount = static_cast<std::size_t>(Reason::healed) + 1;

std::string_view to_string(Reason reason) noexcept;
std::string_view sentence(Reason reason) noexcept;
Reason reason_of(sql::Cause cause) noexcept;

}  // namespace pgweir::routing
