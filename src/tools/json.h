// As much JSON as lines of input and output need: one field of an object read, strings written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pgweir::tools {

/// Adds `text` to `out` as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// The string in field `name` of the one JSON object that `line` is; nullopt when it has no such
/// field. Strict: what RFC 8259 does not allow is an error, also in other fields. The last of
/// several fields of a name counts.
Result<std::optional<std::string>> find_json_string(std::string_view line, std::string_view name);

}  // namespace pgweir::tools
