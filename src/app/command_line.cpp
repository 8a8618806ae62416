#include "app/command_line.h"

#include <csignal>

#include "base/text.h"

namespace pgweir::app {
namespace {

// Tables: one row for each.
// clang-format off
constexpr Flag kFlags[] = {
    {.letter = 'd', .name = "daemon", .doc = "run in the background (needs pidfile, and logfile or syslog)"},
    {.letter = 'h', .name = "help", .doc = "say this and end"},
    {.letter = 'q', .name = "quiet", .doc = "don't log to standard error"},
    {.letter = 'R', .name = "reboot", .doc = "refused: says how to restart without it",
     .differs = "It is refused, with status 1 and a line that says what to do: so_reuseport and [peers] replace it (PgBouncer calls it deprecated)."},
    {.letter = 'u', .name = "user", .argument = "NAME", .doc = "run as that user (beats the setting user)"},
    {.letter = 'v', .name = "verbose", .doc = "log more; twice: still more"},
    {.letter = 'V', .name = "version", .doc = "say the version and end",
     .differs = "The first line names pgweir's version, with PgBouncer's behind it; SHOW VERSION is PgBouncer's."},
};
constexpr Signal kSignals[] = {
    {.number = SIGHUP, .name = "HUP", .doc = "reads the configuration and auth_file again, opens the log anew"},
    {.number = SIGINT, .name = "INT", .doc = "gives the TCP port up, pauses, ends when no server is in use"},
    {.number = SIGQUIT, .name = "QUIT", .doc = "ends at once"},
    {.number = SIGTERM, .name = "TERM", .doc = "gives the TCP port up, ends when all clients have left; a second one ends at once"},
    {.number = SIGUSR1, .name = "USR1", .doc = "PAUSE"},
    {.number = SIGUSR2, .name = "USR2", .doc = "RESUME; ignored during a shutdown"},
};
// clang-format on

constexpr std::size_t kUsageColumn = 23;

}  // namespace

std::span<const Flag> flags() noexcept { return kFlags; }
std::span<const Signal> signals() noexcept { return kSignals; }

std::string usage() {
  std::string out =
      "Usage: pgweir [OPTION]... CONFIG_FILE\n"
      "       pgweir classify [OPTION]... [FILE]\n"
      "\n"
      "Pools PostgreSQL connections and sends reads to replicas.\n"
      "\n";
  for (const Flag& flag : kFlags) {
    std::string line = concat({"  -", std::string_view(&flag.letter, 1), ", --", flag.name,
                               flag.argument.empty() ? "" : "=", flag.argument});
    line.resize(std::max(line.size() + 1, kUsageColumn), ' ');
    out += concat({line, flag.doc, "\n"});
  }
  out +=
      "\n"
      "classify reads SQL and says where each statement would go; pgweir classify --help says "
      "more.\n";
  return out;
}

std::vector<config::GeneratedBlock> migration_blocks() {
  std::string flags = "| option | what it does | here |\n|---|---|---|\n";
  for (const Flag& flag : kFlags) {
    flags += concat({"| `-", std::string_view(&flag.letter, 1), "`, `--", flag.name,
                     flag.argument.empty() ? "" : "=", flag.argument, "` | ", flag.doc, " | ",
                     config::migration_cell(flag.differs), " |\n"});
  }
  std::string signals = "| signal | what it does | here |\n|---|---|---|\n";
  for (const Signal& signal : kSignals) {
    signals += concat({"| ", signal.name, " | ", signal.doc, " | ",
                       config::migration_cell(signal.differs), " |\n"});
  }
  return {{"migration-flags", std::move(flags)}, {"migration-signals", std::move(signals)}};
}

}  // namespace pgweir::app
