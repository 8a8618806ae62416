// SQL's DEALLOCATE names the same things as the protocol's Close, and drivers mix the two.
#pragma once

#include <string>

#include "base/bytes.h"

namespace pgweir::session {

/// The name in "DEALLOCATE [PREPARE] name", folded as PostgreSQL folds it; empty when `sql` is anything else, ALL
/// included.
std::string deallocated_name(Bytes sql);

/// "DEALLOCATE [PREPARE] ALL" or "DISCARD ALL": the server forgets all statements when it runs this.
bool forgets_statements(Bytes sql);

}  // namespace pgweir::session
