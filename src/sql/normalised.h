// A text as its shape sees it, written for people.
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "sql/classifier.h"

namespace pgweir::sql {

/// Without comments, literals as `?`, a list of values behind IN as one, white space as one space; names as the text
/// has them. Valid UTF-8 without control characters, cut at a character's end to at most `bytes_max` bytes, three of them
/// dots then.
std::string normalised(Bytes text, Dialect dialect, std::size_t bytes_max);

}  // namespace pgweir::sql
