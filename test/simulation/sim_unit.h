// One unit of a client: the bytes it sends, the messages it must get back, and what they must say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "dice.h"
#include "truth.h"

namespace pgweir::sim {

/// What a session has set, and what rows of its must show.
using SessionSettings = std::map<std::string, std::string>;

inline constexpr std::uint32_t kPreparedWrite = 1U << 31;

struct Unit {
  Marker marker;
  std::string what;  ///< For the trace.
  std::string bytes;
  /// Sent when the answer has come to '>': COPY data, or what a driver sends after an answered
  /// Flush.
  std::string later;
  /// Sent when an error comes before '>': the Sync that was not sent yet.
  std::string after_error;
  /// The letters of the messages that must come, in order. '*' is any number of rows; '>' sends
  /// `later`.
  std::string expected;
  std::vector<std::uint32_t> reads;   ///< Masks of tables whose rows must be fresh.
  std::vector<std::uint32_t> writes;  ///< Masks that rows of RETURNING show.
  /// SQLSTATEs that this unit may be answered with.
  std::vector<std::string> may_fail;
  /// In force once the unit has succeeded; nullopt is reset.
  std::vector<std::pair<std::string, std::optional<std::string>>> sets;
  bool reset_all = false;  ///< DISCARD ALL
  bool begins = false;     ///< BEGIN
  bool ends = false;       ///< COMMIT or ROLLBACK
  bool rolls_back = false;
  bool chains = false;      ///< AND CHAIN: another block begins like it.
  bool read_only = false;   ///< BEGIN READ ONLY
  bool repeatable = false;  ///< BEGIN ISOLATION LEVEL REPEATABLE READ
  bool must_fail = false;
  bool many_rows = false;  ///< Rows may be followed by an error: they can't be taken back.
  std::string prepares;    ///< The name of a protocol-level statement, known once 1 has come.
  std::string listens;
  std::optional<std::string> causal_key;  ///< in force once the unit has succeeded; empty: none
  std::string sql_deallocates;  ///< The name of a DEALLOCATE, which comes before what the unit prepares.
  std::string sql_prepares;     ///< Name and tables of a PREPARE.
  std::uint32_t sql_tables = 0;      ///< of sql_prepares, with kPreparedWrite when it writes them
  bool slow = false;
  bool leaves_state = false;  ///< It runs a procedure that sets something in the session.

  // While it runs.
  std::size_t at = 0;
  Due must{};
  bool failed = false;
  bool rows_seen = false;
  std::string last_row;
  std::string error;  ///< SQLSTATE
};

/// What a client plans with: its own state as far as plans depend on it.
struct PlanContext {
  Dice& dice;
  std::uint32_t client;
  std::uint32_t& last_unit;
  std::uint32_t& last_statement;  ///< For names that are never used twice.
  const std::map<std::string, std::pair<std::string, std::uint32_t>>&
      prepared;  ///< name: text, tables
  bool tracks_session_state = true;
  bool resets_to_login = true;
  bool named_statements = true;
  bool in_transaction = false;
  bool read_only = false;  ///< The open block is.
  bool catalog_warns = false;
  bool shares_servers = false;  ///< What a procedure leaves in the session must not be another's.
};

Unit plan_read(const PlanContext& with);
Unit plan_read_of(const PlanContext& with, std::uint32_t tables);
Unit plan_big_read(const PlanContext& with);
Unit plan_slow_read(const PlanContext& with, double seconds);
Unit plan_write(const PlanContext& with);
Unit plan_write_of(const PlanContext& with, std::size_t table);
Unit plan_hidden_write(const PlanContext& with);
Unit plan_error(const PlanContext& with);
Unit plan_begin(const PlanContext& with);
/// With characteristics, drawn.
Unit plan_special_begin(const PlanContext& with);
/// What comes too late, once something was read.
Unit plan_set_transaction(const PlanContext& with);
Unit plan_end(const PlanContext& with, bool commit);
Unit plan_tracked_setting(const PlanContext& with);
Unit plan_other_setting(const PlanContext& with);
Unit plan_bad_setting(const PlanContext& with);
Unit plan_discard(const PlanContext& with);
/// Shares what it sees with others of that key, or goes on by itself.
Unit plan_causal_key(const PlanContext& with);
Unit plan_copy(const PlanContext& with);
Unit plan_several(const PlanContext& with);
Unit plan_commit_and_fail(const PlanContext& with);
Unit plan_listen(const PlanContext& with);
Unit plan_notify(const PlanContext& with);
/// SQL's own PREPARE, under this name or a new one.
Unit plan_sql_prepare(const PlanContext& with, const std::string& name = {});
Unit plan_sql_deallocate(const PlanContext& with, const std::string& name);
/// The name is given to another statement, in one message.
Unit plan_sql_prepare_again(const PlanContext& with, const std::string& name);
/// `tables` with kPreparedWrite: what it writes, else what it reads.
Unit plan_sql_execute(const PlanContext& with, const std::string& name, std::uint32_t tables);
/// A simple query of this text, for scenarios. `expected` as in Unit.
Unit plan_simple(const PlanContext& with, const std::string& text, const std::string& expected);

}  // namespace pgweir::sim
