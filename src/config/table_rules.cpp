#include "config/table_rules.h"

#include <algorithm>

#include "base/text.h"
#include "config/values.h"

namespace pgweir::config {
namespace {

constexpr std::string_view kExpected =
    "expected eventual, session, table, latest, pin, primary, window <time>|p99.9 or lag <time>|<size>";

bool is_size(std::string_view text) {
  const std::string lower = to_lower(text);
  return !lower.empty() && lower.back() == 'b';
}

/// One name of a pattern, at the front of `rest`; what it takes is cut off.
Result<std::string> take_name(std::string_view& rest) {
  std::string name;
  if (rest.empty() || rest[0] != '"') {
    const std::size_t end = std::min(rest.find_first_of(".\""), rest.size());
    name = to_lower(rest.substr(0, end));
    rest.remove_prefix(end);
  } else {
    std::size_t at = 1;
    for (;; ++at) {
      if (at >= rest.size()) return Error("a quoted name must end with \"");
      if (rest[at] != '"') {
        name += rest[at];
      } else if (at + 1 < rest.size() && rest[at + 1] == '"') {
        name += rest[++at];
      } else {
        break;
      }
    }
    rest.remove_prefix(at + 1);
  }
  if (name.empty()) return Error("expected table, schema.table, or either with * in it");
  return name;
}

/// `*` stands for any number of characters. Linear for one `*`, and never worse than the product of both lengths.
bool matches(std::string_view pattern, std::string_view name) noexcept {
  std::size_t at = 0;
  std::size_t in_name = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_in_name = 0;
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_in_name = in_name;
    } else if (at < pattern.size() && pattern[at] == name[in_name]) {
      ++at;
      ++in_name;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in_name = ++star_in_name;
    } else {
      return false;
    }
  }
  return pattern.substr(at).find_first_not_of('*') == std::string_view::npos;
}

std::ptrdiff_t stars(std::string_view text) noexcept { return std::count(text.begin(), text.end(), '*'); }

}  // namespace

std::string to_string(const TableRule& rule) {
  switch (rule.kind) {
    case TableRule::Kind::level: return std::string(to_string(rule.level));
    case TableRule::Kind::window: return concat({"window ", print_value(rule.window)});
    case TableRule::Kind::lag_time: return concat({"lag ", duration_text(rule.lag)});
    case TableRule::Kind::lag_bytes: return concat({"lag ", std::to_string(rule.lag_bytes), "B"});
  }
  return "";
}

Result<TableRule> parse_table_rule(std::string_view text) {
  const std::size_t space = text.find_first_of(" \t");
  const std::string_view word = text.substr(0, space);
  const std::string_view value = space == std::string_view::npos ? std::string_view() : trimmed(text.substr(space));
  TableRule rule;
  if (equals_ignoring_case(word, "window")) {
    const Result<TableWindow> window = parse_value<TableWindow>(value, {});
    if (!window) return Error(std::string(kExpected));
    rule.kind = TableRule::Kind::window;
    rule.level = ConsistencyLevel::window;
    rule.window = *window;
  } else if (equals_ignoring_case(word, "lag") && is_size(value)) {
    const Result<std::int64_t> size = parse_value<std::int64_t>(value, {.lowest = 0, .highest = INT64_MAX});
    if (!size) return Error(std::string(kExpected));
    rule.kind = TableRule::Kind::lag_bytes;
    rule.level = ConsistencyLevel::eventual;
    rule.lag_bytes = *size;
  } else if (equals_ignoring_case(word, "lag")) {
    const Result<Duration> time = parse_duration(value);
    if (!time || *time <= Duration{}) return Error(std::string(kExpected));
    rule.kind = TableRule::Kind::lag_time;
    rule.level = ConsistencyLevel::eventual;
    rule.lag = *time;
  } else {
    const Result<ConsistencyLevel> level = parse_consistency(text);
    if (!level || *level == ConsistencyLevel::window) return Error(std::string(kExpected));
    rule.level = *level;
  }
  return rule;
}

Result<TablePattern> TablePattern::parse(std::string_view text) {
  TablePattern pattern;
  pattern.text_ = text;
  std::string_view rest = text;
  Result<std::string> first = take_name(rest);
  if (!first) return first.error();
  if (rest.empty()) {
    pattern.schema_ = "*";
    pattern.table_ = std::move(*first);
    return pattern;
  }
  if (rest[0] != '.') return Error("expected a dot between schema and table");
  rest.remove_prefix(1);
  Result<std::string> second = take_name(rest);
  if (!second) return second.error();
  if (!rest.empty()) return Error("expected at most a schema and a table");
  pattern.schema_ = std::move(*first);
  pattern.table_ = std::move(*second);
  return pattern;
}

bool TablePattern::fits(std::string_view schema, std::string_view table) const noexcept {
  return matches(table_, table) && matches(schema_, schema);
}

bool TablePattern::more_specific_than(const TablePattern& other) const noexcept {
  const auto wild = stars(table_) + stars(schema_);
  const auto other_wild = stars(other.table_) + stars(other.schema_);
  if (stars(table_) != stars(other.table_)) return stars(table_) < stars(other.table_);
  if (wild != other_wild) return wild < other_wild;
  return table_.size() + schema_.size() > other.table_.size() + other.schema_.size();
}

const TableRule* find_table_rule(const std::vector<TableRuleLine>& lines, std::string_view database, std::string_view schema,
                                 std::string_view table) noexcept {
  const TableRuleLine* best = nullptr;
  for (const TableRuleLine& line : lines) {
    if (!line.database.empty() && line.database != database) continue;
    if (!line.pattern.fits(schema, table)) continue;
    const bool nearer = best && best->database.empty() != line.database.empty();
    // The last of two that say the same of themselves counts, as everywhere in the file.
    if (!best || (nearer ? best->database.empty() : !best->pattern.more_specific_than(line.pattern))) best = &line;
  }
  return best ? &best->rule : nullptr;
}

}  // namespace pgweir::config
