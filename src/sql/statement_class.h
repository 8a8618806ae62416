// sql: what the text of a statement says about where it may run. Pure: text in, class out; the
// names it can't know it asks of a Catalog. It knows nothing of sessions, nodes or LSNs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace pgweir::sql {

enum class Target : std::uint8_t { primary, replica };

enum class Kind : std::uint8_t {
  empty,
  read,
  write,
  transaction_control,
  session_state,
  utility,
  unknown
};

/// Why a statement is not for a replica, as far as its text and the catalog tell; the words are
/// those of a route's reason.
enum class Cause : std::uint8_t {
  none,  ///< A replica may answer.
  write,
  primary_function,
  unlogged,  ///< Unlogged, temporary, foreign or otherwise not on replicas.
  unparsed,
  transaction_control,
  session_state,
  server_view,
};

enum class Hint : std::uint8_t { none, primary, replica };

/// What a statement does to the transaction block.
enum class TransactionStep : std::uint8_t {
  none,
  begin,            ///< BEGIN, START TRANSACTION
  commit,           ///< COMMIT, END, also AND CHAIN
  rollback,         ///< ROLLBACK, ABORT, also AND CHAIN; not ROLLBACK TO
  savepoint,        ///< SAVEPOINT, RELEASE, ROLLBACK TO
  prepare,          ///< PREPARE TRANSACTION
  finish_prepared,  ///< COMMIT PREPARED, ROLLBACK PREPARED
  set_transaction,
};

/// What a statement leaves in, or takes from, the session.
enum class SessionStep : std::uint8_t {
  none,
  set,        ///< SET [SESSION] name = value; name and value below
  set_local,  ///< also SET CONSTRAINTS: gone with the transaction
  reset,
  reset_all,
  set_role,  ///< SET ROLE, RESET ROLE
  set_session_authorization,
  set_characteristics,  ///< SET SESSION CHARACTERISTICS AS TRANSACTION
  set_config,           ///< a call of set_config(): which setting is not looked at
  discard_all,
  discard_some,  ///< DISCARD PLANS, SEQUENCES, TEMP
  prepare,
  execute,
  deallocate,
  deallocate_all,
  listen,
  unlisten,
  temp_table,
  cursor,  ///< DECLARE without HOLD, FETCH, MOVE, CLOSE: of the transaction
  hold_cursor,
  advisory_lock,  ///< a session-level one
  advisory_unlock,
  sequence_memory,  ///< nextval(), currval(), lastval(), setval()
  seed,             ///< setseed()
  load,
  opaque,  ///< DO, CALL: can't be seen from outside
};

/// A relation as the statement names it, folded as PostgreSQL folds names. An empty schema means
/// any.
struct RelationName {
  std::string schema;
  std::string name;
  bool operator==(const RelationName&) const = default;
};

struct FunctionName {
  std::string schema;
  std::string name;
  int arguments = -1;  ///< -1: not counted (VARIADIC, unclear)
};

/// The key under which writes and reads of a table meet. Made of the bare name: tables of that name
/// in all schemas share one, which may cost a needless primary read and never a stale one.
using TableKey = std::uint64_t;
TableKey table_key(Bytes bare_name) noexcept;

/// 128 bits that texts share which differ only in literals, comments and white space.
struct Shape {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Shape&) const = default;
};

/// A set of tables, or all of them.
struct TableSet {
  bool all = false;
  std::vector<TableKey> keys;
  bool empty() const noexcept { return !all && keys.empty(); }
  /// Adds those of `other`, each once.
  void join(const TableSet& other);
  /// Keeps its memory.
  void clear() noexcept {
    all = false;
    keys.clear();
  }
};

/// One statement of a message.
struct Statement {
  Kind kind = Kind::unknown;
  Cause cause = Cause::unparsed;
  TransactionStep transaction = TransactionStep::none;
  bool chain = false;  ///< COMMIT or ROLLBACK AND CHAIN
  SessionStep session = SessionStep::none;
  std::string object;       ///< setting, prepared statement, channel or cursor; folded
  std::string value;        ///< of SET: what stands behind = or TO, as written; of PREPARE: the statement behind AS,
                            ///< empty when a parameter's type could do something of its own
  bool plain_execute = false;  ///< EXECUTE whose arguments call nothing: it does what was prepared and no more
  bool may_commit = false;  ///< CALL, DO and the like: may commit inside and fail afterwards
  bool is_ddl = false;      ///< may change what the catalog says
  bool copy_in = false;     ///< COPY … FROM STDIN
  bool pg_temp = false;     ///< names something of pg_temp
  bool show = false;        ///< SHOW; the setting is in `object`
};

/// What one text (a Query message, or the text of a Parse) means. Immutable, shared, cached by
/// shape.
struct StatementClass {
  std::vector<Statement> statements;  ///< empty for an empty query
  Target target = Target::primary;    ///< of the whole message, by text and catalog alone
  Cause cause = Cause::unparsed;      ///< why primary
  Kind kind = Kind::unknown;          ///< of the whole: the one that decided
  Hint hint = Hint::none;
  /// A hint names a key or a level. Which, each text has to be asked (read_hints()).
  bool hint_named = false;
  /// Text and catalog leave no doubt: no function, operator or view that could hide a write.
  bool certain = false;
  /// Something in it that looks innocent could write: an operator or type over a volatile function
  /// (where Catalog::hides_writes()), or anything while no catalog is known. What ran on the
  /// primary counts as a write of all tables. A function that is declared STABLE or IMMUTABLE is
  /// believed here.
  bool may_hide_write = false;
  /// A view or a user's function stands behind it, which may ask for the time of the transaction, or
  /// anything else that its own text does not show.
  bool uses_code = false;
  /// The class depends on a literal or a bound value, so another text of this shape may differ.
  bool depends_on_literal = false;
  /// Any statement that changes session state (session != none), controls a transaction, or may
  /// commit inside.
  bool has_session_step = false;
  bool has_transaction_step = false;
  bool may_commit = false;
  bool is_ddl = false;
  /// It names a relation or function that the catalog does not have: perhaps it is outdated.
  bool unknown_name = false;
  bool single() const noexcept { return statements.size() <= 1; }

  TableSet reads;                         ///< by text and catalog: what must be fresh
  TableSet writes;                        ///< what a commit of it marks
  std::vector<RelationName> tables_read;  ///< as named, for people
  std::vector<RelationName> tables_written;
  std::vector<FunctionName> functions;
  Shape shape;
};

Bytes to_string(Target target) noexcept;
Bytes to_string(Kind kind) noexcept;
Bytes to_string(Cause cause) noexcept;

}  // namespace pgweir::sql
