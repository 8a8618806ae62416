// The text that HBA files, ident files and LDAP options are written in: lines of fields, each a list
// of words with commas between them, with quotes and comments as in PostgreSQL's pg_hba.conf.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pgweir::auth {

/// One word. A quoted one stands for itself: "all" in quotes is a name.
struct Word {
  std::string text;
  bool quoted = false;

  /// An unquoted word of that meaning.
  bool is(std::string_view keyword) const noexcept { return !quoted && text == keyword; }
  bool operator==(const Word&) const = default;
};
using Field = std::vector<Word>;

/// The fields of one line; empty for one that is blank or a comment. A comma joins what stands around
/// it to one field, white space or not.
Result<std::vector<Field>> read_fields(std::string_view line);

/// One line that holds something.
struct RuleLine {
  std::size_t number = 0;
  std::vector<Field> fields;
};
/// An error begins with "file:line: ".
Result<std::vector<RuleLine>> read_rule_lines(std::string_view text, std::string_view file);

/// Opens a file by name; handed in, since nothing here touches the disk.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;
/// `name` as it is written in `file`: relative names start in that file's folder.
std::string path_beside(std::string_view file, std::string_view name);

}  // namespace pgweir::auth
