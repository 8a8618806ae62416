// The SQL that reads a database's catalog for CatalogBuilder, on PostgreSQL 14 to 18 and with no
// more than an ordinary login's rights. It takes no lock on what it reads about: catalogs are read
// as tables, and nothing is deparsed.
#pragma once

#include <string_view>

namespace pgweir::routing {

/// The session that reads the catalog: no object of the database may stand in for a built-in one,
/// and compiling this query would cost more than running it. What a CTE gives the planner can only
/// guess; joins of two of them by nested loops took 77 s for 50,000 relations, without them 2 s.
inline constexpr std::string_view kCatalogSession =
    "SET search_path = pg_catalog, pg_temp; SET jit = off; SET enable_nestloop = off";

/// Everything in one statement, thus of one snapshot. Rows are a letter, an oid, and five fields:
///   r  a relation: schema, name, relkind and relpersistence
///   f  a function that is not built in: schema, name; kind, volatility, 1 when it may be called as
///      x.name, and language; least:most arguments; its source, or the library of one in C
///   b  a built-in function that is not immutable: -, name, -, number of arguments
///   o  an operator, t a type: schema, name
///   d  an edge: class of the oid, the other oid, when (a set of sql::use), its class, use
///   i  a partition or child: -, its parent
///   l  a view that locks rows
///   n  a relation whose rule does something INSTEAD: -, -, of which uses
///   x  the function of an event trigger, c of a cast that needs no name
///   s  a role (-, name) whose transactions are not read committed by default, but (how) serializable or
///      repeatable read; no name: all roles
/// Classes are r, f, o and t as above. Temporary relations are left out: nobody here can name those
/// of other sessions.
///
/// pg_depend does not tell of built-in functions, so stored trees are searched for them, where a
/// call stands as ":funcid <oid> ", and a FOR UPDATE or SHARE, which no standby can do either, as
/// "{ROWMARKCLAUSE ", and what a rule does as ":commandType n " (1 SELECT, 2 UPDATE, 3 INSERT, 4
/// DELETE, 5 MERGE). What foreign keys look up is left out where it only confirms what stands
/// there, but for the rows that an INSERT or DELETE asks for. Objects below 16384 came with initdb. The numbers are those of sql::use: 1
/// read, 2 insert, 4 update, 8 delete, 16 truncate, 32 truncate cascade, 64 refresh, 128 call.
inline constexpr std::string_view kCatalogQuery = R"sql(
WITH
domain AS MATERIALIZED (
  SELECT oid FROM pg_type WHERE typtype = 'd'
), cast_type AS MATERIALIZED (
  SELECT castsource AS oid FROM pg_cast WHERE castfunc >= 16384
  UNION SELECT casttarget FROM pg_cast WHERE castfunc >= 16384
), domain_column AS MATERIALIZED (
  SELECT oid AS type, oid AS domain FROM domain
  UNION ALL SELECT array_type.oid, domain.oid FROM domain JOIN pg_type array_type ON array_type.typelem = domain.oid
   WHERE array_type.typcategory = 'A'
), used_domain AS MATERIALIZED (
  SELECT a.attrelid, d.domain FROM pg_attribute a JOIN domain_column d ON d.type = a.atttypid
   WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid >= 16384
), user_type AS MATERIALIZED (
  SELECT oid FROM domain UNION SELECT oid FROM cast_type WHERE oid >= 16384
), dependency AS MATERIALIZED (
  SELECT DISTINCT classid, objid, refclassid, refobjid FROM pg_depend
   WHERE (classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass)
          AND refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass))
      OR (classid IN ('pg_attrdef'::regclass, 'pg_constraint'::regclass, 'pg_proc'::regclass, 'pg_class'::regclass)
          AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))
      OR (classid = 'pg_proc'::regclass AND refclassid = 'pg_class'::regclass)
), target AS MATERIALIZED (
  SELECT classid, objid, CASE WHEN refclassid = 'pg_class'::regclass THEN 'r' WHEN refclassid = 'pg_proc'::regclass THEN 'f'
                              WHEN refclassid = 'pg_operator'::regclass THEN 'o' ELSE 't' END AS class, refobjid AS oid
    FROM dependency
   WHERE refclassid <> 'pg_type'::regclass OR refobjid IN (SELECT oid FROM user_type)
), rule AS MATERIALIZED (
  SELECT r.oid, r.ev_class AS relation, r.ev_type, r.ev_action::text AS tree,
         CASE WHEN r.ev_type = '1' AND c.relkind = 'm' THEN 64 WHEN r.ev_type = '1' THEN 15
              WHEN r.ev_type = '2' THEN 4 WHEN r.ev_type = '3' THEN 2 ELSE 8 END AS uses,
         CASE WHEN r.ev_type = '1' THEN 1 WHEN r.ev_action::text ~ ':commandType [1245] ' THEN 15 ELSE 2 END AS does
    FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.ev_class >= 16384
), policy AS MATERIALIZED (
  SELECT p.oid, p.polrelid AS relation, concat(p.polqual::text, p.polwithcheck::text) AS tree,
         CASE p.polcmd WHEN '*' THEN 15 WHEN 'r' THEN 13 WHEN 'a' THEN 2 WHEN 'w' THEN 4 ELSE 8 END AS uses
    FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relrowsecurity
), atomic AS MATERIALIZED (
  SELECT oid, prosqlbody::text AS tree, CASE WHEN prosqlbody::text ~ ':commandType [245] ' THEN 15
              WHEN prosqlbody::text ~ ':commandType 3 ' THEN CASE WHEN prosqlbody::text ~ ':commandType 1 ' THEN 3 ELSE 2 END ELSE 1 END AS uses
    FROM pg_proc WHERE prosqlbody IS NOT NULL AND pronamespace <> 'pg_catalog'::regnamespace
), called AS MATERIALIZED (
  SELECT DISTINCT class, relation, uses, split_part(piece, ' ', 1)::oid AS oid
    FROM (SELECT 'r' AS class, relation, uses, tree FROM rule UNION ALL SELECT 'r', relation, uses, tree FROM policy
          UNION ALL SELECT 'f', oid, 128, tree FROM atomic
          UNION ALL SELECT 'f', oid, 128, proargdefaults::text FROM pg_proc WHERE proargdefaults IS NOT NULL AND oid >= 16384) AS trees,
         unnest((string_to_array(tree, ':funcid '))[2:]) AS piece
), edge AS (
  SELECT 'r' AS class, rule.relation AS oid, CASE WHEN t.class = 'r' AND rule.uses = 15 THEN 1 ELSE rule.uses END AS uses,
         t.class AS to_class, t.oid AS to_oid,
         CASE WHEN t.class <> 'r' THEN 128 WHEN rule.ev_type = '1' THEN 1 ELSE rule.does END AS to_uses
    FROM rule JOIN target t ON t.classid = 'pg_rewrite'::regclass AND t.objid = rule.oid
   WHERE t.class <> 'r' OR t.oid <> rule.relation
  UNION ALL
  SELECT 'r', rule.relation, w.uses, 'r', t.oid, w.uses
    FROM rule JOIN target t ON t.classid = 'pg_rewrite'::regclass AND t.objid = rule.oid, (VALUES (2), (4), (8)) AS w(uses)
   WHERE rule.ev_type = '1' AND rule.uses = 15 AND t.class = 'r' AND t.oid <> rule.relation
  UNION ALL
  SELECT 'r', policy.relation, policy.uses, t.class, t.oid, CASE WHEN t.class = 'r' THEN 1 ELSE 128 END
    FROM policy JOIN target t ON t.classid = 'pg_policy'::regclass AND t.objid = policy.oid
   WHERE t.class <> 'r' OR t.oid <> policy.relation
  UNION ALL
  SELECT class, relation, uses, 'f', oid, 128 FROM called
  UNION ALL
  SELECT 'r', tgrelid, (tgtype & 4) / 2 + (tgtype & 8) + (tgtype & 16) / 4 + (tgtype & 32) / 2, 'f', tgfoid, 128
    FROM pg_trigger WHERE tgfoid >= 16384 AND tgenabled <> 'D'
  UNION ALL
  SELECT 'r', confrelid, 8, 'r', conrelid, CASE confdeltype WHEN 'c' THEN 8 WHEN 'n' THEN 4 WHEN 'd' THEN 4 ELSE 1 END
    FROM pg_constraint WHERE contype = 'f'
  UNION ALL
  SELECT 'r', confrelid, 4, 'r', conrelid, 4 FROM pg_constraint WHERE contype = 'f' AND confupdtype IN ('c', 'n', 'd')
  UNION ALL
  SELECT 'r', confrelid, 32, 'r', conrelid, 48 FROM pg_constraint WHERE contype = 'f'
  UNION ALL
  SELECT 'r', conrelid, 2, 'r', confrelid, 1 FROM pg_constraint WHERE contype = 'f'
  UNION ALL
  SELECT 'r', a.adrelid, CASE WHEN c.attgenerated = 'v' THEN 7 WHEN c.attgenerated = 's' THEN 6 ELSE 2 END, t.class, t.oid, 128
    FROM target t JOIN pg_attrdef a ON a.oid = t.objid
    JOIN pg_attribute c ON c.attrelid = a.adrelid AND c.attnum = a.adnum
   WHERE t.classid = 'pg_attrdef'::regclass
  UNION ALL
  SELECT CASE WHEN c.contypid <> 0 THEN 't' ELSE 'r' END, CASE WHEN c.contypid <> 0 THEN c.contypid ELSE c.conrelid END,
         CASE WHEN c.contypid <> 0 THEN 128 ELSE 6 END, t.class, t.oid, 128
    FROM target t JOIN pg_constraint c ON c.oid = t.objid
   WHERE t.classid = 'pg_constraint'::regclass AND c.contype = 'c'
  UNION ALL
  SELECT 'r', coalesce(i.indrelid, t.objid), 6, t.class, t.oid, 128
    FROM target t LEFT JOIN pg_index i ON i.indexrelid = t.objid WHERE t.classid = 'pg_class'::regclass
  UNION ALL
  SELECT CASE WHEN c.relkind = 'c' THEN 't' ELSE 'r' END, CASE WHEN c.relkind = 'c' THEN c.reltype ELSE c.oid END,
         CASE WHEN c.relkind = 'c' THEN 128 ELSE 6 END, 't', a.domain, 128
    FROM used_domain a JOIN pg_class c ON c.oid = a.attrelid
   WHERE c.relkind IN ('r', 'p', 'f', 'c')
  UNION ALL
  SELECT 't', oid, 128, 't', typbasetype, 128 FROM pg_type WHERE typtype = 'd' AND typbasetype >= 16384
  UNION ALL
  SELECT 't', castsource, 128, 'f', castfunc, 128 FROM pg_cast WHERE castfunc >= 16384 AND castsource >= 16384
  UNION ALL
  SELECT 't', casttarget, 128, 'f', castfunc, 128 FROM pg_cast WHERE castfunc >= 16384 AND casttarget >= 16384
  UNION ALL
  SELECT 'o', oid, 128, 'f', oprcode::oid, 128 FROM pg_operator WHERE oid >= 16384 AND oprcode::oid <> 0
  UNION ALL
  SELECT 'f', t.objid, 128, t.class, t.oid, CASE WHEN t.class = 'r' THEN atomic.uses ELSE 128 END
    FROM target t LEFT JOIN atomic ON atomic.oid = t.objid
   WHERE t.classid = 'pg_proc'::regclass AND (t.class <> 'r' OR atomic.oid IS NOT NULL)
  UNION ALL
  SELECT 'f', a.aggfnoid::oid, 128, 'f', part, 128
    FROM pg_aggregate a, unnest(ARRAY[a.aggtransfn::oid, a.aggfinalfn::oid, a.aggcombinefn::oid, a.aggserialfn::oid,
      a.aggdeserialfn::oid, a.aggmtransfn::oid, a.aggminvtransfn::oid, a.aggmfinalfn::oid]) AS part
   WHERE a.aggfnoid::oid >= 16384 AND part >= 16384
)
SELECT 'r', c.oid, n.nspname, c.relname, concat(c.relkind, c.relpersistence), NULL, NULL
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND c.relpersistence <> 't' AND n.nspname <> 'pg_toast'
UNION ALL
SELECT 'f', p.oid, n.nspname, p.proname,
       concat(p.prokind, p.provolatile, CASE WHEN p.pronargs - p.pronargdefaults <= 1 AND p.pronargs >= 1 AND t.typtype IN ('c', 'p', 'd') THEN '1' ELSE '0' END,
              CASE WHEN p.prosqlbody IS NOT NULL THEN 'atomic' ELSE l.lanname END),
       CASE WHEN p.prokind IN ('a', 'p') THEN '0:32767'
            ELSE (p.pronargs - p.pronargdefaults - (p.provariadic <> 0)::int)::text || ':'
                 || CASE WHEN p.provariadic <> 0 THEN 32767 ELSE p.pronargs END END,
       CASE l.lanname WHEN 'plpgsql' THEN p.prosrc WHEN 'sql' THEN p.prosrc WHEN 'c' THEN p.probin::text END
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
  LEFT JOIN pg_type t ON t.oid = p.proargtypes[0]
 WHERE p.oid >= 16384 OR n.nspname <> 'pg_catalog'
