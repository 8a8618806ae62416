// What an application says of one statement in a comment:
//
//   /* pgweir: key=user:42 level=session replica */          words, apart by blanks or commas
//   /*action='cart',pgweir='key%3Duser%3A42'*/               the same words as a tag of a sqlcommenter comment, url-encoded as there
//
// Comments that begin with -- are no hints: whatever joins the lines of a text would make a comment of all that stands behind them.
// Where such a comment can't be read it asks for the primary. Other words mean nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "sql/classifier.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

/// As much of a comment's hint as is part of the statement's class.
struct CommentHint {
  Hint target = Hint::none;
  /// It names a key or a level, which are no part of the class: texts that differ in nothing else share one.
  bool named = false;

  bool any() const noexcept { return target != Hint::none || named; }
};

/// Given what stands between the comment's marks.
CommentHint parse_hint(Bytes comment) noexcept;

/// The keys and levels that all hints of one text name, as written, each once.
struct NamedHints {
  static constexpr std::size_t kNamesMax = 16;
  std::vector<std::string> keys;
  std::vector<std::string> levels;
  bool cut = false;  ///< there were more than kNamesMax of either
};
/// Of a text whose class says that there are some.
NamedHints read_hints(Bytes text, Dialect dialect);

}  // namespace pgweir::sql
