#include "admin/commands.h"

#include <algorithm>
#include <cctype>

#include "admin/orders.h"
#include "admin/shows.h"
#include "base/text.h"
#include "config/settings_table.h"

namespace pgweir::admin {
namespace {

constexpr auto kAdmin = Access::admin;

// A table: one row for each.
// clang-format off
constexpr Command kCommands[] = {
    {.words = "SHOW HELP", .doc = "Lists the commands.", .differs = "The list is pgweir's.", .run = show_help},
    {.words = "SHOW CLIENTS", .columns = kClientColumns, .doc = "One row for each client.", .run = show_clients},
    {.words = "SHOW SERVERS", .columns = kClientColumns, .doc = "One row for each connection to PostgreSQL.", .run = show_servers},
    {.words = "SHOW SOCKETS", .columns = kSocketColumns, .doc = "Clients and servers together.", .differs = "The seven columns on buffers are 0: a connection has no buffer between two messages.", .run = show_sockets},
    {.words = "SHOW ACTIVE_SOCKETS", .columns = kSocketColumns, .doc = "Those of them that are at work.", .differs = "The seven columns on buffers are 0: a connection has no buffer between two messages.", .run = show_active_sockets},
    {.words = "SHOW POOLS", .columns = kPoolColumns, .doc = "One row for each (database, user), summed over its nodes.", .run = show_pools},
    {.words = "SHOW PEERS", .columns = kPeerColumns, .doc = "The lines of [peers].", .run = show_peers},
    {.words = "SHOW PEER_POOLS", .columns = kPeerPoolColumns, .doc = "Connections that pass cancel requests on to peers.", .run = show_peer_pools},
    {.words = "SHOW DATABASES", .columns = kDatabaseColumns, .doc = "The lines of [databases], and what `*` made.", .run = show_databases},
    {.words = "SHOW USERS", .columns = kUserColumns, .doc = "The users that are known.", .run = show_users},
    {.words = "SHOW STATS", .columns = kStatsColumns, .doc = "Totals since the start and averages over stats_period, for each database; times in microseconds.", .run = show_stats},
    {.words = "SHOW STATS_TOTALS", .columns = kStatsTotalsColumns, .doc = "The totals alone.", .run = show_stats_totals},
    {.words = "SHOW STATS_AVERAGES", .columns = kStatsAveragesColumns, .doc = "The averages alone.", .run = show_stats_averages},
    {.words = "SHOW TOTALS", .columns = kTotalsColumns, .doc = "All databases together.", .run = show_totals},
    {.words = "SHOW LISTS", .columns = kListsColumns, .doc = "How many there are of what.", .run = show_lists},
    {.words = "SHOW CONFIG", .columns = kConfigColumns, .doc = "All settings, their defaults, and whether SET and RELOAD can change them.", .differs = "There are more rows: pgweir's own settings.", .run = show_config},
    {.words = "SHOW STATE", .columns = kKeyValueColumns, .doc = "Whether the pooler is paused.", .run = show_state},
    {.words = "SHOW VERSION", .columns = kVersionColumns, .doc = "The PgBouncer version whose columns these are (announce_version).", .run = show_version},
    {.words = "SHOW MEM", .columns = kMemoryColumns, .doc = "Memory by kind of object.", .differs = "The rows are pgweir's own kinds of objects.", .run = show_memory},
    {.words = "SHOW DNS_HOSTS", .columns = kDnsHostColumns, .doc = "Host names of servers, their addresses, and for how many seconds these are still believed.", .run = show_dns_hosts},
    {.words = "SHOW DNS_ZONES", .columns = kDnsZoneColumns, .doc = "Always empty: the system's resolver knows no zones.", .differs = "It is always empty: the system's resolver knows no zones.", .run = show_nothing},
    {.words = "SHOW FDS", .access = kAdmin, .doc = "Refused: sockets are not handed to another process.", .refused = true,
     .differs = "It is refused. It hands all sockets to a new process that was started with `-R`; `so_reuseport` and `[peers]` restart without a failed query instead.", .run = refuse_fds},
    {.words = "SHOW NODES", .columns = kNodeColumns, .doc = "One row for each node of each database that is in use: role, LSN, lag now and over minutes, connections, and why it gets no reads.", .of_pgbouncer = false, .run = show_nodes},
    {.words = "SHOW ROUTING", .columns = kRoutingColumns, .doc = "Units by database, where they went, and why.", .of_pgbouncer = false, .run = show_routing},
    {.words = "SHOW TABLES", .columns = kTableColumns, .doc = "The last known write of each table of each database that is split, the newest first (at most 1,000 of each): the LSN that a replica must have replayed to be read, or pending until it is asked for. Table `*` concerns all. Where a window counts, for how long a write keeps reads from replicas; and what `[table_rules]` says of the table.", .of_pgbouncer = false, .run = show_tables},
    {.words = "SHOW DEPENDENCIES", .arguments = "<table>", .columns = kDependencyColumns, .doc = "For each way of using that table: the tables that are read and written in the end, through views, triggers, rules, cascades, partitions and functions (`*`: all), and what sends it to the primary.", .of_pgbouncer = false, .run = show_dependencies},
    {.words = "SHOW MISROUTES", .columns = kMisrouteColumns, .doc = "Shapes of statements that a standby refused though text and catalog took them for reads, and that the primary then ran, the last refused first: they go to the primary (reason `learned`) until `misroute_expiry` has passed, for good with NULL, and `RELOAD` forgets them. Literals are shown as `?`.", .of_pgbouncer = false, .run = show_misroutes},
    {.words = "SHOW PGWEIR", .columns = kKeyValueColumns, .doc = "pgweir's own version and state.", .of_pgbouncer = false, .run = show_pgweir},
    {.words = "EXPLAIN ROUTE", .arguments = "<sql>", .columns = kExplainColumns, .doc = "Where that statement would go now in each database that is split, and why.", .of_pgbouncer = false, .run = explain_route},
    {.words = "SHOW CLIENT_ENCODING", .columns = kClientEncodingColumns, .run = show_fixed},
    {.words = "SHOW DEFAULT_TRANSACTION_ISOLATION", .columns = kIsolationColumns, .run = show_fixed},
    {.words = "SHOW STANDARD_CONFORMING_STRINGS", .columns = kStandardStringsColumns, .run = show_fixed},
    {.words = "SHOW DATESTYLE", .columns = kDateStyleColumns, .run = show_fixed},
    {.words = "SHOW TIMEZONE", .columns = kTimeZoneColumns, .run = show_fixed},
    {.words = "RELOAD", .access = kAdmin, .doc = "Reads the configuration and auth_file anew; a bad file changes nothing.", .verb = Verb::reload, .run = give_order},
    {.words = "PAUSE", .arguments = "[db]", .access = kAdmin, .doc = "Lets no new work begin and answers once all servers are free and closed.", .verb = Verb::pause, .run = give_order},
    {.words = "SUSPEND", .access = kAdmin, .doc = "Reads nothing more of clients and servers, and answers once what they were sent has gone out; `suspend_timeout` closes those who don't take it.",
     .differs = "Who connects meanwhile is let in and then waits as all others, so that a new console can say RESUME.", .verb = Verb::suspend, .run = give_order},
    {.words = "RESUME", .arguments = "[db]", .access = kAdmin, .doc = "Ends a PAUSE, KILL or SUSPEND.", .verb = Verb::resume, .run = give_order},
    {.words = "DISABLE", .arguments = "db", .access = kAdmin, .doc = "Refuses new clients of that database.", .verb = Verb::disable, .run = give_order},
    {.words = "ENABLE", .arguments = "db", .access = kAdmin, .doc = "Accepts them again.", .verb = Verb::enable, .run = give_order},
    {.words = "RECONNECT", .arguments = "[db]", .access = kAdmin, .doc = "Replaces each server as soon as it is free.", .verb = Verb::reconnect, .run = give_order},
    {.words = "KILL", .arguments = "[db]", .access = kAdmin, .doc = "Closes all clients and servers at once; the database stays paused.", .verb = Verb::kill, .run = give_order},
    {.words = "KILL_CLIENT", .arguments = "id", .access = kAdmin, .doc = "Closes one client.", .verb = Verb::kill_client, .run = give_order},
    {.words = "WAIT_CLOSE", .arguments = "[db]", .access = kAdmin, .doc = "Answers once no server is left that RECONNECT or RELOAD marked.", .verb = Verb::wait_close, .run = give_order},
    {.words = "SHUTDOWN", .access = kAdmin, .doc = "Ends the process at once.", .verb = Verb::shutdown, .run = give_order},
    {.words = "SHUTDOWN WAIT_FOR_SERVERS", .access = kAdmin, .doc = "Ends it once all servers are free.", .verb = Verb::shutdown_wait_for_servers, .run = give_order},
    {.words = "SHUTDOWN WAIT_FOR_CLIENTS", .access = kAdmin, .doc = "Ends it once all clients have left.", .verb = Verb::shutdown_wait_for_clients, .run = give_order},
    // Drivers set parameters unasked, so SET of those is for everybody; set_setting's callers check the rest.
    {.words = "SET", .arguments = "name = value", .access = kAdmin, .doc = "Changes a setting until the next RELOAD or restart.", .run = set_setting},
};
// clang-format on

std::string name_of(const Command& command) {
  return concat({"`", command.words, command.arguments.empty() ? "" : " ", command.arguments, "`"});
}

bool is_space(char c) noexcept { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view next_word(std::string_view& text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  std::size_t end = 0;
  while (end < text.size() && !is_space(text[end])) ++end;
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

/// What stands behind the command's words, when `text` begins with them.
std::optional<std::string_view> match(std::string_view words, std::string_view text) noexcept {
  while (!words.empty()) {
    const std::string_view word = next_word(words);
    std::string_view given = next_word(text);
    if (word == "SHOW" && equals_ignoring_case(given, "select")) given = word;
    if (!equals_ignoring_case(word, given)) return std::nullopt;
  }
  return trimmed(text);
}

}  // namespace

std::span<const Command> commands() noexcept { return kCommands; }

Result<Found> find_command(std::string_view text) {
  constexpr std::size_t kShownBytesMax = 200;
  std::string_view command_text = trimmed(text);
  if (!command_text.empty() && command_text.back() == ';')
    command_text = trimmed(command_text.substr(0, command_text.size() - 1));
  Found best;
  std::size_t best_words = 0;
  for (const Command& command : kCommands) {
    const std::optional<std::string_view> argument = match(command.words, command_text);
    // The longest wins: SHUTDOWN WAIT_FOR_CLIENTS before SHUTDOWN.
    if (argument && command.words.size() > best_words) {
      best = {&command, *argument};
      best_words = command.words.size();
    }
  }
  if (best.command && (best.argument.empty() || !best.command->arguments.empty())) return best;
  return Error(concat({"invalid command '", text.substr(0, kShownBytesMax), "', use SHOW HELP;"}));
}

std::string_view to_string(Type type) noexcept {
  switch (type) {
    case Type::int4:
      return "int4";
    case Type::int8:
      return "int8";
    case Type::numeric:
      return "numeric";
    case Type::text:
      break;
  }
  return "text";
}

std::vector<GeneratedBlock> migration_blocks() {
  std::string out = "| command | here |\n|---|---|\n";
  for (const Command& command : kCommands) {
    if (!command.of_pgbouncer) continue;
    out += concat({"| ", name_of(command), " | ", config::migration_cell(command.differs), " |\n"});
  }
  return {{"migration-console", std::move(out)}};
}

std::vector<GeneratedBlock> reference_blocks() {
  std::string shows = "| command | who | what it says |\n|---|---|---|\n";
  std::string orders = "| command | what it does |\n|---|---|\n";
  std::string columns;
  for (const Command& command : kCommands) {
    if (command.doc.empty()) continue;
    const std::string name = name_of(command);
    if (command.access == Access::admin) {
      orders += concat({"| ", name, " | ", command.doc, " |\n"});
      continue;
    }
    shows += concat({"| ", name, " | admin_users, stats_users | ", command.doc, " |\n"});
    if (command.columns.empty()) continue;
    columns += concat({"- ", name, ": "});
    for (std::size_t i = 0; i < command.columns.size(); ++i) {
      const Column& column = command.columns[i];
      columns += concat({i == 0 ? "" : ", ", "`", column.name, "`"});
      if (column.type != Type::text) columns += concat({" ", to_string(column.type)});
    }
    columns += '\n';
  }
  return {
      {"shows", std::move(shows)}, {"orders", std::move(orders)}, {"columns", std::move(columns)}};
}

}  // namespace pgweir::admin
