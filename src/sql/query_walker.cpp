#include "sql/query_walker.h"

#include <algorithm>

#include "base/text.h"
#include "sql/builtins.h"
#include "sql/names.h"

namespace pgweir::sql {
namespace {

// Bounds on what one statement may name; past them it is not understood, or reads everything. They
// keep the work for a hostile text linear.
constexpr std::size_t kRelationsMax = 256;
constexpr std::size_t kCallsMax = 128;
constexpr std::size_t kDottedMax = 512;
constexpr std::size_t kOperatorsMax = 64;
constexpr std::size_t kTypesMax = 64;
constexpr std::size_t kCtesMax = 64;
constexpr std::size_t kDepthMax = 10'000;  // PostgreSQL's parser gives up at this depth, too.

std::uint64_t hash_bytes(Bytes text, std::uint64_t hash = 14695981039346656037U) {
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash ^ 0xFF) * 1099511628211U;
}
std::uint64_t hash_of(const RelationName& name) {
  return hash_bytes(name.name, hash_bytes(name.schema));
}

/// False when it was there already.
bool insert_hash(std::vector<std::uint64_t>& hashes, std::uint64_t hash) {
  if (std::find(hashes.begin(), hashes.end(), hash) != hashes.end()) return false;
  hashes.push_back(hash);
  return true;
}

}  // namespace

void Findings::clear() { *this = Findings{}; }

void Findings::add_read(RelationName name) {
  if (name.schema.starts_with("pg_temp")) pg_temp = true;
  if (reads.size() >= kRelationsMax) {
    reads_all = true;
    return;
  }
  if (insert_hash(read_hashes_, hash_of(name))) reads.push_back(std::move(name));
}

void Findings::add_write(RelationName name, Uses uses) {
  if (name.schema.starts_with("pg_temp")) pg_temp = true;
  if (writes.size() >= kRelationsMax) {
    broken = true;  // Then all tables count as written.
    return;
  }
  const auto found = std::find(writes.begin(), writes.end(), name);
  if (found != writes.end()) {
    Uses& known = write_uses[static_cast<std::size_t>(found - writes.begin())];
    known = static_cast<Uses>(known | uses);
    return;
  }
  writes.push_back(std::move(name));
  write_uses.push_back(uses);
}

void Findings::add_operator(Bytes symbol) {
  if (std::find(operators.begin(), operators.end(), symbol) != operators.end()) return;
  if (operators.size() >= kOperatorsMax) {
    broken = true;
    return;
  }
  operators.emplace_back(symbol);
}

void Findings::add_type(RelationName name) {
  if (std::find(types.begin(), types.end(), name) != types.end()) return;
  if (types.size() >= kTypesMax) {
    broken = true;
    return;
  }
  types.push_back(std::move(name));
}

void Findings::inserts_may_update() noexcept {
  for (Uses& uses : write_uses) {
    if ((uses & use::kInsert) != 0) uses = static_cast<Uses>(uses | use::kUpdate);
  }
}

void QueryWalker::walk(Bytes text, Tokens tokens, std::size_t from, Findings& found) {
  text_ = text;
  tokens_ = tokens;
  from_ = from;
  operator_end_ = as_end_ = 0;
  found_ = &found;
  levels_.clear();
  ctes_.clear();
  pending_cte_.clear();
  levels_.push_back({});
  top().may_modify = true;
  for (std::size_t at = from; at < tokens.size() && !found.broken;) at = step(at);
  const Level& end = top();
  if (levels_.size() != 1 || end.expects_table || end.with != With::none || end.brackets != 0)
    found.broken = true;
}

