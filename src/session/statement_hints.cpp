#include "session/statement_hints.h"

#include <algorithm>

#include "config/settings.h"
#include "session/causality.h"

namespace pgweir::session {
namespace {

/// Under an encoding that hides ASCII in other characters, what was read of those is not what was written.
bool is_as_written(const std::string& key, sql::Dialect dialect) noexcept {
  if (dialect.encoding == sql::Encoding::ascii_safe) return true;
  return std::all_of(key.begin(), key.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; });
}

}  // namespace

StatementHints judge_hints(const sql::NamedHints& named, sql::Dialect dialect) {
  StatementHints hints;
  for (const std::string& key : named.keys) {
    if (is_causal_key(key) && is_as_written(key, dialect)) {
      hints.keys.push_back(key);
    } else {
      hints.doubtful = true;
    }
  }
  for (const std::string& word : named.levels) {
    const Result<config::ConsistencyLevel> level = config::parse_consistency(word);
    if (!level || (hints.level && *hints.level != *level)) {
      hints.doubtful = true;
    } else {
      hints.level = *level;
    }
  }
  hints.keys_missing = named.cut;
  hints.doubtful = hints.doubtful || named.cut || hints.keys.size() > 1;
  return hints;
}

}  // namespace pgweir::session
