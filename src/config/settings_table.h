// The table of settings. A new setting is a field in Settings, a row here, and a test of what it
// does: parsing, defaults, SHOW CONFIG, SET, reload, docs/configuration.md, etc/pgweir.ini and the
// simulator's dice come from the row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "config/settings.h"
#include "config/values.h"

namespace pgweir::config {

enum class Reload : std::uint8_t { live, restart };
/// `later`: of PgBouncer versions after the one whose interface this is (1.25.2).
enum class Origin : std::uint8_t { pgbouncer, later, pgweir };
enum class Effect : std::uint8_t { full, none };

/// One setting of [pgbouncer].
struct Row {
  std::string_view name;
  std::string_view fallback;
  Reload reload = Reload::live;
  Origin origin = Origin::pgbouncer;
  /// `none`: kept and shown for the sake of PgBouncer's files, harmless to ignore.
  Effect effect = Effect::full;
  Limits limits = {};
  std::string_view doc;
  /// Values that the simulator draws from; empty: it keeps the default.
  std::string_view sim = {};
  /// What is other than in PgBouncer, and why; empty: nothing.
  std::string_view differs = {};

  Status (*set)(const Row& row, Settings& settings, std::string_view text) = nullptr;
  std::string (*get)(const Settings& settings) = nullptr;
  void (*copy)(const Settings& from, Settings& to) = nullptr;
};

/// One option of a line of [databases], [users] or [peers].
template <class Line>
struct Option {
  std::string_view name;
  std::string_view doc;
  Origin origin = Origin::pgbouncer;
  Limits limits = {};
  std::string_view differs = {};  ///< as in Row
  Status (*set)(const Option& option, Line& line, std::string_view text) = nullptr;
};

/// All in order of name.
std::span<const Row> setting_rows() noexcept;
std::span<const Option<Database>> database_options() noexcept;
std::span<const Option<User>> user_options() noexcept;
std::span<const Option<Peer>> peer_options() noexcept;

const Row* find_row(std::string_view name) noexcept;

/// A part of a document that is made from a table; it stands between <!-- NAME --> and <!-- /NAME
/// -->.
struct GeneratedBlock {
  std::string name;
  std::string text;
};

/// The tables of docs/configuration.md.
std::vector<GeneratedBlock> reference_blocks();
/// The settings and options in docs/migrating-from-pgbouncer.md.
std::vector<GeneratedBlock> migration_blocks();
/// "same", or "different: " and why; one cell of those tables.
std::string migration_cell(std::string_view differs);
/// etc/pgweir.ini, whole.
std::string sample_file();

}  // namespace pgweir::config