std::size_t QueryWalker::step(std::size_t at) {
  switch (tokens_[at].type) {
    case TokenType::name:
    case TokenType::quoted_name:
    case TokenType::unicode_name:
      return name(at);
    case TokenType::left_paren:
      open(at);
      return at + 1;
    case TokenType::right_paren:
      close(at);
      return at + 1;
    case TokenType::comma:
      comma();
      return at + 1;
    case TokenType::op:
      op(at);
      return at + 1;
    case TokenType::cast:
      found_->has_cast = true;
      top().at_start = false;
      return at + 1;
    case TokenType::semicolon:
      found_->broken =
          true;  // Inside parentheses: only rules may have that, and they don't come here.
      return at + 1;
    case TokenType::left_bracket:
      ++top().brackets;
      return at + 1;
    case TokenType::right_bracket:
      if (top().brackets == 0)
        found_->broken = true;
      else
        --top().brackets;
      return at + 1;
    case TokenType::literal:
    case TokenType::number:
    case TokenType::parameter:
    case TokenType::dot:
    case TokenType::other:
      if (!top().insert_head) top().at_start = false;
      if (top().expects_table) found_->broken = true;
      return at + 1;
  }
  return at + 1;
}

Word QueryWalker::word_at(std::size_t at) const {
  if (at >= tokens_.size() || tokens_[at].type != TokenType::name) return Word::none;
  if (at > from_ && tokens_[at - 1].type == TokenType::dot) return Word::none;
  return tokens_[at].word;
}

std::size_t QueryWalker::chain_end(std::size_t at) const {
  std::size_t end = at + 1;
  while (type_is(end, TokenType::dot) && end + 1 < tokens_.size() && is_any_name(tokens_[end + 1]))
    end += 2;
  return end;
}

std::size_t QueryWalker::read_name(Bytes text, Tokens tokens, std::size_t at, RelationName& name) {
  if (at >= tokens.size() || !is_any_name(tokens[at])) return at;
  name = {};
  bool fine = fold_name(tokens[at].type, text_of(text, tokens[at]), name.name);
  ++at;
  while (fine && at + 1 < tokens.size() && tokens[at].type == TokenType::dot &&
         is_any_name(tokens[at + 1])) {
    name.schema = std::move(name.name);
    name.name.clear();
    fine = fold_name(tokens[at + 1].type, text_of(text, tokens[at + 1]), name.name);
    at += 2;
  }
  // A wrong escape is an error in PostgreSQL; a name that no catalog has gets us there.
  if (!fine) name.name = "\x01";
  return at;
}

// ---------------------------------------------------------------- parentheses

void QueryWalker::open(std::size_t at) {
  if (levels_.size() >= kDepthMax) {
    found_->broken = true;
    return;
  }
  Level child;
  child.open_at = static_cast<std::uint32_t>(at);
  child.cte_mark = static_cast<std::uint16_t>(ctes_.size());
  Level& parent = top();
  child.may_modify = parent.with == With::as;
  if (parent.expects_table) {  // FROM (a JOIN b …) or FROM (SELECT …)
    parent.expects_table = false;
    child.from = child.had_from = child.expects_table = true;
  }
  if (parent.with == With::body_done) parent.with = With::none;  // WITH … (SELECT …) UNION …
  if (parent.with == With::none && !parent.insert_head) parent.at_start = false;
  levels_.push_back(child);
}

void QueryWalker::close(std::size_t at) {
  if (levels_.size() == 1) {
    found_->broken = true;
    return;
  }
  const Level level = top();
  if (level.expects_table || level.with != With::none || level.brackets != 0) found_->broken = true;
  levels_.pop_back();
  ctes_.resize(level.cte_mark);
  if (level.call_end != 0) finish_call(level, at);
  Level& parent = top();
  if (parent.with == With::as) {
    parent.with = With::body_done;
    if (!parent.recursive && !pending_cte_.empty() && ctes_.size() < kCtesMax)
      ctes_.push_back(pending_cte_.back());
    if (!pending_cte_.empty()) pending_cte_.pop_back();
  }
}

