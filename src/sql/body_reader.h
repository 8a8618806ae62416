// Reads the body of a function in SQL or PL/pgSQL: which relations it reads and writes, what it
// calls, and whether it does what only a run can tell. Like the query walker it is no parser: it
// cuts a body into statements and expressions, in one pass and without recursion, and gives up on
// what it does not understand.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sql/query_walker.h"
#include "sql/rules.h"
#include "sql/tokens.h"

namespace pgweir::sql {

/// What one body names and does; nothing in it is looked up yet.
struct Body {
  Findings found;
  bool readable = true;    ///< False: it may do anything.
  bool dynamic = false;    ///< EXECUTE or DO: runs what a text says.
  bool reads_all = false;  ///< Something in it reads or writes more than it names (DDL, say).
  bool writes_all = false;
  bool primary_only = false;  ///< Does what no standby can: a row lock, DDL, LISTEN, SET, COMMIT …
};

/// Scratch that outlives the bodies.
class BodyReader {
 public:
  void read_sql(Bytes source, Body& body);
  void read_plpgsql(Bytes source, Body& body);

 private:
  bool scan(Bytes source, Body& body);
  void sql(Tokens statement);

  std::size_t step(std::size_t at);
  std::size_t declaration(std::size_t at);
  std::size_t for_loop(std::size_t at);
  std::size_t return_(std::size_t at);
  std::size_t open(std::size_t at);
  std::size_t plain_statement(std::size_t at);
  /// SQL that may hold INTO variables, or an expression; tokens [from .. to).
  void query(std::size_t from, std::size_t to);
  void expression(std::size_t from, std::size_t to);
  /// A query, EXECUTE, or an expression: what its first word says.
  void source(std::size_t from, std::size_t to);
  void copy_without_into(std::size_t from, std::size_t to);

  bool is(std::size_t at, Bytes word) const;
  bool type_is(std::size_t at, TokenType type) const {
    return at < tokens_.size() && tokens_[at].type == type;
  }
  bool begins_query(std::size_t at) const;
  /// The semicolon that ends what begins at `at`, or a stop word that comes before it; CASE … END
  /// and parentheses are passed over.
  std::size_t end_of(std::size_t at, Bytes stop = {}) const;

  Bytes text_;
  std::vector<Token> tokens_;
  std::vector<Token> piece_;
  std::vector<std::string> cursors_;
  bool declaring_ = false;
  QueryWalker walker_;
  Judged judged_;
  Body* body_ = nullptr;
};

}  // namespace pgweir::sql
