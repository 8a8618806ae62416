#include "seed_run.h"

#include <algorithm>

#include "base/text.h"
#include "config/settings_table.h"
#include "troubles.h"
#include "workload.h"

namespace pgweir::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Settings whose rows say what is worth drawing, and which leave every promise in force.
constexpr const char* kDrawn[] = {
    "catalog_refresh",    "classify_cache_size", "default_pool_size", "max_prepared_statements",
    "lsn_check",          "read_only_transactions", "transaction_reads",
    "max_replica_lag",    "max_unit_buffer",     "min_pool_size",     "monitor_interval",
    "pool_mode",          "query_wait_notify",   "read_consistency",  "read_split",
    "pin_window",         "table_window",
    "replica_pool_size",  "replica_wait",        "reserve_pool_size", "reserve_pool_timeout",
    "server_check_delay", "server_idle_timeout", "server_lifetime",   "server_reset_query_always",
    "server_round_robin",
};
/// Those that end waits with an error: only where errors are fair.
constexpr const char* kDrawnInTrouble[] = {"query_wait_timeout", "server_connect_timeout",
                                           "server_login_retry", "max_db_connections"};

void draw(Dice& dice, const char* name, std::map<std::string, std::string>& settings) {
  const config::Row* row = config::find_row(name);
  if (!row || row->sim.empty()) return;
  const std::vector<std::string_view> values = split(row->sim, ',');
  settings[name] = std::string(values[dice.below(values.size())]);
}

std::map<std::string, std::string> draw_settings(Dice& dice, bool trouble) {
  std::map<std::string, std::string> settings;
  for (const char* name : kDrawn) {
    if (dice.chance(600)) draw(dice, name, settings);
  }
  if (dice.chance(600)) settings["monitor_interval"] = "0.05";
  // These two decide what a run is about; their defaults are not the usual case.
  draw(dice, "pool_mode", settings);
  draw(dice, "read_consistency", settings);
  for (const char* name : kDrawnInTrouble) {
    if (trouble && dice.chance(500)) draw(dice, name, settings);
  }
  settings.try_emplace("server_login_retry", "0.5");
  return settings;
}

/// Some tables, or all that are not named, are read by a rule of their own.
std::string draw_table_rules(Dice& dice) {
  static constexpr const char* kRules[] = {"eventual", "session", "table", "latest", "primary", "pin", "window 0.02", "window 0.2", "window p99.9", "lag 0.05", "lag 1min", "lag 1kB"};
  const auto rule = [&dice] { return kRules[dice.below(std::size(kRules))]; };
  std::string lines;
  if (dice.chance(600)) return lines;
  if (dice.chance(250)) lines += concat({"t* = ", rule(), "\n"});
  for (std::size_t i = 0; i < kFreshTable; ++i) {
    if (dice.chance(250)) lines += concat({table_name(i), " = ", rule(), "\n"});
  }
  return lines;
}

std::vector<Trouble> draw_troubles(Dice& dice) {
  std::vector<Trouble> kinds;
  if (dice.chance(200)) return kinds;
  for (int i = 0; i < kTroubles; ++i) {
    if (dice.chance(180)) kinds.push_back(static_cast<Trouble>(i));
  }
  return kinds;
}

/// Few writes leave much to the replicas, many make them race.
Habits draw_habits(Dice& dice) {
  Habits habits;
  habits.writes = dice.between(20, 250);
  habits.transactions = dice.between(10, 120);
  habits.hidden_writes = dice.between(10, 60);
  habits.keys = dice.chance(300) ? 120 : 15;
  habits.think_max_us = dice.chance(500) ? 4000 : 15'000;
  return habits;
}

/// Lag and the like delay; they are no reason for an error.
bool breaks_things(const std::vector<Trouble>& kinds) {
  for (Trouble kind : kinds) {
    switch (kind) {
      case Trouble::lag:
      case Trouble::stalls:
      case Trouble::slow_network:
      case Trouble::reloads:
      case Trouble::pauses:
      case Trouble::stray_promotion:
      case Trouble::late_captures:
      case Trouble::direct_writes:
        break;
      case Trouble::resets:
      case Trouble::conflicts:
      case Trouble::replica_crash:
      case Trouble::primary_restart:
      case Trouble::fail_over:
      case Trouble::partition:
      case Trouble::half_open:
      case Trouble::refused_logins:
      case Trouble::fault_places:
        return true;
    }
  }
  return false;
}

