// What the hints of one text ask for, judged: the words come from sql, the meaning of levels and keys is known here. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/levels.h"
#include "sql/classifier.h"
#include "sql/hint.h"

namespace pgweir::session {

struct StatementHints {
  std::vector<std::string> keys;  ///< those that are keys; a text has one, or contradicts itself
  std::optional<config::ConsistencyLevel> level;
  /// They contradict each other, or can't be understood: the primary's.
  bool doubtful = false;
  /// There were more keys than are kept.
  bool keys_missing = false;
};

StatementHints judge_hints(const sql::NamedHints& named, sql::Dialect dialect);

}  // namespace pgweir::session
