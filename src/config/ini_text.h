// The INI text as PgBouncer reads it, on top of inih, which by itself reads it differently: a
// reader of our own hands inih only lines that it can't misunderstand.
//
// - Leading white space on a line means nothing; `;` and `#` start a comment only there.
// - `key = value`: the key is of [A-Za-z0-9_.*-] or stands in single quotes; the value is the rest
// of the
//   line, trimmed, of any length; no quoting, no comment behind it.
// - `%include file` anywhere at the start of a line; a section goes on over it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pgweir::config {

/// Opens the names that configuration files mention: the disk in the program, memory in tests.
class IniSource {
 public:
  virtual ~IniSource() = default;
  virtual Result<std::string> read(const std::string& path) const = 0;
};

/// One `key = value`, with its section and the place it came from.
struct IniLine {
  std::string section;
  std::string key;
  std::string value;
  std::string where;  // "pgweir.ini:12"
};

/// The lines of `path` and of the files it includes, in order; repeated keys stay, the last one
/// counts.
Result<std::vector<IniLine>> read_ini(const IniSource& files, const std::string& path);

/// A connection string of [databases] and [peers]: key=value separated by spaces, values may stand
/// in single quotes with '' for one. Empty values are an error. Keys are in lower case.
Result<std::vector<std::pair<std::string, std::string>>> parse_connection_string(
    std::string_view text);

}  // namespace pgweir::config
