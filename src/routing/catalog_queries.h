// The SQL that reads a database's catalog for CatalogView, on PostgreSQL 14 to 18 and with no more
// than an ordinary login's rights.
#pragma once

#include <string_view>

namespace pgweir::routing {

/// Bits of a relation row's flags. Relations that share a name are or-ed together, so each bit is a
/// doubt.
namespace relation_flag {
inline constexpr unsigned kOffReplicas =
    1;  ///< unlogged, foreign or a sequence, or reads one that is
inline constexpr unsigned kView = 2;
inline constexpr unsigned kSequence = 4;
inline constexpr unsigned kReadsMore = 8;
inline constexpr unsigned kWritesMore = 16;
inline constexpr unsigned kHidesVolatile = 32;
}  // namespace relation_flag

/// The session that reads the catalog: no object of the database may stand in for a built-in one,
/// and compiling this query would cost more than running it.
inline constexpr std::string_view kCatalogSession =
    "SET search_path = pg_catalog, pg_temp; SET jit = off";

/// Everything in one statement, thus of one snapshot. Rows are (what, schema, name, value,
/// arguments):
///   r  a relation; value: its flags.    Those of other sessions' temporary schemas are left out:
///   nobody here can name them. f  a function that is not built in; value: volatility (b: immutable
///   and in C), arguments: "least:most". h  there is an operator, cast, domain or row function that
///   hides a volatile function. s  a role (name) whose transactions are serializable by default;
///   without a name: all roles.
///
/// Built-in functions don't appear in pg_depend, so views and policies are searched for them in
/// their stored trees, where a call stands as ":funcid <oid> ", and a FOR UPDATE or SHARE, which no
/// standby can do either, as "{ROWMARKCLAUSE ". Objects below 16384 came with initdb.
///
/// Partitions and inheritance count on the side that reads: who reads a parent or a child reads
/// "more", so a write to either needs to mark only what it names.
inline constexpr std::string_view kCatalogQuery = R"sql(
WITH RECURSIVE
volatile_function AS MATERIALIZED (
  SELECT oid FROM pg_proc WHERE provolatile = 'v' AND oid >= 16384 AND prokind IN ('f', 'w')
  UNION
  SELECT a.aggfnoid::oid FROM pg_aggregate a, pg_proc p
   WHERE a.aggfnoid::oid >= 16384 AND p.provolatile = 'v' AND p.oid IN
     (a.aggtransfn::oid, a.aggfinalfn::oid, a.aggcombinefn::oid, a.aggserialfn::oid, a.aggdeserialfn::oid,
      a.aggmtransfn::oid, a.aggminvtransfn::oid, a.aggmfinalfn::oid)
), volatile_domain AS MATERIALIZED (
  SELECT c.contypid AS oid FROM pg_constraint c
    JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_proc'::regclass
    JOIN volatile_function v ON v.oid = d.refobjid
   WHERE c.contypid <> 0
), volatile_operator AS MATERIALIZED (
  SELECT o.oid FROM pg_operator o JOIN volatile_function v ON v.oid = o.oprcode::oid
), volatile_object AS MATERIALIZED (
  SELECT 'pg_proc'::regclass::oid AS classid, oid AS objid FROM volatile_function
  UNION ALL SELECT 'pg_operator'::regclass::oid, oid FROM volatile_operator
  UNION ALL SELECT 'pg_type'::regclass::oid, oid FROM volatile_domain
), volatile_user AS MATERIALIZED (
  SELECT d.classid, d.objid FROM volatile_object v
    JOIN pg_depend d ON d.refclassid = v.classid AND d.refobjid = v.objid
), suspect AS MATERIALIZED (
  SELECT ':funcid (' || string_agg(oid::text, '|') || ') |ROWMARKCLAUSE ' AS pattern FROM pg_proc
   WHERE oid < 16384 AND (
     provolatile = 'v' AND proname NOT IN ('random', 'random_normal', 'clock_timestamp', 'timeofday', 'gen_random_uuid', 'uuidv4',
       'uuidv7', 'array_sample', 'array_shuffle', 'pg_sleep', 'pg_sleep_for', 'pg_sleep_until', 'pg_database_size',
       'pg_relation_size', 'pg_total_relation_size', 'pg_table_size', 'pg_indexes_size', 'pg_partition_tree')
     OR provolatile <> 'v' AND proname ~ ('^(inet_(client|server)_|txid_|mxid_age|pg_stat_get_|pg_(available|backend_pid|conf_|config|'
       'current_|cursor|extension_update|get_replication|is_other_temp|listening|my_temp|numa|postmaster|prepared_|'
       'relation_filepath|show_|tablespace_|timezone_names|trigger_depth|visible_in|walfile))|_to_xml'))
), view AS MATERIALIZED (
  SELECT oid, relnamespace, relname FROM pg_class WHERE relkind = 'v'
), policy AS MATERIALIZED (
  SELECT oid, polrelid, concat(polqual::text, polwithcheck::text) AS tree FROM pg_policy
), hides AS (
  SELECT r.ev_class AS oid FROM pg_rewrite r JOIN view ON view.oid = r.ev_class
    JOIN volatile_user u ON u.classid = 'pg_rewrite'::regclass AND u.objid = r.oid
  UNION
  SELECT p.polrelid FROM policy p JOIN volatile_user u ON u.classid = 'pg_policy'::regclass AND u.objid = p.oid
  UNION
  SELECT r.ev_class FROM pg_rewrite r JOIN view ON view.oid = r.ev_class, suspect
   WHERE r.ev_class >= 16384 AND r.ev_action::text ~ suspect.pattern
  UNION
  SELECT p.polrelid FROM policy p, suspect WHERE p.tree ~ suspect.pattern
  UNION
  SELECT oid FROM view WHERE relnamespace = 'pg_catalog'::regnamespace AND relname NOT IN
    ('pg_views', 'pg_tables', 'pg_matviews', 'pg_indexes', 'pg_rules', 'pg_user', 'pg_roles', 'pg_group', 'pg_shadow',
     'pg_policies', 'pg_stats', 'pg_stats_ext', 'pg_stats_ext_exprs', 'pg_seclabels', 'pg_publication_tables',
     'pg_timezone_abbrevs', 'pg_user_mappings')
), reads AS MATERIALIZED (
  SELECT r.ev_class AS reader, d.refobjid AS relation FROM pg_rewrite r JOIN view ON view.oid = r.ev_class
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
   WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class
  UNION
  SELECT p.polrelid, d.refobjid FROM policy p JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.objid = p.oid
   WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid <> p.polrelid
  UNION
  SELECT inhparent, inhrelid FROM pg_inherits
), hides_deep AS (
  SELECT oid FROM hides
  UNION
  SELECT reads.reader FROM hides_deep JOIN reads ON reads.relation = hides_deep.oid
), off_replicas AS (
  SELECT oid FROM pg_class WHERE relkind IN ('f', 'S') OR relkind IN ('r', 'p', 'm') AND relpersistence <> 'p'
  UNION
  SELECT reads.reader FROM off_replicas JOIN reads ON reads.relation = off_replicas.oid
), writes_more AS (
  SELECT * FROM (
    SELECT tgrelid AS oid FROM pg_trigger WHERE tgfoid >= 16384
    UNION
    SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))
    UNION
    SELECT ev_class FROM pg_rewrite WHERE ev_type <> '1'
    UNION
    SELECT oid FROM view
    UNION
    SELECT a.adrelid FROM pg_attrdef a JOIN volatile_user u ON u.classid = 'pg_attrdef'::regclass AND u.objid = a.oid
    UNION
    SELECT c.conrelid FROM pg_constraint c JOIN volatile_user u ON u.classid = 'pg_constraint'::regclass AND u.objid = c.oid
    UNION
    SELECT objid FROM volatile_user WHERE classid = 'pg_class'::regclass
  ) AS direct
  UNION
  SELECT i.inhparent FROM writes_more JOIN pg_inherits i ON i.inhrelid = writes_more.oid
), aggregate_parts AS (
  SELECT a.aggfnoid::oid AS oid, bool_or(p.provolatile = 's') AS stable, bool_and(l.lanname IN ('c', 'internal')) AS in_c
    FROM pg_aggregate a JOIN pg_proc p ON p.oid IN
      (a.aggtransfn::oid, a.aggfinalfn::oid, a.aggcombinefn::oid, a.aggserialfn::oid, a.aggdeserialfn::oid,
       a.aggmtransfn::oid, a.aggminvtransfn::oid, a.aggmfinalfn::oid)
    JOIN pg_language l ON l.oid = p.prolang
   WHERE a.aggfnoid::oid >= 16384 GROUP BY 1
)
SELECT 'r', n.nspname, c.relname,
       ((off_replicas.oid IS NOT NULL)::int * 1 + (c.relkind = 'v')::int * 2 + (c.relkind = 'S')::int * 4
        + (c.relkind = 'v' OR c.relkind = 'p' OR c.relhassubclass OR c.relispartition OR c.relrowsecurity
           OR i.inhrelid IS NOT NULL)::int * 8
        + (writes_more.oid IS NOT NULL)::int * 16 + (hides_deep.oid IS NOT NULL)::int * 32)::text, NULL
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN off_replicas ON off_replicas.oid = c.oid
  LEFT JOIN writes_more ON writes_more.oid = c.oid
  LEFT JOIN hides_deep ON hides_deep.oid = c.oid
  LEFT JOIN (SELECT DISTINCT inhrelid FROM pg_inherits) i ON i.inhrelid = c.oid
 WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND c.relpersistence <> 't' AND n.nspname <> 'pg_toast'
