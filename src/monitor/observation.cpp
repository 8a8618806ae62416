#include "monitor/observation.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace pgweir::monitor {

namespace {

using Row = std::vector<std::optional<std::string>>;

/// Reads the fields of one row by number; remembers the first that is not what was expected.
class Fields {
 public:
  Fields(const Row& row, std::string_view what) : row_(row), what_(what) {}

  std::string text(std::size_t at) {
    if (at >= row_.size() || !row_[at]) {
      fail(at, "a value");
      return {};
    }
    return *row_[at];
  }
  bool flag(std::size_t at) {
    const std::string value = text(at);
    if (value != "t" && value != "f") fail(at, "t or f");
    return value == "t";
  }
  std::uint64_t number(std::size_t at) {
    const std::string value = text(at);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size()) fail(at, "a number");
    return number;
  }
  tokens::Lsn lsn(std::size_t at) {
    const std::optional<tokens::Lsn> lsn = tokens::parse_lsn(text(at));
    if (!lsn) fail(at, "an LSN");
    return lsn.value_or(tokens::Lsn{});
  }
  /// NULL is 0: before everything.
  tokens::Lsn lsn_or_null(std::size_t at) {
    return at < row_.size() && !row_[at] ? tokens::Lsn{} : lsn(at);
  }

  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  void fail(std::size_t at, std::string_view expected) {
    if (error_) return;
    const std::string value = at >= row_.size() ? "missing"
                              : row_[at]        ? '"' + *row_[at] + '"'
                                                : "NULL";
    error_.emplace(concat({"answer to ", what_, ": column ", std::to_string(at), " is ", value,
                           ", expected ", expected}));
  }

  const Row& row_;
  std::string_view what_;
  std::optional<Error> error_;
};

Error wrong_rows(std::string_view what, std::size_t count) {
  return Error(concat({"answer to ", what, ": ", std::to_string(count), " rows, expected one"}));
}

}  // namespace

Result<Observation> read_observation(const Rows& rows) {
  if (rows.size() != 1) return wrong_rows("the poll", rows.size());
  Fields fields(rows[0], "the poll");
  Observation seen;
  seen.in_recovery = fields.flag(0);
  // A standby that has not replayed anything yet, or never streamed, has no LSN.
  seen.lsn = seen.in_recovery ? fields.lsn_or_null(1) : fields.lsn(1);
  seen.received = fields.lsn_or_null(2);
  seen.system_id = fields.text(3);
  seen.timeline = static_cast<std::uint32_t>(fields.number(4));
  seen.timeline_certain = fields.flag(5);
  seen.started_at = fields.text(6);
  seen.geometry.block_bytes = static_cast<std::uint32_t>(fields.number(7));
  seen.geometry.segment_bytes = fields.number(8);
  seen.configured_at = fields.text(9);
  if (fields.error()) return *fields.error();
  if (!seen.in_recovery) seen.lsn = tokens::before_page_header(seen.lsn, seen.geometry);
  return seen;
}

Result<CaptureAnswer> read_capture(const Rows& rows, tokens::WalGeometry geometry) {
  if (rows.size() != 1) return wrong_rows("the capture", rows.size());
  Fields fields(rows[0], "the capture");
  CaptureAnswer answer;
  answer.in_recovery = fields.flag(0);
  if (!answer.in_recovery) answer.lsn = tokens::before_page_header(fields.lsn(1), geometry);
  answer.started_at = fields.text(2);
  if (fields.error()) return *fields.error();
  return answer;
}

Result<NodeSettings> read_settings(const Rows& rows) {
  NodeSettings settings;
  for (const Row& row : rows) {
    if (row.size() != 2 || !row[0])
      return Error("answer to the comparison of settings: a row is not (name, value)");
    settings.emplace_back(*row[0], row[1].value_or(""));
  }
  if (settings.empty()) return Error("answer to the comparison of settings: no row");
  std::sort(settings.begin(), settings.end());
  return settings;
}

std::string difference(const NodeSettings& replica, const NodeSettings& primary) {
  const auto value_in = [](const NodeSettings& settings,
                           const std::string& name) -> const std::string* {
    for (const auto& [known, value] : settings) {
      if (known == name) return &value;
    }
    return nullptr;
  };
  const auto quoted = [](const std::string* value) {
    return value ? '"' + *value + '"' : std::string("not there");
  };
  for (const auto& [name, value] : primary) {
    const std::string* other = value_in(replica, name);
    if (!other || *other != value)
      return concat({name, " is ", quoted(other), ", on the primary ", quoted(&value)});
  }
  for (const auto& [name, value] : replica) {
    if (!value_in(primary, name))
      return concat({name, " is ", quoted(&value), ", on the primary ", quoted(nullptr)});
  }
  return {};
}

}  // namespace pgweir::monitor