void QueryWalker::comma() {
  Level& level = top();
  if (level.expects_table) found_->broken = true;
  switch (level.with) {
    case With::body_done:
      level.with = With::name;
      return;
    case With::search:
    case With::cycle:
      return;
    case With::name:
    case With::named:
    case With::as:
      found_->broken = true;
      return;
    case With::none:
      break;
  }
  if (level.insert_head || level.brackets != 0) return;
  level.at_start = false;
  if (level.from) level.expects_table = true;
  if (level.count_arguments) ++level.commas;
}

void QueryWalker::op(std::size_t at) {
  Level& level = top();
  if (level.expects_table) found_->broken = true;
  if (!level.insert_head) level.at_start = false;
  // One that is built in may have a user's overload.
  const Bytes symbol = text_of(text_, tokens_[at]);
  found_->add_operator(symbol);
  if (!is_builtin_operator(symbol)) found_->odd_operator = true;
}

// ---------------------------------------------------------------- names and words

std::size_t QueryWalker::name(std::size_t at) {
  Level& level = top();
  if (level.with != With::none) return with_name(at);
  // What stands behind AS is a label or a type, whatever word it is, but for the syntax that CTEs
  // and windows have, which does not come here.
  const bool after_as = behind_as(at);
  const Word word = after_as ? Word::none : word_at(at);
  if (word == Word::as) as_end_ = at + 1;
  if (level.at_start) {
    const std::size_t next = begin_query(at);
    if (next != at) return next;
    if (!level.insert_head && word != Word::all && word != Word::distinct) level.at_start = false;
  }
  if (level.expects_table) return table(at);
  if (word != Word::none) {
    const std::size_t next = key_word(at, word);
    if (next != at) return next;
  }
  return plain_name(at);
}

/// WITH [RECURSIVE] name [(columns)] AS [NOT MATERIALIZED] (query) [SEARCH …] [CYCLE …], …
std::size_t QueryWalker::with_name(std::size_t at) {
  Level& level = top();
  const Word word = word_at(at);
  switch (level.with) {
    case With::name: {
      if (!fold_name(tokens_[at].type, text_of(text_, tokens_[at]), scratch_))
        found_->broken = true;
      const std::uint64_t hash = hash_bytes(scratch_);
      // With RECURSIVE the query behind the name sees it, without only what comes later does.
      if (level.recursive && ctes_.size() < kCtesMax) ctes_.push_back(hash);
      pending_cte_.push_back(hash);
      level.with = With::named;
      return at + 1;
    }
    case With::named:
      if (word != Word::as) found_->broken = true;
      level.with = With::as;
      return at + 1;
    case With::as:
      if (word != Word::not_ && word != Word::materialized) found_->broken = true;
      return at + 1;
    case With::body_done:
      if (word == Word::search) {
        level.with = With::search;
        return at + 1;
      }
      if (word == Word::cycle) {
        level.with = With::cycle;
        return at + 1;
      }
      level.with = With::none;
      level.at_start = true;
      if (const std::size_t next = begin_query(at); next != at) return next;
      found_->broken = true;
      return at + 1;
    case With::search:
      // SEARCH DEPTH FIRST BY a, b SET name
      if (word == Word::set && token(at + 1) != nullptr) {
        level.with = With::body_done;
        return at + 2;
      }
      return at + 1;
    case With::cycle:
      // CYCLE a, b SET name [TO value DEFAULT value] USING name
      if (word == Word::using_ && token(at + 1) != nullptr) {
        level.with = With::body_done;
        return at + 2;
      }
      return at + 1;
    case With::none:
      break;
  }
  return at + 1;
}

