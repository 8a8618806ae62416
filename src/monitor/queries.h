// What the monitor asks nodes, on PostgreSQL 14 to 18 and with no more than an ordinary login's
// rights (pg_monitor helps).
#pragma once

#include <string_view>

namespace pgweir::monitor {

/// One row about the node, ten columns:
///   0 in recovery (t, f)                     5 the timeline is certain (t, f): see below
///   1 a standby's replay, a primary's insert LSN    6 identity, as in routing::kIdentityQuery
///   2 a standby's received LSN               7 wal_block_size
///   3 system identifier                      8 wal_segment_size, in bytes
///   4 timeline                               9 when the configuration was loaded
///
/// A primary's timeline stands in the name of the WAL file it writes; its control file would say
/// the old one until the first checkpoint after a promotion. A standby's is received_tli, which
/// only pg_monitor may see; what the control file says may be old, and is all that an ordinary
/// login gets.
///
/// A standby refuses a role that is serializable by default, hence the first statement; both are
/// one implicit transaction.
inline constexpr std::string_view kPollQuery = R"sql(
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT r.in_recovery,
       CASE WHEN r.in_recovery THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END,
       CASE WHEN r.in_recovery THEN pg_last_wal_receive_lsn() END,
       (SELECT system_identifier FROM pg_control_system()),
       CASE WHEN r.in_recovery THEN greatest(w.received_tli, (SELECT timeline_id FROM pg_control_checkpoint()),
                                             (SELECT min_recovery_end_timeline FROM pg_control_recovery()))
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int END,
       NOT r.in_recovery OR w.received_tli IS NOT NULL,
       concat(extract(epoch FROM pg_postmaster_start_time()), '/', extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())),
       current_setting('wal_block_size'),
       pg_size_bytes(current_setting('wal_segment_size')),
       extract(epoch FROM pg_conf_load_time())
  FROM (SELECT pg_is_in_recovery() AS in_recovery) r LEFT JOIN pg_stat_wal_receiver w ON true)sql";

/// The group capture: (in recovery, insert LSN, identity without the system identifier). On a
/// standby the LSN is NULL.
inline constexpr std::string_view kCaptureQuery =
    "SELECT pg_is_in_recovery(), CASE WHEN NOT pg_is_in_recovery() THEN "
    "pg_current_wal_insert_lsn() END, "
    "concat(extract(epoch FROM pg_postmaster_start_time()), '/', extract(epoch FROM "
    "pg_stat_get_bgwriter_stat_reset_time()))";

/// (name, value) of all that may make the same statement give another answer on another node.
/// Values are those a new session starts with, whatever the asking session has set.
inline constexpr std::string_view kSettingsQuery = R"sql(
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT name, reset_val FROM pg_settings WHERE name IN
  ('TimeZone', 'timezone_abbreviations', 'DateStyle', 'IntervalStyle', 'search_path', 'bytea_output', 'extra_float_digits',
   'lc_monetary', 'lc_numeric', 'lc_time', 'default_text_search_config', 'default_transaction_isolation',
   'standard_conforming_strings', 'xmlbinary', 'xmloption', 'array_nulls', 'transform_null_equals', 'quote_all_identifiers',
   'row_security', 'session_replication_role', 'server_encoding', 'block_size', 'max_function_args', 'max_index_keys')
UNION ALL SELECT 'server_version', (current_setting('server_version_num')::int / 10000)::text
UNION ALL (SELECT 'collation version of ' || collname, coalesce(pg_collation_actual_version(oid), '') FROM pg_collation
            WHERE collprovider = 'c' AND collcollate !~ '^(C|POSIX)' ORDER BY oid LIMIT 1)
UNION ALL (SELECT 'collation version of ' || collname, coalesce(pg_collation_actual_version(oid), '') FROM pg_collation
            WHERE collprovider = 'i' ORDER BY oid LIMIT 1)
ORDER BY 1)sql";

/// What helps a login that can't see a standby's timeline.
inline constexpr std::string_view kGrantHelp = "GRANT pg_monitor TO ";

}  // namespace pgweir::monitor
