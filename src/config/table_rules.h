// The lines of [table_rules] and [table_rules:database]: what single tables may be read from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/levels.h"

namespace pgweir::config {

/// What one table may be read from; takes the place of the level in force.
struct TableRule {
  enum class Kind : std::uint8_t {
    level,      ///< as that level says
    window,     ///< level window, with this window
    lag_time,   ///< level eventual, on replicas that are at most so far behind
    lag_bytes,  ///< the same in bytes of WAL
  };

  Kind kind = Kind::level;
  ConsistencyLevel level = ConsistencyLevel::table;  ///< what it comes to, for the other kinds too
  TableWindow window;
  Duration lag{};
  std::int64_t lag_bytes = 0;

  bool operator==(const TableRule&) const = default;
};
/// As it may be written in the file: "primary", "window p99.9", "lag 5s".
std::string to_string(const TableRule& rule);
/// A level's name, `window` and a time or p99.9, `lag` and a time or a size.
Result<TableRule> parse_table_rule(std::string_view text);

/// Which tables a line is about: `schema.table` or `table`, which is one of any schema. `*` stands for any number of characters.
/// Names are folded as PostgreSQL folds them, unless they stand in double quotes.
class TablePattern {
 public:
  static Result<TablePattern> parse(std::string_view text);

  bool fits(std::string_view schema, std::string_view table) const noexcept;
  const std::string& text() const noexcept { return text_; }
  /// Whether it says more than `other`: fewer wildcards, then more characters, then a schema.
  bool more_specific_than(const TablePattern& other) const noexcept;
  bool operator==(const TablePattern& other) const noexcept { return schema_ == other.schema_ && table_ == other.table_; }

 private:
  std::string text_;
  std::string schema_;  ///< "*" when none was named
  std::string table_;
};

struct TableRuleLine {
  std::string database;  ///< empty: of all
  TablePattern pattern;
  TableRule rule;

  bool operator==(const TableRuleLine&) const = default;
};

/// As many different rules may hold for one database.
inline constexpr std::size_t kTableRulesMax = 62;

/// The rule of one table of `database`: the most specific line of its own section, else of the one for all; null for none.
const TableRule* find_table_rule(const std::vector<TableRuleLine>& lines, std::string_view database, std::string_view schema,
                                 std::string_view table) noexcept;

}  // namespace pgweir::config
