#include "sql/builtins.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace pgweir::sql {
namespace {

struct ListedFunction {
  Bytes name;
  int arguments;
  FunctionClass kind;
  Target target;
};
enum class Harmless : std::uint8_t { immutable, stable };
struct HarmlessFunction {
  Bytes name;
  Harmless volatility;
  int arguments_min;
  int arguments_max;
};

constexpr int kAnyNumber = 99;  ///< VARIADIC

constexpr int arguments_of(Bytes types) {
  if (types.empty()) return 0;
  if (types.ends_with("any") || types.ends_with("VARIADIC")) return kAnyNumber;
  return 1 + static_cast<int>(std::count(types.begin(), types.end(), ','));
}

#include "builtin_functions.inc"

template <class Row, std::size_t N>
constexpr bool sorted_by_name(const Row (&rows)[N]) {
  for (std::size_t i = 1; i < N; ++i) {
    if (rows[i].name < rows[i - 1].name) return false;
  }
  return true;
}
static_assert(sorted_by_name(kListed),
              "builtin_functions.tsv must be sorted by name in byte order");
static_assert(sorted_by_name(kHarmless),
              "harmless_functions.tsv must be sorted by name in byte order");

constexpr Bytes kOperators[] = {
    "!!",  "!=",  "!~",  "!~*", "!~~",  "!~~*", "#",   "##",   "#-",  "#>", "#>>", "%",   "&",
    "&&",  "&<",  "&<|", "&>",  "*",    "*<",   "*<=", "*<>",  "*=",  "*>", "*>=", "+",   "-",
    "->",  "->>", "-|-", "/",   "<",    "<->",  "<<",  "<<=",  "<<|", "<=", "<>",  "<@",  "<^",
    "=",   "=>",  ">",   ">=",  ">>",   ">>=",  ">^",  "?",    "?#",  "?&", "?-",  "?-|", "?|",
    "?||", "@",   "@-@", "@>",  "@?",   "@@",   "@@@", "^",    "^@",  "|",  "|&>", "|/",  "|>>",
    "||",  "||/", "~",   "~*",  "~<=~", "~<~",  "~=",  "~>=~", "~>~", "~~", "~~*",
};

constexpr Bytes kTypes[] = {
    "aclitem",
    "any",
    "anyarray",
    "anycompatible",
    "anycompatiblearray",
    "anycompatiblemultirange",
    "anycompatiblenonarray",
    "anycompatiblerange",
    "anyelement",
    "anyenum",
    "anymultirange",
    "anynonarray",
    "anyrange",
    "bit",
    "bool",
    "box",
    "bpchar",
    "bytea",
    "char",
    "cid",
    "cidr",
    "circle",
    "cstring",
    "date",
    "datemultirange",
    "daterange",
    "dec",
    "decimal",
    "double",
    "event_trigger",
    "fdw_handler",
    "float4",
    "float8",
    "gtsvector",
    "index_am_handler",
    "inet",
    "int2",
    "int2vector",
    "int4",
    "int4multirange",
    "int4range",
    "int8",
    "int8multirange",
    "int8range",
    "internal",
    "interval",
    "json",
    "jsonb",
    "jsonpath",
    "language_handler",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "money",
    "name",
    "numeric",
    "nummultirange",
    "numrange",
    "oid",
    "oidvector",
    "path",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "pg_ddl_command",
    "pg_dependencies",
    "pg_lsn",
    "pg_mcv_list",
    "pg_ndistinct",
    "pg_node_tree",
    "pg_snapshot",
    "point",
    "polygon",
    "record",
    "refcursor",
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
    "table_am_handler",
    "text",
    "tid",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "trigger",
    "tsm_handler",
    "tsmultirange",
    "tsquery",
    "tsrange",
    "tstzmultirange",
    "tstzrange",
    "tsvector",
    "txid_snapshot",
    "unknown",
    "uuid",
    "varbit",
    "varchar",
    "void",
    "xid",
    "xid8",
    "xml",
};

/// Catalogs and the views over them that say the same on every node. What is not here describes a
/// server, a session or shared memory (pg_stat_*, pg_locks, pg_settings, ...), or is newer than
/// this list.
constexpr Bytes kReplicatedCatalogs[] = {
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_attrdef",
    "pg_attribute",
    "pg_auth_members",
    "pg_authid",
    "pg_cast",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_conversion",
    "pg_database",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_group",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_init_privs",
    "pg_language",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_matviews",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_parameter_acl",
    "pg_partitioned_table",
    "pg_policies",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_publication_tables",
    "pg_range",
    "pg_replication_origin",
    "pg_rewrite",
    "pg_roles",
    "pg_rules",
    "pg_seclabel",
    "pg_seclabels",
    "pg_sequence",
    "pg_shadow",
    "pg_shdepend",
    "pg_shdescription",
    "pg_shseclabel",
    "pg_statistic",
    "pg_statistic_ext",
    "pg_statistic_ext_data",
    "pg_stats",
    "pg_stats_ext",
    "pg_stats_ext_exprs",
    "pg_subscription",
    "pg_subscription_rel",
    "pg_tables",
    "pg_tablespace",
    "pg_transform",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_config_map",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
    "pg_user",
    "pg_user_mapping",
    "pg_user_mappings",
    "pg_views",
    "pg_wait_events",
};

template <std::size_t N>
constexpr bool is_sorted_list(const Bytes (&names)[N]) {
  for (std::size_t i = 1; i < N; ++i) {
    if (!(names[i - 1] < names[i])) return false;
  }
  return true;
}
static_assert(is_sorted_list(kOperators) && is_sorted_list(kTypes) &&
              is_sorted_list(kReplicatedCatalogs));

template <std::size_t N>
bool contains(const Bytes (&names)[N], Bytes name) noexcept {
  return std::binary_search(std::begin(names), std::end(names), name);
}

template <class Row, std::size_t N>
std::pair<const Row*, const Row*> rows_of(const Row (&rows)[N], Bytes name) noexcept {
  const Row* first =
      std::lower_bound(std::begin(rows), std::end(rows), name,
                       [](const Row& row, Bytes wanted) { return row.name < wanted; });
  const Row* last = first;
  while (last != std::end(rows) && last->name == name) ++last;
  return {first, last};
}

/// The worse of two meanings: a primary's before a replica's, then the one that leaves more behind.
void join(Builtin& worst, const ListedFunction& row) noexcept {
  const bool replica = row.target == Target::replica;
  if (worst.known && !worst.replica && replica) return;
  if (!worst.known || worst.replica || !replica) {
    worst.replica = replica;
    worst.kind = row.kind;
  }
  worst.known = true;
  worst.immutable = false;
}

}  // namespace

