// What the outside sends to the process: arguments and signals, one table for each. The program's
// getopt and its handlers, --help and docs/migrating-from-pgbouncer.md come from these rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings_table.h"

namespace pgweir::app {

/// One option of the command line.
struct Flag {
  char letter;
  const char* name;                ///< long, without the dashes
  std::string_view argument = {};  ///< for people; empty: it takes none
  std::string_view doc = {};       ///< for --help
  std::string_view differs = {};   ///< what is other than in PgBouncer, and why; empty: nothing
};

/// One signal that the process acts on.
struct Signal {
  int number;
  std::string_view name;  ///< without SIG
  std::string_view doc = {};
  std::string_view differs = {};
};

/// In order of letter and name, upper case after lower case.
std::span<const Flag> flags() noexcept;
std::span<const Signal> signals() noexcept;

/// --help.
std::string usage();
std::vector<config::GeneratedBlock> migration_blocks();

}  // namespace pgweir::app
