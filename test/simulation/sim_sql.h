// The few statements that the workloads use, as the simulated PostgreSQL understands them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "truth.h"

namespace pgweir::sim {

enum class Verb : std::uint8_t {
  empty,
  select,  ///< SELECT v, 'c1.2' FROM t0 [, t1] [LIMIT n]; with pg_sleep(seconds) it takes its time
  divide,  ///< SELECT 1/0, 'c1.2'
  hidden_write,  ///< SELECT hidden_write('c1.2'): the catalog calls it stable, and it writes h0; so
                 ///< does the operator ===
  write,         ///< UPDATE, INSERT, WITH … UPDATE …, DELETE
  create_table,  ///< CREATE TABLE fresh (…)
  copy_in,
  copy_out,
  begin,
  commit,
  rollback,
  rollback_to,      ///< ROLLBACK TO SAVEPOINT of one that nobody made
  set_transaction,  ///< SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
  nothing,          ///< SELECT without anything: takes a snapshot
  set,
  reset,
  reset_all,
  discard_all,
  show,
  set_config,  ///< SELECT set_config('name', 'value', false)
  prepare,
  execute,
  deallocate,
  deallocate_all,
  listen,
  unlisten,
  notify,
  commit_and_fail,  ///< CALL commit_and_fail('c1.2'): writes t0, commits, then raises
  system,           ///< a question of the pooler's own: see sim_catalog
};

struct Statement {
  Verb verb = Verb::empty;
  std::string text;
  std::uint32_t tables = 0;  ///< bits; of the reads or of the writes
  std::optional<Marker> marker;
  std::string name;    ///< setting, prepared statement, channel
  std::string value;   ///< setting's value, prepared text, payload
  bool local = false;  ///< SET LOCAL
  std::vector<std::pair<std::string, std::string>> configs;  ///< of set_config calls
  bool read_only = false;   ///< BEGIN READ ONLY
  bool repeatable = false;  ///< BEGIN ISOLATION LEVEL REPEATABLE READ
  bool chain = false;       ///< COMMIT AND CHAIN
  bool returning = false;  ///< a write that answers with its marker
  bool missing = false;    ///< names a table that nobody knows
  int rows = 1;
  double sleep_seconds = 0;
};

/// One statement; comments and white space at its ends don't matter.
Statement read_statement(std::string_view text);
/// The statements of a message; one empty statement when there is none.
std::vector<Statement> read_statements(std::string_view text);

}  // namespace pgweir::sim
