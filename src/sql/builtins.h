// What PostgreSQL itself brings, by name: functions (from builtin_functions.tsv and
// harmless_functions.tsv, compiled in), operators, types, and the relations of pg_catalog. Names
// are folded.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

/// The classes of builtin_functions.tsv.
enum class FunctionClass : std::uint8_t {
  backup,
  catalog_write,
  cursor,
  dynamic_sql,
  index_maintenance,
  internal,
  large_object_descriptor,
  large_object_write,
  notify,
  replication,
  safe,
  safe_approximate,
  safe_nondeterministic,
  sequence,
  server_action,
  server_file_write,
  server_specific,
  session_lock,
  session_read,
  session_state,
  snapshot,
  wal,
  xact_lock,
  xid_assign,
};

/// What a built-in function of a name is, the worst of all that the call could mean.
struct Builtin {
  bool known = false;
  bool replica = false;    ///< A standby's answer is as good.
  bool immutable = false;  ///< Reads nothing, not even a catalog.
  FunctionClass kind = FunctionClass::safe;
};

/// `arguments` is -1 when not counted.
Builtin find_builtin(Bytes name, int arguments) noexcept;

/// Whether a built-in function of this class may change rows that others read, in tables nobody can
/// name.
bool writes_unseen(FunctionClass kind) noexcept;

bool is_builtin_operator(Bytes symbol) noexcept;
bool is_builtin_type(Bytes name) noexcept;

enum class CatalogRelation : std::uint8_t {
  none,         ///< Not of the system.
  replicated,   ///< The same rows on a standby.
  server_view,  ///< Describes the server or the session that is asked.
};
CatalogRelation catalog_relation(Bytes schema, Bytes name) noexcept;

}  // namespace pgweir::sql