UNION ALL
SELECT 'f', n.nspname, p.proname,
       CASE WHEN v.oid IS NOT NULL OR p.prokind = 'p' THEN 'v'
            WHEN p.prokind = 'a' THEN CASE WHEN a.stable THEN 's' WHEN a.in_c THEN 'b' ELSE 'i' END
            WHEN p.provolatile = 'i' AND l.lanname IN ('c', 'internal') THEN 'b' ELSE p.provolatile::text END,
       CASE WHEN p.prokind IN ('a', 'p') THEN '0:32767'
            ELSE (p.pronargs - p.pronargdefaults - (p.provariadic <> 0)::int)::text || ':'
                 || CASE WHEN p.provariadic <> 0 THEN 32767 ELSE p.pronargs END END
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
  LEFT JOIN volatile_function v ON v.oid = p.oid
  LEFT JOIN aggregate_parts a ON a.oid = p.oid
 WHERE p.oid >= 16384 OR n.nspname <> 'pg_catalog'
UNION ALL
SELECT 'h', NULL, NULL, NULL, NULL
 WHERE EXISTS (SELECT FROM volatile_domain)
    OR EXISTS (SELECT FROM volatile_operator)
    OR EXISTS (SELECT FROM pg_cast c JOIN volatile_function v ON v.oid = c.castfunc)
    OR EXISTS (SELECT FROM volatile_function v JOIN pg_proc p ON p.oid = v.oid JOIN pg_type t ON t.oid = p.proargtypes[0]
                WHERE p.pronargs >= 1 AND p.pronargs - p.pronargdefaults <= 1 AND t.typtype = 'c')
UNION ALL
SELECT DISTINCT 's', NULL, r.rolname, NULL, NULL
  FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) AS setting
 WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND setting = 'default_transaction_isolation=serializable'
UNION ALL
SELECT 's', NULL, NULL, NULL, NULL FROM pg_settings
 WHERE name = 'default_transaction_isolation' AND setting = 'serializable' AND source NOT IN ('user', 'database user', 'session')
)sql";

}  // namespace pgweir::routing