UNION ALL
SELECT 'b', oid, NULL, proname, NULL, pronargs::text, NULL FROM pg_proc
 WHERE oid < 16384 AND pronamespace = 'pg_catalog'::regnamespace AND provolatile <> 'i'
UNION ALL
SELECT 'o', o.oid, NULL, o.oprname, NULL, NULL, NULL FROM pg_operator o WHERE o.oid >= 16384
UNION ALL
SELECT 't', t.oid, n.nspname, t.typname, NULL, NULL, NULL FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE t.oid IN (SELECT oid FROM user_type)
UNION ALL
SELECT 'd', oid, class, to_oid::text, uses::text, to_class, to_uses::text FROM edge
UNION ALL
SELECT 'i', inhrelid, NULL, inhparent::text, NULL, NULL, NULL FROM pg_inherits
UNION ALL
SELECT 'l', relation, NULL, NULL, NULL, NULL, NULL FROM rule WHERE uses = 15 AND strpos(tree, '{ROWMARKCLAUSE ') > 0
UNION ALL
SELECT 'n', ev_class, NULL, NULL, CASE ev_type WHEN '2' THEN '4' WHEN '3' THEN '2' ELSE '8' END, NULL, NULL
  FROM pg_rewrite WHERE is_instead AND ev_type <> '1' AND ev_qual::text = '<>'
UNION ALL
SELECT 'x', evtfoid, NULL, NULL, NULL, NULL, NULL FROM pg_event_trigger WHERE evtenabled <> 'D' AND evtevent LIKE 'ddl%'
UNION ALL
SELECT 'c', castfunc, NULL, NULL, NULL, NULL, NULL FROM pg_cast WHERE castfunc >= 16384 AND (castcontext <> 'e' OR casttarget < 16384)
UNION ALL
SELECT DISTINCT 's', 0::oid, NULL, r.rolname, split_part(setting, '=', 2), NULL, NULL
  FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) AS setting
 WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND setting IN ('default_transaction_isolation=serializable', 'default_transaction_isolation=repeatable read')
UNION ALL
SELECT 's', 0::oid, NULL, NULL, setting, NULL, NULL FROM pg_settings
 WHERE name = 'default_transaction_isolation' AND setting IN ('serializable', 'repeatable read') AND source NOT IN ('user', 'database user', 'session')
)sql";

}  // namespace pgweir::routing