std::size_t QueryWalker::begin_query(std::size_t at) {
  Level& level = top();
  const auto begin = [&level] {
    level.at_start = level.insert_head = false;
    level.query = true;
    level.from = level.had_from = level.expects_table = false;
  };
  const auto any_name = [this](std::size_t i) {
    return i < tokens_.size() && is_any_name(tokens_[i]);
  };
  switch (int{word_at(at)}) {
    case Word::select:
    case Word::values:
      begin();
      return at + 1;
    case Word::table:
      if (!any_name(at + 1)) return at;
      begin();
      level.expects_table = true;
      return at + 1;
    case Word::with:
      begin();
      level.with = With::name;
      level.recursive = false;
      // RECURSIVE may itself be the name of the query.
      if (word_at(at + 1) == Word::recursive && any_name(at + 2) && word_at(at + 2) != Word::as) {
        level.recursive = true;
        return at + 2;
      }
      return at + 1;
    default:
      break;
  }
  if (!level.may_modify) return at;  // FROM (update JOIN b …)
  switch (int{word_at(at)}) {
    case Word::insert:
      return word_at(at + 1) == Word::into ? modification(at, Dml::insert, at + 2) : at;
    case Word::delete_:
      return word_at(at + 1) == Word::from ? modification(at, Dml::delete_, at + 2) : at;
    case Word::merge:
      return word_at(at + 1) == Word::into ? modification(at, Dml::merge, at + 2) : at;
    case Word::update:
      // INSERT … ON CONFLICT DO UPDATE SET is none of its own, nor is FOR [NO KEY] UPDATE behind a query in parentheses.
      return any_name(at + 1) && !follows(at, Word::do_) && !follows(at, Word::for_) && !follows(at, Word::key)
                 ? modification(at, Dml::update, at + 1)
                 : at;
    default:
      return at;
  }
}

Uses QueryWalker::uses_of(Dml dml) noexcept {
  switch (dml) {
    case Dml::none:
      return 0;
    case Dml::insert:
      return use::kInsert;
    case Dml::update:
      return use::kUpdate;
    case Dml::delete_:
      return use::kDelete;
    case Dml::merge:
      return use::kInsert | use::kUpdate | use::kDelete;
  }
  return use::kWrites;
}

std::size_t QueryWalker::modification(std::size_t at, Dml dml, std::size_t target_at) {
  Level& level = top();
  found_->modifies = true;
  level.at_start = level.insert_head = dml == Dml::insert;
  level.insert_ctes = static_cast<std::uint16_t>(ctes_.size());
  level.query = dml != Dml::insert;
  level.from = level.had_from = level.expects_table = false;
  level.dml = dml;
  bool parens = false;
  if (word_at(target_at) == Word::only) {
    ++target_at;
    parens = type_is(target_at, TokenType::left_paren);
    if (parens) ++target_at;
  }
  RelationName target;
  const std::size_t end = read_name(text_, tokens_, target_at, target);
  if (end == target_at) {
    found_->broken = true;
    return at + 1;
  }
  found_->add_write(std::move(target), uses_of(dml));
  if (parens && !type_is(end, TokenType::right_paren)) found_->broken = true;
  return parens ? end + 1 : end;
}

/// A name where FROM, JOIN, USING or a comma asks for a table.
std::size_t QueryWalker::table(std::size_t at) {
  Level& level = top();
  const Word word = word_at(at);
  if (word == Word::lateral || word == Word::only) return at + 1;
  if (word == Word::rows && word_at(at + 1) == Word::from &&
      type_is(at + 2, TokenType::left_paren)) {
    level.expects_table = false;
    return at + 2;
  }
  // current_schema() is a function like others, while the 3 of CURRENT_TIME(3) is no argument.
  if (word == Word::value_function && !type_is(at + 1, TokenType::dot) &&
      (tokens_[at].kind == WordKind::reserved || !type_is(at + 1, TokenType::left_paren))) {
    level.expects_table = false;
    level.item_end = static_cast<std::uint32_t>(at + 1);
    return at + 1;
  }
  if (word == Word::cast && type_is(at + 1, TokenType::left_paren)) {
    level.expects_table = false;
    open_call(at, at + 1, true);
    top().is_cast = true;
    return at + 2;
  }
  if (tokens_[at].type == TokenType::name && tokens_[at].kind == WordKind::reserved) {
    found_->broken = true;  // No table has such a name without quotes.
    return at + 1;
  }
  level.expects_table = false;
  const std::size_t end = chain_end(at);
  if (type_is(end, TokenType::left_paren)) {
    const bool syntax =
        end == at + 1 && tokens_[at].kind == WordKind::column_name;  // JSON_TABLE, XMLTABLE
    open_call(at, end, syntax);
    return end + 1;
  }
  RelationName relation;
  read_name(text_, tokens_, at, relation);
  if (!is_cte(relation)) found_->add_read(std::move(relation));
  level.item_end = static_cast<std::uint32_t>(end);
  return end;
}

