// Reads what kind of statement it is from its first words, and what the statement does to
// transaction and session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sql/query_walker.h"
#include "sql/rules.h"
#include "sql/tokens.h"

namespace pgweir::sql {

enum class Reading : std::uint8_t { runs, does_not_run };

class StatementReader {
 public:
  StatementReader(Bytes text, Tokens tokens, QueryWalker& walker, Findings& found, Judged& judged)
      : text_(text),
        tokens_(tokens),
        walker_(walker),
        found_(found),
        judged_(judged),
        statement_(judged.statement) {}

  /// Fills statement, `found` and what needs no look at a catalog.
  Reading read();

 private:
  Word word(std::size_t ahead = 0) const;
  bool accept(Word word);
  /// A name in the folded form of a setting, channel, cursor, prepared statement: its parts joined
  /// by dots.
  std::string name();
  bool at_end() const { return at_ >= tokens_.size(); }
  bool type_is(TokenType type) const { return at_ < tokens_.size() && tokens_[at_].type == type; }
  /// What is left of the statement, as written.
  Bytes rest() const;
  /// at_ is on a left parenthesis; behind its partner.
  void skip_parens();
  bool has_word(std::size_t from, Word word) const;
  bool is_off(std::size_t at) const;
  void be(Kind kind, Cause cause);
  void set_step(SessionStep step);

  Reading query();
  Reading modification();
  Reading copy();
  Reading explain();
  Reading prepare();
  bool skip_plain_types();
  void execute();
  Reading create();
  Reading declare();
  void begin();
  void end_transaction(TransactionStep step);
  void rollback();
  void set();
  void set_value(SessionStep step);
  void set_transaction_words();
  void reset();
  void discard();
  void deallocate();
  void listen(SessionStep step);
  void cursor();
  void show();
  void truncate();
  void refresh();
  void ddl();
  void ddl_relations();
  void maintenance();
  void relation_list(Uses uses);
  void utility();
  void opaque(SessionStep step);
  void not_understood();

  Bytes text_;
  Tokens tokens_;
  QueryWalker& walker_;
  Findings& found_;
  Judged& judged_;
  Statement& statement_;
  std::size_t at_ = 0;
};

}  // namespace pgweir::sql