bool troubles_have(const std::vector<Trouble>& kinds, Trouble kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// The most that one pooler transport may keep for a peer that does not read: a read of the other
/// side, a unit, and the little that is said on top.
constexpr std::size_t kKeptMax = 256 * 1024;
/// Longest virtual time from the end of all trouble until everybody is served: the longest drawn
/// time-outs together.
constexpr Duration kQuietMax = seconds{150};

}  // namespace

RunResult run_seed(const RunOptions& options) {
  Dice dice(options.seed ^ 0x5eed5eed5eedU);
  std::vector<Trouble> kinds = draw_troubles(dice);
  WorldOptions world_options;
  world_options.seed = options.seed;
  world_options.print_trace = options.print_trace;
  world_options.nodes = dice.chance(80) ? 1 : dice.between(2, 4);
  world_options.settings = draw_settings(dice, breaks_things(kinds));
  if (dice.chance(300)) world_options.password = "secret";
  world_options.table_rules = draw_table_rules(dice);
  SimWorld world(world_options);
  world.truth.catalog_warns = dice.chance(300);
  if (const auto how = world_options.settings.find("lsn_check"); how != world_options.settings.end() && how->second == "wait")
    world.truth.server_version = dice.chance(800) ? 19 : 18;
  world.cluster.asynchronous_commit = dice.chance(300);
  world.cluster.reports_at_once = dice.chance(300);
  world.clients.roles_move = troubles_have(kinds, Trouble::fail_over);
  world.clients.trouble = breaks_things(kinds);
  Troubles troubles(world, dice.fork(), kinds);

  RunResult result;
  for (const auto& [name, value] : world_options.settings)
    result.summary += concat({name, "=", value, " "});
  for (const std::string_view rule : split(world_options.table_rules, '\n')) {
    if (!rule.empty()) result.summary += concat({"[", rule, "] "});
  }
  result.summary +=
      concat({"| nodes=", std::to_string(world_options.nodes), " ", troubles.describe()});
  world.loop.note(result.summary);

  world.start();
  // Some clients come at once, usually the cluster and its catalog are known by then.
  if (dice.chance(800)) world.loop.run_for(milliseconds{2500});
  Workload workload(world.clients, dice.fork(), draw_habits(dice), dice.between(3, 9));
  workload.start();
  world.loop.run_for(milliseconds{200});
  troubles.start();
  const std::uint64_t enough = workload.answered() + 800;
  world.loop.run_for(seconds{4},
                     [&] { return world.truth.failed() || workload.answered() > enough; });
  // Safety has had its time; now liveness.
  troubles.heal();
  workload.finish();
  workload.nudge();
  const Time deadline = world.loop.now() + kQuietMax;
  world.loop.run_until(deadline, [&] { return world.truth.failed() || workload.finished(); });
  if (!world.truth.failed() && !workload.finished()) {
    world.truth.fail("after the quiet some are still not served: " + workload.unfinished());
  }
  world.truth.ensure(world.network.kept_max() <= kKeptMax,
                     concat({"a connection kept ", std::to_string(world.network.kept_max()),
                             " bytes for a slow peer"}));

  result.failure = world.truth.failure();
  result.last_events = world.loop.trace().tail();
  result.hash = world.loop.trace().hash();
  result.events = world.loop.events();
  result.summary += concat({" | units=", std::to_string(workload.answered()),
                            " replica=", std::to_string(world.truth.reads_on_replicas),
                            " primary=", std::to_string(world.truth.reads_on_primary),
                            " moved=", std::to_string(world.truth.block_reads_moved),
                            " whole=", std::to_string(world.truth.blocks_on_replicas),
                            " windows=", std::to_string(world.truth.windows_met),
                            " asked=", std::to_string(world.truth.positions_asked),
                            " refused=", std::to_string(world.truth.writes_refused_by_standby),
                            " cancels=", std::to_string(world.truth.cancels_hit),
                            " kept=", std::to_string(world.network.kept_max()),
                            " events=", std::to_string(result.events),
                            " turns=", std::to_string(world.loop.turns())});
  return result;
}

}  // namespace pgweir::sim