bool QueryWalker::is_cte(const RelationName& name) const {
  if (!name.schema.empty() || ctes_.empty()) return false;
  return std::find(ctes_.begin(), ctes_.end(), hash_bytes(name.name)) != ctes_.end();
}

void QueryWalker::begin_from() { top().from = top().had_from = top().expects_table = true; }
void QueryWalker::end_from() {
  if (top().expects_table) found_->broken = true;
  top().from = false;
}

std::size_t QueryWalker::key_word(std::size_t at, Word word) {
  Level& level = top();
  switch (int{word}) {
    case Word::select:
      // Behind INSERT INTO t, EXPLAIN options and the like; it can't be anything but a query.
      level.at_start = true;
      return begin_query(at);
    case Word::from: {
      if (!level.query) return at + 1;  // extract(year FROM x)
      const bool compares = follows(at, Word::distinct) && at >= from_ + 2 &&
                            (word_at(at - 2) == Word::is || word_at(at - 2) == Word::not_);
      if (!compares) begin_from();
      return at + 1;
    }
    case Word::join:
      if (level.from && !level.expects_table) {
        level.from = level.expects_table = true;
        return at + 1;
      }
      return at;
    case Word::using_:
      if ((level.dml == Dml::delete_ || level.dml == Dml::merge) && !level.had_from) begin_from();
      return at + 1;
    case Word::union_:
    case Word::intersect:
    case Word::except:
      end_from();
      level.at_start = level.query = true;
      return at + 1;
    case Word::do_:
    case Word::returning:
      // INSERT INTO t WITH x … SELECT … [ON CONFLICT … DO …]: x ends with the query.
      if (level.dml == Dml::insert) ctes_.resize(level.insert_ctes);
      end_from();
      return at + 1;
    case Word::where:
    case Word::group:
    case Word::having:
    case Word::window:
    case Word::limit:
    case Word::offset:
    case Word::fetch:
    case Word::when:
      end_from();
      return at + 1;
    case Word::order:
      end_from();
      level.count_arguments = false;  // f(a, b ORDER BY c, d)
      return at + 1;
    case Word::for_: {
      end_from();
      const Word next = word_at(at + 1);
      const bool locks = next == Word::update || next == Word::share ||
                         (next == Word::no && word_at(at + 2) == Word::key) ||
                         (next == Word::key && word_at(at + 2) == Word::share);
      if (locks) found_->locks_rows = true;
      return at + 1;
    }
    case Word::update:
      if (follows(at, Word::do_)) found_->inserts_may_update();
      return at;
    case Word::into:
      return select_into(at);
    case Word::operator_:
      return explicit_operator(at);
    case Word::variadic:
      level.variadic = true;
      return at + 1;
    case Word::uescape:
      // The escapes of a U&"…" before it are not ours to read; those of a string say nothing.
      if (!(at > from_ && type_is(at - 1, TokenType::literal) &&
            type_is(at + 1, TokenType::literal)))
        found_->broken = true;
      return at + 1;
    case Word::tablesample: {
      const std::size_t end = chain_end(at + 1);
      if (!type_is(end, TokenType::left_paren)) return at + 1;
      RelationName method;
      read_name(text_, tokens_, at + 1, method);
      const bool builtin =
          method.schema.empty() && (method.name == "system" || method.name == "bernoulli");
      if (builtin) return end;
      open_call(at + 1, end, false);
      return end + 1;
    }
    default:
      return at;
  }
}

