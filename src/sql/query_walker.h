// Walks the tokens of a query (SELECT, VALUES, TABLE, WITH, INSERT, UPDATE, DELETE, MERGE, at any
// depth) and finds what it names and does. One step for each token, a stack of parentheses instead
// of recursion. It is no parser: what PostgreSQL would refuse may pass, but nothing that PostgreSQL
// accepts may hide a relation or a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sql/catalog.h"
#include "sql/statement_class.h"
#include "sql/tokens.h"

namespace pgweir::sql {

/// A call as it was found.
struct Call {
  FunctionName name;
  /// The text may also mean something else (an alias with columns, syntax): it counts only if a
  /// function of the name is known.
  bool doubtful = false;
  std::uint64_t hash = 0;
};

/// What one statement names and does.
struct Findings {
  std::vector<RelationName> reads;
  std::vector<RelationName> writes;
  std::vector<Uses> write_uses;  ///< of each of writes: what is done with it
  std::vector<Call> calls;
  std::vector<std::string> operators;  ///< symbols, each once
  std::vector<RelationName> types;     ///< of casts and literals, where not built in
  std::vector<std::string>
      dotted;              ///< Last parts of a.b: columns, or functions in column notation.
  bool reads_all = false;  ///< More relations than are kept.
  bool broken = false;     ///< Not understood.
  bool modifies = false;   ///< INSERT, UPDATE, DELETE, MERGE somewhere.
  bool locks_rows = false;
  bool select_into = false;
  bool into_temp = false;
  bool pg_temp = false;
  bool odd_operator = false;  ///< An operator that is not built in.
  bool odd_type = false;      ///< A cast or literal of a type that is not built in.
  bool has_cast = false;
  bool copies_relation = false;  ///< COPY relation TO: a table, for views are refused.

  void clear();
  void add_read(RelationName name);
  void add_write(RelationName name, Uses uses);
  void add_operator(Bytes symbol);
  void add_type(RelationName name);
  /// ON CONFLICT DO UPDATE: what is inserted may be an update.
  void inserts_may_update() noexcept;

 private:
  friend class QueryWalker;
  std::vector<std::uint64_t> read_hashes_;
  std::vector<std::uint64_t> dotted_hashes_;
};

/// Scratch that outlives the walks, so that they seldom allocate.
class QueryWalker {
 public:
  /// Walks tokens[from .. to) of `text`, adding to `found`.
  void walk(Bytes text, Tokens tokens, std::size_t from, Findings& found);

  /// Reads a name of up to three parts at `at`; returns the index behind it, or `at` when there is
  /// none.
  static std::size_t read_name(Bytes text, Tokens tokens, std::size_t at, RelationName& name);

 private:
  enum class With : std::uint8_t { none, name, named, as, body_done, search, cycle };
  enum class Dml : std::uint8_t { none, insert, update, delete_, merge };

  /// One pair of parentheses; the first is the statement itself.
  struct Level {
    std::uint32_t open_at = 0;   ///< index of its left parenthesis
    std::uint32_t call_at = 0;   ///< index of the first part of the function's name
    std::uint32_t call_end = 0;  ///< behind its last part; 0 when this is no call
    std::uint32_t item_end = 0;  ///< behind the last relation of a FROM list
    std::int32_t commas = 0;
    std::uint32_t brackets = 0;  ///< Commas inside ARRAY[…] separate neither arguments nor tables.
    std::uint16_t cte_mark = 0;  ///< names of WITH that were visible when it opened
    std::uint16_t insert_ctes = 0;  ///< those visible at INSERT: the rest belongs to its query alone
    With with = With::none;
    Dml dml = Dml::none;
    bool at_start = true;      ///< A query may begin here.
    bool may_modify = false;   ///< What begins may also be INSERT and the like: all of it, and WITH bodies.
    bool insert_head = false;  ///< Between INSERT INTO t and its query.
    bool query = false;        ///< FROM at this level begins a list of tables.
    bool had_from = false;
    bool from = false;  ///< Inside that list.
    bool expects_table = false;
    bool recursive = false;  ///< WITH RECURSIVE
    bool is_cast = false;    ///< CAST(x AS type)
    bool count_arguments = true;
    bool doubtful = false;
    bool variadic = false;
  };

  std::size_t step(std::size_t at);
  void open(std::size_t at);
  void close(std::size_t at);
  void comma();
  void op(std::size_t at);
  std::size_t name(std::size_t at);
  std::size_t with_name(std::size_t at);
  /// Handles a word that begins a query; returns `at` when it does not.
  std::size_t begin_query(std::size_t at);
  static Uses uses_of(Dml dml) noexcept;
  std::size_t modification(std::size_t at, Dml dml, std::size_t target_at);
  std::size_t table(std::size_t at);
  std::size_t key_word(std::size_t at, Word word);
  std::size_t plain_name(std::size_t at);
  std::size_t select_into(std::size_t at);
  std::size_t explicit_operator(std::size_t at);
  void begin_from();
  void end_from();
  void open_call(std::size_t first, std::size_t end, bool doubtful);
  void finish_call(const Level& level, std::size_t close_at);
  void add_dotted(std::size_t at);
  void check_type(std::size_t at, std::size_t end);
  bool is_cte(const RelationName& name) const;

  const Token* token(std::size_t at) const { return at < tokens_.size() ? &tokens_[at] : nullptr; }
  bool type_is(std::size_t at, TokenType type) const {
    return at < tokens_.size() && tokens_[at].type == type;
  }
  /// The key word at `at`; none for what is quoted or stands behind a dot.
  Word word_at(std::size_t at) const;
  bool follows(std::size_t at, Word word) const { return at > from_ && word_at(at - 1) == word; }
  /// Behind the key word AS; not behind a label of that name (`SELECT 1 AS as FROM t`).
  bool behind_as(std::size_t at) const { return as_end_ != 0 && at == as_end_; }
  bool is_call_syntax(std::size_t at, Word word) const;
  std::size_t chain_end(std::size_t at) const;
  Level& top() { return levels_.back(); }

  Bytes text_;
  Tokens tokens_;
  std::size_t from_ = 0;
  std::size_t operator_end_ = 0;  ///< behind the last OPERATOR(…)
  std::size_t as_end_ = 0;        ///< behind the last AS
  Findings* found_ = nullptr;
  std::vector<Level> levels_;
  std::vector<std::uint64_t> ctes_;  ///< hashes of the names that WITH made visible
  std::vector<std::uint64_t> pending_cte_;
  std::string scratch_;
};

}  // namespace pgweir::sql
