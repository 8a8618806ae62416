// SQL's DEALLOCATE names the same things as the protocol's Close, and drivers mix the two.
#pragma once

#include <string>

#include "base/bytes.h"

namespace pgweir::session {

/// The name in "DEALLOCATE [PREPARE] name", folded as PostgreSQL folds it; empty when `sql` is anything else, ALL
/// included.
std::string deallocated_name(Bytes sql);

}  // namespace pgweir::session
