// The console's commands: one table, from which dispatch, access, column headers, SHOW HELP and
// docs/admin-console.md come. A new command is one row, one function, one test.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admin/world.h"
#include "base/result.h"

namespace pgweir::admin {

/// What a user may do: nothing, SHOW, everything.
enum class Access : std::uint8_t { none, stats, admin };

/// The oids of the column types that occur.
enum class Type : std::uint16_t { int8 = 20, int4 = 23, text = 25, numeric = 1700 };

std::string_view to_string(Type type) noexcept;

struct Column {
  std::string_view name;
  Type type = Type::text;
};

using Cell = std::optional<std::string>;  // In text format; nullopt is NULL.
using Row = std::vector<Cell>;

/// What a command gives.
struct Answer {
  enum class Then : std::uint8_t { ready, later, goodbye };

  std::vector<Row> rows;
  std::string tag;
  std::string notice;
  std::string notice_detail;
  Then then = Then::ready;
};

struct Command;

struct Call {
  const Command& command;
  std::string_view argument;  // What stands behind the command's words, trimmed.
  World& world;
  ConsoleSession& asker;
};

struct Command {
  std::string_view words = {};      // "SHOW NODES", in capitals.
  std::string_view arguments = {};  // For people: "[db]".
  Access access = Access::stats;
  std::span<const Column> columns = {};  // Empty: it gives no rows.
  std::string_view doc = {};             // Empty: kept out of SHOW HELP and the page.
  bool refused = false;                  // Known, and answered with an error that says why.
  bool of_pgbouncer = true;              // PgBouncer has it too.
  std::string_view differs = {};         // What is other than there, and why; empty: nothing.
  Verb verb{};                           // Of orders.
  Result<Answer> (*run)(const Call& call) = nullptr;
};

std::span<const Command> commands() noexcept;

struct Found {
  const Command* command = nullptr;
  std::string_view argument;
};
/// The command that `text` names: upper or lower case, SELECT for SHOW, an optional `;` behind it.
/// An error is PgBouncer's "invalid command '...', use SHOW HELP;".
Result<Found> find_command(std::string_view text);

/// A part of docs/admin-console.md that is made from the table.
struct GeneratedBlock {
  std::string name;
  std::string text;
};
std::vector<GeneratedBlock> reference_blocks();
/// The console in docs/migrating-from-pgbouncer.md.
std::vector<GeneratedBlock> migration_blocks();

}  // namespace pgweir::admin
