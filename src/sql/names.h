// Names as PostgreSQL understands them: folded, unquoted, cut to 63 bytes.
#pragma once

#include <string>

#include "base/bytes.h"
#include "sql/scanner.h"

namespace pgweir::sql {

/// The name that a token of kind name, quoted_name or unicode_name means. False when a Unicode
/// escape in it is wrong. UESCAPE is not known here: whoever meets it gives up on the statement.
bool fold_name(TokenType type, Bytes token, std::string& out);

/// A relation as people write it, with or without a schema, quoted or not; an empty name when it is
/// none.
RelationName parse_relation_name(Bytes text);

}  // namespace pgweir::sql
