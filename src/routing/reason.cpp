#include "routing/reason.h"

#include <array>

namespace pgweir::routing {

namespace {

struct Row {
  Reason reason;
  std::string_view word;
  std::string_view sentence;
};

using enum Reason;
constexpr std::array<Row, kReasonCount> kRows{{
    {read, "read", "A read that a replica may answer."},
    {pinned, "pinned", "The session holds state that lives on its primary server."},
    {in_transaction, "in_transaction", "A transaction stays on the server where it began."},
    {write, "write", "The statement writes, or may write."},
    {primary_function, "primary_function",
     "It calls a function, or reads a view or policy over one, that is volatile or unknown and "
     "that no rule allows."},
    {unlogged, "unlogged",
     "It names a relation that replicas don't have: unlogged, temporary, foreign, or a sequence."},
    {unparsed, "unparsed",
     "What it does can't be told with certainty from its text and the catalog."},
    {hint, "hint", "A comment in the statement asks for the primary."},
    {table_rule, "table_rule", "A rule for one of its tables wants the primary."},
    {token_ahead, "token_ahead",
     "No replica is known to have replayed what this session or key has written or seen."},
    {table_written, "table_written",
     "No replica is known to have replayed the last write of the tables it reads."},
    {lag, "lag", "Every replica is further behind than max_replica_lag."},
    {no_replica, "no_replica", "No replica is up and fit to answer reads."},
    {level_primary, "level_primary", "read_consistency is primary."},
    {recent_write, "recent_write", "The session or key has written within pin_window."},
    {latest_wait, "latest_wait",
     "read_consistency is latest, and no replica is known to have all that is committed."},
    {transaction_control, "transaction_control", "It begins or ends a transaction."},
    {session_state, "session_state", "It reads or changes state of the session."},
    {server_view, "server_view",
     "It asks about the server itself, and each server would answer differently."},
    {serializable, "serializable",
     "Transactions here are serializable by default, which replicas can't offer."},
    {learned, "learned",
     "A replica refused a statement of this shape before, and the primary ran it."},
    {token_store, "token_store", "The store of tokens did not answer in time."},
    {oversize, "oversize", "The unit is larger than max_unit_buffer."},
    {flush, "flush", "A Flush asked for answers before the unit was complete."},
    {replication, "replication", "It is a replication connection."},
    {read_limit, "read_limit", "Replicas already serve as many reads as they are allowed."},
    {not_split, "not_split", "The database has no replica, or read_split is off."},
    {healed, "healed", "A replica refused it, so it was run again on the primary."},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kReasonCount; ++i) {
    if (static_cast<std::size_t>(kRows[i].reason) != i) return false;
  }
  return true;
}
static_assert(in_order(), "one row for each reason, in the order of the enum");

}  // namespace

std::string_view to_string(Reason reason) noexcept {
  return kRows[static_cast<std::size_t>(reason)].word;
}

std::string_view sentence(Reason reason) noexcept {
  return kRows[static_cast<std::size_t>(reason)].sentence;
}

Reason reason_of(sql::Cause cause) noexcept {
  switch (cause) {
    case sql::Cause::none:
      return Reason::read;
    case sql::Cause::write:
      return Reason::write;
    case sql::Cause::primary_function:
      return Reason::primary_function;
    case sql::Cause::unlogged:
      return Reason::unlogged;
    case sql::Cause::unparsed:
      return Reason::unparsed;
    case sql::Cause::transaction_control:
      return Reason::transaction_control;
    case sql::Cause::session_state:
      return Reason::session_state;
    case sql::Cause::server_view:
      return Reason::server_view;
  }
  return Reason::unparsed;
}

}  // namespace pgweir::routing
