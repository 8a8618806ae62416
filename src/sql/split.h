// A script cut into statements, as psql would send them one by one.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "sql/classifier.h"

namespace pgweir::sql {

/// The statements of `script`, with the comments before them, without their semicolons. From the
/// first thing that can't be read on, the rest is one piece.
std::vector<Bytes> split_statements(Bytes script, Dialect dialect);

}  // namespace pgweir::sql
