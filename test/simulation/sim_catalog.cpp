#include "sim_catalog.h"

#include "base/text.h"
#include "tokens/lsn.h"

namespace pgweir::sim {
namespace {

using monitor::Rows;
using Cell = std::optional<std::string>;

/// What tells this instance from another one, and this life of it from an earlier one.
std::string identity(const SimNode& node) { return concat({node.started_at(), "/", node.host()}); }

Rows poll_answer(SimNode& node) {
  const bool standby = !node.is_primary();
  return {{standby ? "t" : "f", tokens::to_string(standby ? node.replay_lsn() : node.insert_lsn()),
           standby ? Cell(tokens::to_string(node.receive_lsn())) : std::nullopt,
           SimCluster::kSystemId, std::to_string(node.timeline()), "t", identity(node), "8192",
           "16777216", "1000"}};
}

/// Of the tables and functions that the workloads name. `hidden_write` is declared stable and
/// written in C: the catalog does not reveal what it does.
Rows catalog_answer(SimNode& node) {
  const Versions& versions = node.cluster().truth().record(node.applied()).versions;
  Rows rows;
  for (std::size_t i = 0; i < kTables; ++i) {
    if (i == kFreshTable && versions[i] == 0) continue;
    rows.push_back({"r", std::to_string(20'000 + i), "public", std::string(table_name(i)), "rp",
                    std::nullopt, std::nullopt});
  }
  rows.push_back({"f", "30000", "public", "hidden_write", "fs0c", "1:1", "library"});
  rows.push_back(
      {"f", "30001", "public", "commit_and_fail", "pv0plpython3u", "0:32767", std::nullopt});
  if (node.cluster().truth().catalog_warns) {
    // A cast that nobody has to name, over a function that may do anything.
    rows.push_back({"f", "30002", "public", "cast_it", "fv0c", "1:1", "library"});
    rows.push_back(
        {"c", "30002", std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt});
  }
  return rows;
}

}  // namespace

std::optional<Rows> system_answer(SimNode& node, std::string_view sql) {
  const auto asks = [sql](std::string_view what) {
    return sql.find(what) != std::string_view::npos;
  };
  if (asks("pg_rewrite")) return catalog_answer(node);
  if (asks("pg_settings WHERE name IN")) return Rows{{"TimeZone", "UTC"}, {"server_version", std::to_string(node.cluster().truth().server_version)}};
  if (asks("wal_block_size")) return poll_answer(node);
  if (asks("pg_current_wal_insert_lsn") && asks("concat(")) {
    return Rows{{node.is_primary() ? "f" : "t",
                 node.is_primary() ? Cell(tokens::to_string(node.insert_lsn())) : std::nullopt,
                 identity(node)}};
  }
  if (asks("pg_listening_channels")) return Rows{{"f"}};  // No procedure here makes more than a setting.
  if (asks("system_identifier") && asks("pg_postmaster_start_time")) {
    return Rows{{SimCluster::kSystemId, asks("concat(") ? identity(node) : node.started_at()}};
  }
  if (asks("pg_last_wal_replay_lsn")) {
    ++node.cluster().truth().positions_asked;
    const Cell position =
        node.is_primary() ? std::nullopt : Cell(tokens::to_string(node.replay_lsn()));
    if (!asks("timeline_id")) return Rows{{position}};
    return Rows{{position, std::to_string(node.timeline())}};
  }
  if (sql == "SELECT 1") return Rows{{"1"}};
  return std::nullopt;
}

}  // namespace pgweir::sim
