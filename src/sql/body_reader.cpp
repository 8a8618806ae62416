#include "sql/body_reader.h"

#include <algorithm>

#include "base/text.h"
#include "sql/names.h"
#include "sql/scanner.h"
#include "sql/statement_reader.h"

namespace pgweir::sql {
namespace {

constexpr std::size_t kBodyBytesMax = 1 << 20;
constexpr std::size_t kCursorsMax = 64;

/// Before an expression, which PL/pgSQL evaluates as `SELECT expression`.
constexpr Token kSelect{.begin = 0,
                        .size = 0,
                        .type = TokenType::name,
                        .word = Word::select,
                        .kind = WordKind::reserved};

}  // namespace

// ---------------------------------------------------------------- SQL

void BodyReader::read_sql(Bytes source, Body& body) {
  if (!scan(source, body)) return;
  const Tokens tokens(tokens_);
  bool balanced = true;
  for (std::size_t at = 0; at < tokens.size() && body.readable;) {
    const std::size_t end = statement_end(tokens, at, balanced);
    if (!balanced) body.readable = false;
    if (end > at && body.readable) sql(tokens.subspan(at, end - at));
    at = end + 1;
  }
}

bool BodyReader::scan(Bytes source, Body& body) {
  text_ = source;
  body_ = &body;
  cursors_.clear();
  declaring_ = false;
  TokenSink sink(source, tokens_);
  body.readable = source.size() <= kBodyBytesMax &&
                  Scanner<TokenSink>(source, {}, sink).run() == ScanEnd::complete;
  return body.readable;
}

void BodyReader::sql(Tokens statement) {
  Findings& found = body_->found;
  judged_ = {};
  found.modifies = false;  // What was found before says nothing of this one.
  StatementReader reader(text_, statement, walker_, found, judged_);
  (void)reader.read();
  body_->reads_all = body_->reads_all || judged_.reads.all;
  body_->writes_all = body_->writes_all || judged_.writes.all;
  if (found.broken) body_->readable = false;
  // What it writes is named.
  const Word first = statement.front().word;
  const bool modification = first == Word::insert || first == Word::update ||
                            first == Word::delete_ || first == Word::merge || first == Word::with;
  const bool named = modification && !found.locks_rows && !found.select_into;
  if (judged_.statement.cause != Cause::none && !named) body_->primary_only = true;
  // An EXECUTE behind it means something else.
  const SessionStep step = judged_.statement.session;
  if (step == SessionStep::prepare || step == SessionStep::deallocate || step == SessionStep::deallocate_all) body_->writes_all = true;
}

// ---------------------------------------------------------------- PL/pgSQL

void BodyReader::read_plpgsql(Bytes source, Body& body) {
  if (!scan(source, body)) return;
  std::size_t at = 0;
  // #variable_conflict use_column and the like stand first, without a semicolon.
  while (type_is(at, TokenType::op) && text_of(text_, tokens_[at]) == "#") at += 3;
  while (at < tokens_.size() && body.readable) {
    const std::size_t next = declaring_ ? declaration(at) : step(at);
    if (body.found.broken || next <= at) body.readable = false;
    at = next;
  }
  // `FOR r IN c(1)` and `OPEN c(1)` name a cursor.
  std::erase_if(body.found.calls, [this](const Call& call) {
    return call.name.schema.empty() &&
           std::find(cursors_.begin(), cursors_.end(), call.name.name) != cursors_.end();
  });
}

bool BodyReader::is(std::size_t at, Bytes word) const {
  return type_is(at, TokenType::name) && equals_ignoring_case(text_of(text_, tokens_[at]), word);
}

bool BodyReader::begins_query(std::size_t at) const {
  if (!type_is(at, TokenType::name)) return false;
  switch (int{tokens_[at].word}) {
    case Word::select:
    case Word::with:
    case Word::values:
    case Word::table:
    case Word::insert:
    case Word::update:
    case Word::delete_:
    case Word::merge:
    case Word::explain:
    case Word::show:
      return true;
    default:
      return false;
  }
}

std::size_t BodyReader::end_of(std::size_t at, Bytes stop) const {
  std::size_t depth = 0;
  std::size_t cases = 0;
  for (; at < tokens_.size(); ++at) {
    const TokenType type = tokens_[at].type;
    if (type == TokenType::left_paren || type == TokenType::left_bracket) ++depth;
    if ((type == TokenType::right_paren || type == TokenType::right_bracket) && depth > 0) --depth;
    if (depth != 0) continue;
    if (type == TokenType::semicolon) return at;
    if (stop.empty() || type != TokenType::name) continue;
    if (cases == 0 && is(at, stop)) return at;
    if (is(at, "case")) ++cases;
    if (is(at, "end") && cases > 0) --cases;
  }
  return at;
}

/// One statement, or the words that begin a block or a branch. Returns the index behind it.
std::size_t BodyReader::step(std::size_t at) {
  const auto branch = [this](std::size_t from, Bytes stop) {
    const std::size_t end = end_of(from, stop);
    expression(from, end);
    return end + 1;
  };
  if (type_is(at, TokenType::semicolon)) return at + 1;
  if (type_is(at, TokenType::op) && text_of(text_, tokens_[at]) == "<<")
    return at + 3;                                            // <<label>>
  if (!is_any_name(tokens_[at])) return plain_statement(at);  // $1 := …
  if (is(at, "declare")) {
    declaring_ = true;
    return at + 1;
  }
  if (is(at, "begin") || is(at, "else") || is(at, "loop") || is(at, "exception")) return at + 1;
  if (is(at, "end") || is(at, "get") || is(at, "fetch") || is(at, "move") || is(at, "close") ||
      is(at, "null")) {
    return end_of(at) + 1;
  }
  if (is(at, "commit") || is(at, "rollback")) {
    body_->primary_only = true;
    return end_of(at) + 1;
  }
  if (is(at, "if") || is(at, "elsif") || is(at, "elseif") || is(at, "when"))
    return branch(at + 1, "then");
  if (is(at, "while")) return branch(at + 1, "loop");
  if (is(at, "case")) {
    const std::size_t end = end_of(at + 1, "when");
    expression(at + 1, end);
    return end;
  }
  if (is(at, "for") || is(at, "foreach")) return for_loop(at);
  if (is(at, "exit") || is(at, "continue")) {
    const std::size_t when = end_of(at, "when");
    return is(when, "when") ? branch(when + 1, {}) : when + 1;
  }
  if (is(at, "return")) return return_(at);
  if (is(at, "open")) return open(at);
  if (is(at, "raise") || is(at, "assert") || is(at, "perform")) return branch(at + 1, {});
  if (is(at, "execute") || is(at, "do")) {
    source(at, end_of(at));
    return end_of(at) + 1;
  }
  return plain_statement(at);
}

/// name [CONSTANT] type [NOT NULL] [:= expression]; name CURSOR [(…)] FOR query; name ALIAS FOR x
std::size_t BodyReader::declaration(std::size_t at) {
  if (is(at, "begin")) {
    declaring_ = false;
    return at + 1;
  }
  if (is(at, "declare")) return at + 1;
  const std::size_t end = end_of(at);
  std::size_t type_at = at + 1;
  if (is(type_at, "alias")) return end + 1;
  while (is(type_at, "no") || is(type_at, "scroll") || is(type_at, "constant")) ++type_at;
  if (is(type_at, "cursor")) {
    std::string name;
    if (!is_any_name(tokens_[at]) || cursors_.size() >= kCursorsMax ||
        !fold_name(tokens_[at].type, text_of(text_, tokens_[at]), name)) {
      body_->readable = false;
    }
    cursors_.push_back(std::move(name));
    const std::size_t query_at = std::min(end_of(at, "for"), end_of(at, "is"));
    if (query_at >= end) body_->readable = false;
    source(query_at + 1, end);
    return end + 1;
  }
  RelationName type;
  if (QueryWalker::read_name(text_, Tokens(tokens_), type_at, type) != type_at)
    body_->found.add_type(std::move(type));
  for (std::size_t i = type_at; i < end; ++i) {
    const Bytes word = text_of(text_, tokens_[i]);
    if (word != ":=" && word != "=" && !is(i, "default")) continue;
    expression(i + 1, end);
    break;
  }
  return end + 1;
}

/// FOR x IN query | EXECUTE text | a .. b | cursor LOOP; FOREACH x IN ARRAY expression LOOP
std::size_t BodyReader::for_loop(std::size_t at) {
  const std::size_t end = end_of(at, "loop");
  std::size_t from = end_of(at, "in") + 1;
  if (end >= tokens_.size() || from > end) {
    body_->readable = false;
    return at + 1;
  }
  if (is(from, "reverse") || is(from, "array")) ++from;
  source(from, end);
  return end + 1;
}

/// RETURN [NEXT] expression | QUERY query | QUERY EXECUTE text
std::size_t BodyReader::return_(std::size_t at) {
  const std::size_t end = end_of(at);
  std::size_t from = at + 1;
  const bool sets = (is(from, "query") || is(from, "next")) && from + 1 < end;
  if (sets) ++from;
  source(from, end);
  return end + 1;
}

/// OPEN cursor [[NO] SCROLL] FOR query | EXECUTE text; OPEN cursor [(arguments)]
std::size_t BodyReader::open(std::size_t at) {
  const std::size_t end = end_of(at);
  const std::size_t for_at = end_of(at, "for");
  if (for_at < end) {
    source(for_at + 1, end);
  } else {
    expression(at + 2, end);
  }
  return end + 1;
}

/// An assignment, or a statement of SQL.
std::size_t BodyReader::plain_statement(std::size_t at) {
  const std::size_t end = end_of(at);
  std::size_t depth = 0;
  for (std::size_t i = at + 1; i < end; ++i) {
    if (type_is(i, TokenType::left_bracket)) ++depth;
    if (type_is(i, TokenType::right_bracket) && depth > 0) --depth;
    if (depth != 0 || type_is(i, TokenType::right_bracket)) continue;
    const Bytes here = text_of(text_, tokens_[i]);
    if (here == ":=" || here == "=") {
      expression(at + 1, i);  // Subscripts may be computed.
      expression(i + 1, end);
      return end + 1;
    }
    const bool target = type_is(i, TokenType::dot) || type_is(i - 1, TokenType::dot);
    if (!target) break;
  }
  query(at, end);
  return end + 1;
}

void BodyReader::source(std::size_t from, std::size_t to) {
  if (is(from, "execute") || is(from, "do")) {
    body_->dynamic = true;
    // The text may be made by a function.
    if (is(from, "execute")) expression(from + 1, to);
  } else if (begins_query(from)) {
    query(from, to);
  } else {
    expression(from, to);
  }
}

void BodyReader::query(std::size_t from, std::size_t to) {
  if (from >= to) return;
  piece_.clear();
  copy_without_into(from, to);
  if (!piece_.empty()) sql(Tokens(piece_));
}

void BodyReader::expression(std::size_t from, std::size_t to) {
  if (from >= to) return;
  piece_.assign(1, kSelect);
  copy_without_into(from, to);
  Findings& found = body_->found;
  walker_.walk(text_, Tokens(piece_), 0, found);
  if (found.broken) body_->readable = false;
  if (found.select_into) body_->primary_only = true;
}

/// Leaves out `INTO [STRICT] variable, …`, which is no INTO of SQL.
void BodyReader::copy_without_into(std::size_t from, std::size_t to) {
  to = std::min(to, tokens_.size());
  std::size_t depth = 0;
  const auto skip_target = [this, to](std::size_t at) {
    for (; at < to; ++at) {
      if (type_is(at, TokenType::left_bracket)) {
        while (at < to && !type_is(at, TokenType::right_bracket)) ++at;
        continue;
      }
      const bool part = is_any_name(tokens_[at]) || type_is(at, TokenType::parameter);
      if (part && (type_is(at - 1, TokenType::dot) || type_is(at - 1, TokenType::comma))) continue;
      if (!type_is(at, TokenType::dot) && !type_is(at, TokenType::comma)) return at;
    }
    return at;
  };
  for (std::size_t at = from; at < to; ++at) {
    const Token& token = tokens_[at];
    if (token.type == TokenType::left_paren) ++depth;
    if (token.type == TokenType::right_paren && depth > 0) --depth;
    const bool of_sql =
        at > from && (tokens_[at - 1].word == Word::insert || tokens_[at - 1].word == Word::merge);
    if (depth == 0 && token.word == Word::into && !of_sql) {
      ++at;
      if (is(at, "strict")) ++at;
      at = skip_target(at + 1) - 1;
      continue;
    }
    piece_.push_back(token);
  }
}

}  // namespace pgweir::sql