std::size_t QueryWalker::select_into(std::size_t at) {
  found_->select_into = true;
  for (++at; at < tokens_.size(); ++at) {
    const Word word = word_at(at);
    if (word == Word::temp || word == Word::temporary) found_->into_temp = true;
    const bool is_option = word == Word::temp || word == Word::temporary || word == Word::local ||
                           word == Word::global || word == Word::unlogged || word == Word::table;
    // Where no name follows, the word is the table's: INTO unlogged WHERE …
    if (!is_option || at + 1 >= tokens_.size() || !is_any_name(tokens_[at + 1])) break;
    const bool ends_there = tokens_[at + 1].type == TokenType::name && tokens_[at + 1].kind == WordKind::reserved;
    if (ends_there && word_at(at + 1) != Word::table) break;
  }
  RelationName target;
  const std::size_t end = read_name(text_, tokens_, at, target);
  if (end == at) {
    found_->broken = true;
    return at;
  }
  found_->add_write(std::move(target), use::kInsert);
  return end;
}

/// OPERATOR(schema.+)
std::size_t QueryWalker::explicit_operator(std::size_t at) {
  if (!type_is(at + 1, TokenType::left_paren)) return at;
  RelationName schema;
  const std::size_t end = read_name(text_, tokens_, at + 2, schema);
  const bool of_catalog = end != at + 2 && schema.name == "pg_catalog";
  if (!of_catalog) found_->odd_operator = true;
  for (std::size_t i = at + 2; i < tokens_.size() && !type_is(i, TokenType::right_paren); ++i) {
    if (type_is(i, TokenType::op)) found_->add_operator(text_of(text_, tokens_[i]));
  }
  std::size_t close_at = end;
  while (close_at < tokens_.size() && close_at < end + 2 &&
         !type_is(close_at, TokenType::right_paren))
    ++close_at;
  if (!type_is(close_at, TokenType::right_paren)) found_->broken = true;
  operator_end_ = close_at + 1;
  return operator_end_;
}

/// A name that no rule of the grammar claims: a column, a type, an alias, or a function.
std::size_t QueryWalker::plain_name(std::size_t at) {
  Level& level = top();
  const std::size_t end = chain_end(at);
  const bool single = end == at + 1;
  const bool unquoted = tokens_[at].type == TokenType::name;
  const WordKind kind = unquoted && single && !(at > from_ && type_is(at - 1, TokenType::dot))
                            ? tokens_[at].kind
                            : WordKind::name;
  const bool after_as = behind_as(at);

  if (at > from_ && type_is(at - 1, TokenType::cast)) {
    check_type(at, end);
    return end;  // What follows in parentheses is the type's length.
  }
  if (level.is_cast && after_as) {
    check_type(at, end);
    return end;
  }
  if (type_is(end, TokenType::left_paren)) {
    const Word word = single ? word_at(at) : Word::none;
    const bool casts = word == Word::cast || word == Word::treat;
    if (kind == WordKind::reserved && !casts) return end;
    // FROM t AS a (x, y), FROM t a (x, y), FROM (…) a (x, y), FROM f() WITH ORDINALITY a (x, y)
    const bool behind_parens =
        at > from_ && type_is(at - 1, TokenType::right_paren) && at != operator_end_;
    const bool behind_item =
        level.from && (at == level.item_end || behind_parens || follows(at, Word::ordinality));
    const bool syntax =
        kind == WordKind::column_name || (kind != WordKind::name && is_call_syntax(at, word));
    const bool doubtful = syntax || (single && (after_as || behind_item));
    open_call(at, end, doubtful || casts);
    top().is_cast = casts;
    return end + 1;
  }
  if (type_is(end, TokenType::literal) && kind == WordKind::name && !after_as) check_type(at, end);
  if (!single || (at > from_ && type_is(at - 1, TokenType::dot))) add_dotted(end - 1);
  return end;
}

