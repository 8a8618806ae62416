// The rules: what one statement is, from its tokens, the built-in lists and the catalog. An
// allow-list: a statement may go to a replica only if it begins as a query or COPY … TO STDOUT and
// nothing objects.
#pragma once

#include "sql/catalog.h"
#include "sql/classifier.h"
#include "sql/query_walker.h"
#include "sql/statement_class.h"
#include "sql/tokens.h"

namespace pgweir::sql {

enum class Runs : std::uint8_t { yes, no };  ///< no: PREPARE, EXPLAIN without ANALYZE

/// The verdict over one statement; its Findings lie beside it.
struct Judged {
  Statement statement;
  TableSet reads;
  TableSet writes;
  bool certain = false;
  bool may_hide_write = false;
  bool uses_code = false;
  bool depends_on_literal = false;
  bool unknown_name = false;
  std::string because;  ///< the rule that led to the cause, for a Trace

  /// The weightier cause stays.
  void add_cause(Cause cause) noexcept;
  void add(const Effects& effects, Runs runs);
};

class Rules {
 public:
  /// Null: no name is known.
  const Catalog* catalog = nullptr;
  FunctionRules functions;
  Trace* trace = nullptr;  ///< Not null: the names behind the keys are wanted.

  /// `tokens` is one statement, not empty, without its semicolon. `found` is emptied and filled:
  /// calls that turn out to be none are taken out of it.
  void judge(Bytes text, Tokens tokens, Findings& found, Judged& judged);

 private:
  /// Looks up what was found and adds what follows from it.
  void resolve(Findings& found, Judged& judged, Runs runs) const;
  void resolve_read(const RelationName& name, Uses uses, Judged& judged, Runs runs) const;
  void resolve_write(const RelationName& name, Uses uses, Judged& judged) const;
  bool resolve_call(const Call& call, Judged& judged, Runs runs) const;
  void resolve_builtin(const FunctionName& function, Judged& judged, Runs runs) const;
  void resolve_unnamed(const Findings& found, Judged& judged, Runs runs) const;
  Effects effects() const;
  template <class Words>
  void object(Judged& judged, Cause cause, Words&& words) const;

  QueryWalker walker_;
};

/// The end of the statement that begins at `from`: its semicolon, or the end of all. A semicolon
/// inside parentheses or BEGIN ATOMIC … END separates nothing. `balanced` is false when something
/// stays open.
std::size_t statement_end(Tokens tokens, std::size_t from, bool& balanced);

}  // namespace pgweir::sql