Builtin find_builtin(Bytes name, int arguments) noexcept {
  const auto [listed, listed_end] = rows_of(kListed, name);
  const auto [harmless, harmless_end] = rows_of(kHarmless, name);
  Builtin found;
  for (const ListedFunction* row = listed; row != listed_end; ++row) {
    if (arguments < 0 || row->arguments == kAnyNumber || row->arguments == arguments)
      join(found, *row);
  }
  if (found.known) return found;
  for (const HarmlessFunction* row = harmless; row != harmless_end; ++row) {
    const bool fits = listed == listed_end ||
                      (arguments >= row->arguments_min && arguments <= row->arguments_max);
    if (fits) return {true, true, row->volatility == Harmless::immutable, FunctionClass::safe};
  }
  // Called with another number of arguments than any signature has: some have defaults.
  for (const ListedFunction* row = listed; row != listed_end; ++row) join(found, *row);
  return found;
}

bool writes_unseen(FunctionClass kind) noexcept {
  switch (kind) {
    case FunctionClass::catalog_write:
    case FunctionClass::cursor:
    case FunctionClass::dynamic_sql:
    case FunctionClass::internal:
    case FunctionClass::large_object_descriptor:
    case FunctionClass::large_object_write:
      return true;
    case FunctionClass::backup:
    case FunctionClass::index_maintenance:
    case FunctionClass::notify:
    case FunctionClass::replication:
    case FunctionClass::safe:
    case FunctionClass::safe_approximate:
    case FunctionClass::safe_nondeterministic:
    case FunctionClass::sequence:
    case FunctionClass::server_action:
    case FunctionClass::server_file_write:
    case FunctionClass::server_specific:
    case FunctionClass::session_lock:
    case FunctionClass::session_read:
    case FunctionClass::session_state:
    case FunctionClass::snapshot:
    case FunctionClass::wal:
    case FunctionClass::xact_lock:
    case FunctionClass::xid_assign:
      return false;
  }
  return true;
}

bool is_builtin_operator(Bytes symbol) noexcept { return contains(kOperators, symbol); }

bool is_builtin_type(Bytes name) noexcept {
  if (name.starts_with('_')) name.remove_prefix(1);  // _int4 is the array of int4.
  return contains(kTypes, name);
}

CatalogRelation catalog_relation(Bytes schema, Bytes name) noexcept {
  if (schema == "information_schema") return CatalogRelation::replicated;
  if (schema == "pg_toast") return CatalogRelation::replicated;
  if (schema != "pg_catalog" && !(schema.empty() && name.starts_with("pg_")))
    return CatalogRelation::none;
  return contains(kReplicatedCatalogs, name) ? CatalogRelation::replicated
                                             : CatalogRelation::server_view;
}

}  // namespace pgweir::sql