/// Whether the word at `at`, which stands before a parenthesis and could name a function, is the
/// grammar's own here.
bool QueryWalker::is_call_syntax(std::size_t at, Word word) const {
  switch (int{word}) {
    case Word::over:
      // f(x) IGNORE NULLS OVER (…), of PostgreSQL 19
      if (at > from_ + 1 && tokens_[at - 1].type == TokenType::name &&
          equals_ignoring_case(text_of(text_, tokens_[at - 1]), "nulls"))
        return true;
      [[fallthrough]];
    case Word::filter:
    case Word::repeatable:
      return at > from_ && type_is(at - 1, TokenType::right_paren);
    case Word::sets:
      return follows(at, Word::grouping);
    case Word::rollup:
    case Word::cube:
      return follows(at, Word::by) || (at > from_ && (type_is(at - 1, TokenType::comma) ||
                                                      type_is(at - 1, TokenType::left_paren)));
    case Word::first:
    case Word::next:
      return follows(at, Word::fetch);
    case Word::zone:
      return follows(at, Word::time);
    case Word::second:
      return follows(at, Word::to) || (at > from_ && type_is(at - 1, TokenType::literal));
    case Word::varying:
      return at > from_ && tokens_[at - 1].type == TokenType::name;
    case Word::insert:
      return follows(at, Word::then);
    case Word::conflict:
      return follows(at, Word::on);
    case Word::set:
      return levels_.back().dml != Dml::none;
    case Word::by:
    case Word::columns:
    case Word::escape:
    case Word::ilike:
    case Word::plan:
      return true;
    default:
      return false;
  }
}

void QueryWalker::check_type(std::size_t at, std::size_t end) {
  if (end == at + 1 && tokens_[at].type == TokenType::name &&
      tokens_[at].kind == WordKind::column_name)
    return;
  RelationName type;
  read_name(text_, tokens_, at, type);
  const bool of_catalog = type.schema.empty() || type.schema == "pg_catalog";
  if (of_catalog && is_builtin_type(type.name)) return;
  found_->odd_type = true;
  found_->add_type(std::move(type));
}

void QueryWalker::add_dotted(std::size_t at) {
  if (!fold_name(tokens_[at].type, text_of(text_, tokens_[at]), scratch_)) found_->broken = true;
  if (!insert_hash(found_->dotted_hashes_, hash_bytes(scratch_))) return;
  if (found_->dotted_hashes_.size() > kDottedMax)
    found_->broken = true;
  else
    found_->dotted.push_back(scratch_);
}

// ---------------------------------------------------------------- calls

/// The token at `end` is the left parenthesis.
void QueryWalker::open_call(std::size_t first, std::size_t end, bool doubtful) {
  open(end);
  if (found_->broken) return;
  Level& level = top();
  level.call_at = static_cast<std::uint32_t>(first);
  level.call_end = static_cast<std::uint32_t>(end);
  level.doubtful = doubtful;
}

void QueryWalker::finish_call(const Level& level, std::size_t close_at) {
  const std::size_t inside = close_at - level.open_at - 1;
  const bool star = inside == 1 && type_is(close_at - 1, TokenType::op);
  int arguments = inside == 0 || star ? 0 : level.commas + 1;
  if (level.variadic) arguments = -1;

  RelationName name;
  read_name(text_, tokens_, level.call_at, name);
  const std::uint64_t hash =
      (hash_of(name) ^ static_cast<std::uint64_t>(arguments + 1)) * 1099511628211U;
  for (Call& call : found_->calls) {
    if (call.hash != hash) continue;
    call.doubtful = call.doubtful && level.doubtful;
    return;
  }
  if (found_->calls.size() >= kCallsMax) {
    found_->broken = true;
    return;
  }
  found_->calls.push_back(
      {{std::move(name.schema), std::move(name.name), arguments}, level.doubtful, hash});
}

}  // namespace pgweir::sql
