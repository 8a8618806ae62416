#include "sql/statement_reader.h"

#include <algorithm>

#include "base/text.h"
#include "sql/builtins.h"
#include "sql/names.h"

namespace pgweir::sql {
namespace {

/// `timestamp with time zone`, `bit varying`, `int array`.
bool goes_on_type_name(Bytes word) noexcept {
  return word == "with" || word == "without" || word == "time" || word == "zone" || word == "varying" || word == "array";
}

/// A sign before a number is no operator of anybody's.
bool names_odd_sign(const Findings& found) {
  return std::any_of(found.operators.begin(), found.operators.end(), [](const std::string& symbol) { return symbol != "-" && symbol != "+"; });
}

}  // namespace

Word StatementReader::word(std::size_t ahead) const {
  return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].word : Word::none;
}

bool StatementReader::accept(Word wanted) {
  if (word() != wanted) return false;
  ++at_;
  return true;
}

std::string StatementReader::name() {
  std::string out;
  while (at_ < tokens_.size() && is_any_name(tokens_[at_])) {
    std::string part;
    if (!fold_name(tokens_[at_].type, text_of(text_, tokens_[at_]), part)) found_.broken = true;
    out += part;
    ++at_;
    if (!type_is(TokenType::dot)) break;
    out += '.';
    ++at_;
  }
  return out;
}

Bytes StatementReader::rest() const {
  if (at_end()) return {};
  const Token& last = tokens_.back();
  return text_.substr(tokens_[at_].begin, last.begin + last.size - tokens_[at_].begin);
}

void StatementReader::skip_parens() {
  std::size_t depth = 0;
  for (; at_ < tokens_.size(); ++at_) {
    if (type_is(TokenType::left_paren)) ++depth;
    if (type_is(TokenType::right_paren) && --depth == 0) {
      ++at_;
      return;
    }
  }
  found_.broken = true;
}

bool StatementReader::has_word(std::size_t from, Word wanted) const {
  for (std::size_t i = from; i < tokens_.size(); ++i) {
    if (tokens_[i].word == wanted) return true;
  }
  return false;
}

void StatementReader::be(Kind kind, Cause cause) {
  statement_.kind = kind;
  statement_.cause = cause;
}

void StatementReader::set_step(SessionStep step) {
  be(Kind::session_state, Cause::session_state);
  statement_.session = step;
}

Reading StatementReader::read() {
  std::size_t first = 0;
  while (first < tokens_.size() && tokens_[first].type == TokenType::left_paren) ++first;
  if (first > 0) {
    const Word inner = first < tokens_.size() ? tokens_[first].word : Word::none;
    const bool is_query = inner == Word::select || inner == Word::values || inner == Word::table ||
                          inner == Word::with;
    if (is_query) return query();
    not_understood();
    return Reading::runs;
  }
  const Word first_word = word();
  at_ = 1;
  switch (int{first_word}) {
    case Word::select:
    case Word::values:
    case Word::table:
    case Word::with:
      return query();
    case Word::insert:
    case Word::update:
    case Word::delete_:
    case Word::merge:
      return modification();
    case Word::copy:
      return copy();
    case Word::explain:
      return explain();
    case Word::prepare:
      return prepare();
    case Word::create:
      return create();
    case Word::declare:
      return declare();
    case Word::begin:
      begin();
      break;
    case Word::start:
      word() == Word::transaction ? begin() : not_understood();
      break;
    case Word::commit:
      end_transaction(TransactionStep::commit);
      break;
    case Word::end:
      end_transaction(TransactionStep::commit);
      break;
    case Word::abort:
    case Word::rollback:
      rollback();
      break;
    case Word::savepoint:
    case Word::release:
      be(Kind::transaction_control, Cause::transaction_control);
      statement_.transaction = TransactionStep::savepoint;
      break;
    case Word::set:
      set();
      break;
    case Word::reset:
      reset();
      break;
    case Word::discard:
      discard();
      break;
    case Word::deallocate:
      deallocate();
      break;
    case Word::execute:
      execute();
      break;
    case Word::listen:
      listen(SessionStep::listen);
      break;
    case Word::unlisten:
      listen(SessionStep::unlisten);
      break;
    case Word::fetch:
    case Word::move:
    case Word::close:
      cursor();
      break;
    case Word::load:
      set_step(SessionStep::load);
      break;
    case Word::do_:
    case Word::call:
      opaque(SessionStep::opaque);
      break;
    case Word::show:
      show();
      break;
    case Word::truncate:
      truncate();
      break;
    case Word::refresh:
      refresh();
      break;
    case Word::notify:
    case Word::lock:
      utility();
      break;
    case Word::vacuum:
    case Word::analyze:
    case Word::analyse:
    case Word::cluster:
    case Word::reindex:
    case Word::checkpoint:
      maintenance();
      break;
    case Word::alter:
    case Word::drop:
    case Word::comment:
    case Word::grant:
    case Word::revoke:
    case Word::security:
    case Word::reassign:
    case Word::import:
      ddl();
      break;
    default:
      not_understood();
      break;
  }
  return Reading::runs;
}

void StatementReader::not_understood() {
  found_.broken = true;
  be(Kind::unknown, Cause::unparsed);
}

// ---------------------------------------------------------------- queries and modifications

Reading StatementReader::query() {
  be(Kind::read, Cause::none);
  walker_.walk(text_, tokens_, 0, found_);
  if (found_.modifies || found_.locks_rows || found_.select_into) be(Kind::write, Cause::write);
  if (found_.select_into) {
    statement_.is_ddl = judged_.writes.all = true;
    if (found_.into_temp) statement_.session = SessionStep::temp_table;
  }
  return Reading::runs;
}

Reading StatementReader::modification() {
  walker_.walk(text_, tokens_, 0, found_);
  if (!found_.modifies) found_.broken = true;
  be(Kind::write, Cause::write);
  return Reading::runs;
}

/// COPY [BINARY] table [(columns)] | (query) FROM|TO file | PROGRAM command | STDIN | STDOUT
/// [options] [WHERE …]
Reading StatementReader::copy() {
  be(Kind::write, Cause::write);
  if (word() == Word::binary &&
      !(at_ + 1 < tokens_.size() && tokens_[at_ + 1].type == TokenType::dot))
    ++at_;
  RelationName table;
  const bool is_query = type_is(TokenType::left_paren);
  if (is_query) {
    const std::size_t open_at = at_;
    skip_parens();
    if (!found_.broken) walker_.walk(text_, tokens_.first(at_ - 1), open_at + 1, found_);
  } else {
    const std::size_t end = QueryWalker::read_name(text_, tokens_, at_, table);
    if (end == at_) found_.broken = true;
    at_ = end;
    if (type_is(TokenType::left_paren)) skip_parens();
  }
  const bool to = word() == Word::to;
  if (found_.broken || (!to && word() != Word::from)) {
    not_understood();
    return Reading::runs;
  }
  ++at_;
  const bool by_protocol =
      word() == Word::stdin_ || word() == Word::stdout_;  // Either word, in both directions.
  if (to) {
    if (!is_query) {
      found_.add_read(std::move(table));
      found_.copies_relation = true;
    }
    const bool harmless =
        by_protocol && !found_.modifies && !found_.locks_rows && !found_.select_into;
    if (harmless) be(Kind::read, Cause::none);
    return Reading::runs;
  }
  statement_.copy_in = by_protocol;
  if (is_query)
    found_.broken = true;
  else
    found_.add_write(std::move(table), use::kInsert);
  for (std::size_t i = at_; i < tokens_.size() && !found_.broken; ++i) {
    if (tokens_[i].word == Word::where) {
      walker_.walk(text_, tokens_, i + 1, found_);
      break;
    }
  }
  return Reading::runs;
}

/// Whether the value of an option is the word FALSE or OFF.
bool StatementReader::is_off(std::size_t at) const {
  if (at >= tokens_.size() || tokens_[at].type != TokenType::name) return false;
  const Bytes value = text_of(text_, tokens_[at]);
  return equals_ignoring_case(value, "false") || equals_ignoring_case(value, "off");
}

/// EXPLAIN [ANALYZE] [VERBOSE] | EXPLAIN (options) statement. Of an option that is named twice the
/// last counts. A value that is a literal ('off', 0) is not looked at: the class would hang on it.
Reading StatementReader::explain() {
  bool analyze = false;
  if (type_is(TokenType::left_paren) && word(1) != Word::select && word(1) != Word::values &&
      word(1) != Word::with && word(1) != Word::table && tokens_.size() > at_ + 1 &&
      tokens_[at_ + 1].type != TokenType::left_paren) {
    const std::size_t open_at = at_;
    skip_parens();
    for (std::size_t i = open_at; i < at_; ++i) {
      const bool names_it = tokens_[i].word == Word::analyze || tokens_[i].word == Word::analyse ||
                            (is_any_name(tokens_[i]) && tokens_[i].type != TokenType::name);
      if (names_it) analyze = !is_off(i + 1);
    }
  } else {
    while (word() == Word::analyze || word() == Word::analyse || word() == Word::verbose) {
      analyze = analyze || word() != Word::verbose;
      ++at_;
    }
  }
  if (found_.broken || at_end() || word() == Word::explain) {
    not_understood();
    return Reading::runs;
  }
  // The plan is the answering server's; what runs inside counts as itself.
  StatementReader inner(text_, tokens_.subspan(at_), walker_, found_, judged_);
  const Reading reading = inner.read();
  if (!analyze) {
    const bool broken = found_.broken;
    judged_ = {};
    statement_ = {};
    found_.broken = broken;
  }
  be(Kind::utility,
     statement_.cause == Cause::none || !analyze ? Cause::server_view : statement_.cause);
  return analyze ? reading : Reading::does_not_run;
}

// ---------------------------------------------------------------- transactions

void StatementReader::begin() {
  be(Kind::transaction_control, Cause::transaction_control);
  statement_.transaction = TransactionStep::begin;
}

void StatementReader::end_transaction(TransactionStep step) {
  be(Kind::transaction_control, Cause::transaction_control);
  if (accept(Word::prepared)) {
    statement_.transaction = TransactionStep::finish_prepared;
    judged_.writes.all = true;
    statement_.may_commit = true;
    return;
  }
  statement_.transaction = step;
  for (; !at_end(); ++at_) {
    if (word() == Word::and_) statement_.chain = word(1) == Word::chain;
  }
}

void StatementReader::rollback() {
  std::size_t behind = at_;
  const auto peek = [&] { return behind < tokens_.size() ? tokens_[behind].word : Word::none; };
  if (peek() == Word::work || peek() == Word::transaction) ++behind;
  if (peek() == Word::to) {
    be(Kind::transaction_control, Cause::transaction_control);
    statement_.transaction = TransactionStep::savepoint;
    return;
  }
  end_transaction(TransactionStep::rollback);
}

Reading StatementReader::prepare() {
  if (accept(Word::transaction)) {
    be(Kind::transaction_control, Cause::transaction_control);
    statement_.transaction = TransactionStep::prepare;
    statement_.object = rest();
    judged_.depends_on_literal = true;
    return Reading::runs;
  }
  set_step(SessionStep::prepare);
  statement_.object = name();
  judged_.depends_on_literal = true;
  const bool types_are_plain = !type_is(TokenType::left_paren) || skip_plain_types();
  if (types_are_plain && accept(Word::as)) statement_.value = rest();
  return Reading::runs;
}

/// A list of types in parentheses: true when each is built in, which runs nothing of anybody's.
bool StatementReader::skip_plain_types() {
  const std::size_t open_at = at_;
  skip_parens();
  if (found_.broken) return false;
  std::string folded;
  for (std::size_t i = open_at + 1; i + 1 < at_; ++i) {
    const Token& token = tokens_[i];
    switch (token.type) {
      case TokenType::comma:
      case TokenType::number:
      case TokenType::left_paren:
      case TokenType::right_paren:
      case TokenType::left_bracket:
      case TokenType::right_bracket:
        break;
      case TokenType::name:
      case TokenType::quoted_name: {
        if (token.kind == WordKind::column_name && token.type == TokenType::name) break;
        const bool behind_another = tokens_[i - 1].type != TokenType::comma && i > open_at + 1;
        if (!fold_name(token.type, text_of(text_, token), folded)) return false;
        const bool goes_on = behind_another && token.type == TokenType::name && goes_on_type_name(folded);
        if (goes_on) break;
        if (behind_another || !is_builtin_type(folded)) return false;
        break;
      }
      case TokenType::unicode_name:
      case TokenType::literal:
      case TokenType::parameter:
      case TokenType::op:
      case TokenType::dot:
      case TokenType::semicolon:
      case TokenType::cast:
      case TokenType::other:
        return false;
    }
  }
  return true;
}

/// What was prepared the session knows: until it is asked, anything.
void StatementReader::execute() {
  opaque(SessionStep::execute);
  statement_.may_commit = false;
  statement_.object = name();
  if (at_end()) {
    statement_.plain_execute = true;
    return;
  }
  if (!type_is(TokenType::left_paren)) return;
  Findings arguments;
  walker_.walk(text_, tokens_, at_, arguments);
  statement_.plain_execute = !arguments.broken && arguments.calls.empty() && arguments.reads.empty() && arguments.writes.empty() &&
                             !arguments.reads_all && !arguments.odd_operator && !names_odd_sign(arguments) &&
                             !arguments.odd_type && arguments.types.empty() && arguments.dotted.empty();
}

// ---------------------------------------------------------------- session state

void StatementReader::set_transaction_words() {
  be(Kind::transaction_control, Cause::transaction_control);
  statement_.transaction = TransactionStep::set_transaction;
}

void StatementReader::set() {
  judged_.depends_on_literal = true;
  if (word() == Word::constraints) return set_step(SessionStep::set_local);
  SessionStep step = SessionStep::set;
  if (word() == Word::session && word(1) == Word::characteristics) {
    set_step(SessionStep::set_characteristics);
    at_ += 2;
    while (!at_end() && word() != Word::transaction) ++at_;
    accept(Word::transaction);
    statement_.value = rest();
    return;
  }
  // SESSION may also begin SESSION AUTHORIZATION.
  if (word() == Word::session && word(1) != Word::authorization)
    accept(Word::session);
  else if (accept(Word::local))
    step = SessionStep::set_local;
  set_step(step);

  if (word() == Word::transaction) return set_transaction_words();
  const auto value_of = [&](std::string_view object) {
    statement_.object = object;
    statement_.value = rest();
    const bool single = tokens_.size() == at_ + 1;
    const bool reset =
        at_end() ||
        (single && (word() == Word::default_ || (object == "timezone" && word() == Word::local)));
    if (reset && step == SessionStep::set) {
      statement_.session = SessionStep::reset;
      statement_.value.clear();
    }
  };
  if (word() == Word::session && word(1) == Word::authorization) {
    at_ += 2;
    if (step == SessionStep::set) statement_.session = SessionStep::set_session_authorization;
    statement_.object = "session_authorization";
    statement_.value = rest();
    return;
  }
  if (word() == Word::role && at_ + 1 < tokens_.size() &&
      (is_any_name(tokens_[at_ + 1]) || tokens_[at_ + 1].type == TokenType::literal)) {
    ++at_;
    if (word() == Word::to && at_ + 1 < tokens_.size()) ++at_;  // SET role TO x: the same setting
    if (step == SessionStep::set) statement_.session = SessionStep::set_role;
    statement_.object = "role";
    statement_.value = rest();
    return;
  }
  if (word() == Word::time && word(1) == Word::zone) {
    at_ += 2;
    return value_of("timezone");
  }
  if (accept(Word::names)) return value_of("client_encoding");
  if (word() == Word::schema && at_ + 1 < tokens_.size() &&
      tokens_[at_ + 1].type == TokenType::literal) {
    ++at_;
    return value_of("search_path");
  }
  if (word() == Word::xml && word(1) == Word::option) {
    at_ += 2;
    return value_of("xmloption");
  }
  // Settings are found whatever their case, also between quotes.
  const std::string object = to_lower(name());
  const bool assigns =
      word() == Word::to || (type_is(TokenType::op) && text_of(text_, tokens_[at_]) == "=");
  if (object.empty() || !(assigns || word() == Word::from)) return not_understood();
  if (assigns) ++at_;
  value_of(object);
  if (step == SessionStep::set) {
    if (object == "role") statement_.session = SessionStep::set_role;
    if (object == "session_authorization")
      statement_.session = SessionStep::set_session_authorization;
    if (object == "seed") statement_.session = SessionStep::seed;
    const bool of_transaction = object == "transaction_isolation" ||
                                object == "transaction_read_only" ||
                                object == "transaction_deferrable";
    if (of_transaction) set_transaction_words();
  }
}

void StatementReader::reset() {
  judged_.depends_on_literal = true;
  set_step(SessionStep::reset);
  if (accept(Word::all)) {
    statement_.session = SessionStep::reset_all;
  } else if (word() == Word::session && word(1) == Word::authorization) {
    statement_.session = SessionStep::set_session_authorization;
    statement_.object = "session_authorization";
  } else if (word() == Word::time && word(1) == Word::zone) {
    statement_.object = "timezone";
  } else if (word() == Word::transaction) {
    set_transaction_words();
  } else {
    statement_.object = to_lower(name());
    if (statement_.object == "role") statement_.session = SessionStep::set_role;
    if (statement_.object == "session_authorization") {
      statement_.session = SessionStep::set_session_authorization;
    }
    if (statement_.object.empty()) not_understood();
  }
}

void StatementReader::discard() {
  set_step(word() == Word::all ? SessionStep::discard_all : SessionStep::discard_some);
  statement_.object = name();
}

void StatementReader::deallocate() {
  // PREPARE is only noise before a name; DEALLOCATE prepare is one.
  if (word() == Word::prepare && tokens_.size() > at_ + 1) ++at_;
  set_step(word() == Word::all ? SessionStep::deallocate_all : SessionStep::deallocate);
  statement_.object = name();
}

void StatementReader::listen(SessionStep step) {
  set_step(step);
  statement_.object = type_is(TokenType::op) ? "*" : name();
}

Reading StatementReader::declare() {
  set_step(SessionStep::cursor);
  statement_.object = name();
  for (; !at_end(); ++at_) {
    if (word() == Word::with && word(1) == Word::hold)
      statement_.session = SessionStep::hold_cursor;
    if (word() == Word::for_) break;
  }
  if (!accept(Word::for_)) {
    not_understood();
    return Reading::runs;
  }
  walker_.walk(text_, tokens_, at_, found_);
  return Reading::runs;
}

/// FETCH and MOVE name the cursor last, CLOSE alone. What the cursor's query does was counted at
/// DECLARE; a cursor that a function returned may do anything.
void StatementReader::cursor() {
  set_step(SessionStep::cursor);
  judged_.reads.all = judged_.writes.all = tokens_[0].word != Word::close;
  at_ = tokens_.size() - 1;
  statement_.object = at_ == 0 ? "" : name();
}

void StatementReader::show() {
  be(Kind::utility, Cause::server_view);
  statement_.show = true;
  if (word() == Word::time && word(1) == Word::zone)
    statement_.object = "timezone";
  else if (word() == Word::transaction)
    statement_.object = "transaction_isolation";
  else if (word() == Word::session && word(1) == Word::authorization)
    statement_.object = "session_authorization";
  else
    statement_.object = to_lower(name());
}

// ---------------------------------------------------------------- the rest

void StatementReader::utility() { be(Kind::utility, Cause::write); }

void StatementReader::opaque(SessionStep step) {
  be(step == SessionStep::execute ? Kind::unknown : Kind::write, Cause::write);
  statement_.session = step;
  statement_.may_commit = true;
  if (tokens_[0].word == Word::call) walker_.walk(text_, tokens_, at_, found_);
  // What a procedure does its body may tell.
  if (found_.calls.empty()) judged_.reads.all = judged_.writes.all = true;
}

void StatementReader::relation_list(Uses uses) {
  for (;;) {
    accept(Word::only);
    RelationName table;
    const std::size_t end = QueryWalker::read_name(text_, tokens_, at_, table);
    if (end == at_) return;
    at_ = end;
    found_.add_write(std::move(table), uses);
    if (type_is(TokenType::op)) ++at_;  // t *
    if (type_is(TokenType::left_paren)) skip_parens();
    if (!type_is(TokenType::comma)) return;
    ++at_;
  }
}

void StatementReader::truncate() {
  be(Kind::write, Cause::write);
  accept(Word::table);
  relation_list(has_word(at_, Word::cascade) ? use::kTruncate | use::kTruncateCascade
                                             : use::kTruncate);
  if (found_.writes.empty()) found_.broken = true;
}

void StatementReader::refresh() {
  be(Kind::write, Cause::write);
  accept(Word::materialized);
  accept(Word::view);
  accept(Word::concurrently);
  relation_list(use::kRefresh);
  if (found_.writes.empty()) found_.broken = true;
}

/// What it touches is for people; it counts as a write of all tables.
void StatementReader::maintenance() {
  be(Kind::utility, Cause::write);
  judged_.writes.all = true;
  // VACUUM, CLUSTER and REINDEX commit for each table, and may fail after some.
  statement_.may_commit = tokens_[0].word != Word::analyze && tokens_[0].word != Word::analyse;
  if (type_is(TokenType::left_paren)) skip_parens();
  if (tokens_[0].word == Word::reindex) {
    const bool is_table = word() == Word::table;
    if (!is_table) return;
    ++at_;
    accept(Word::concurrently);
  }
  while (!at_end() && tokens_[at_].type == TokenType::name &&
         (word() == Word::verbose || word() == Word::analyze || word() == Word::full ||
          word() == Word::freeze)) {
    ++at_;
  }
  relation_list(use::kWrites);
}

Reading StatementReader::create() {
  ddl();
  std::size_t i = at_;
  const auto peek = [&] { return i < tokens_.size() ? tokens_[i].word : Word::none; };
  if (peek() == Word::or_) i += 2;
  if (peek() == Word::local || peek() == Word::global) ++i;
  if (peek() == Word::temp || peek() == Word::temporary)
    statement_.session = SessionStep::temp_table;
  const bool in_temp_schema =
      !found_.writes.empty() && found_.writes.front().schema.starts_with("pg_temp");
  if (in_temp_schema) statement_.session = SessionStep::temp_table;

  // CREATE TABLE … AS and CREATE MATERIALIZED VIEW … AS run a query; a view's is only looked at.
  const bool is_table = has_word(1, Word::table) || has_word(1, Word::materialized);
  const bool is_view = !is_table && has_word(1, Word::view);
  if (!is_table && !is_view) return Reading::runs;
  std::size_t depth = 0;
  for (i = at_; i < tokens_.size(); ++i) {
    if (tokens_[i].type == TokenType::left_paren) ++depth;
    if (tokens_[i].type == TokenType::right_paren && depth > 0) --depth;
    if (depth != 0 || tokens_[i].word != Word::as) continue;
    std::size_t query_at = i + 1;
    while (query_at < tokens_.size() && tokens_[query_at].type == TokenType::left_paren) ++query_at;
    const Word first = query_at < tokens_.size() ? tokens_[query_at].word : Word::none;
    if (first != Word::select && first != Word::values && first != Word::table &&
        first != Word::with)
      break;
    // WITH [NO] DATA at the end belongs to CREATE.
    std::size_t end = tokens_.size();
    if (end > 2 && tokens_[end - 1].word == Word::data) {
      end -= tokens_[end - 2].word == Word::no ? 3 : 2;
    }
    // WITH [LOCAL | CASCADED] CHECK OPTION, of views
    if (is_view && end > 3 && tokens_[end - 1].word == Word::option) {
      while (end > i + 1 && tokens_[end - 1].word != Word::with) --end;
      --end;
    }
    Findings of_view;
    Findings& found = is_table ? found_ : of_view;
    walker_.walk(text_, tokens_.first(end), i + 1, found);
    for (RelationName& name : of_view.reads) found_.add_read(std::move(name));
    break;
  }
  return Reading::runs;
}

void StatementReader::ddl() {
  be(Kind::write, Cause::write);
  statement_.is_ddl = true;
  judged_.writes.all = true;
  if (tokens_[0].word == Word::alter && word() == Word::system) {
    be(Kind::utility, Cause::write);
    statement_.is_ddl = false;
    return;
  }
  // These commit inside, or can't run in a transaction at all, and may leave something when they
  // fail.
  statement_.may_commit = has_word(1, Word::concurrently) || word() == Word::database ||
                          word() == Word::tablespace || word() == Word::subscription;
  ddl_relations();
}

/// The relations that DDL names, as far as that is easy: they are only shown.
void StatementReader::ddl_relations() {
  const std::size_t begin_at = at_;
  const Word verb = tokens_[0].word;
  const bool on = verb == Word::comment || verb == Word::security || verb == Word::grant ||
                  verb == Word::revoke;
  for (; !at_end(); ++at_) {
    const Word here = word();
    const bool relation = here == Word::table || here == Word::view || here == Word::sequence;
    if (relation) {
      ++at_;
      break;
    }
    if (on && verb != Word::comment && verb != Word::security && here == Word::on) {
      ++at_;
      if (word() == Word::table || word() == Word::sequence) ++at_;
      break;
    }
    // An event trigger is on an event.
    if (type_is(TokenType::name) && equals_ignoring_case(text_of(text_, tokens_[at_]), "event")) {
      at_ = tokens_.size() - 1;
      continue;
    }
    const bool on_table = (verb == Word::create || verb == Word::drop) &&
                          (here == Word::index || here == Word::trigger || here == Word::policy ||
                           here == Word::rule || here == Word::statistics);
    if (on_table) {
      const bool statistics = here == Word::statistics;
      const bool rule = here == Word::rule;
      const Word mark = statistics                     ? Word::from
                        : rule && verb == Word::create ? Word::to
                                                       : Word::on;
      while (!at_end() && word() != mark) ++at_;
      if (!at_end()) ++at_;
      break;
    }
    const bool other_object =
        type_is(TokenType::left_paren) || here == Word::schema || here == Word::database;
    if (other_object) at_ = tokens_.size() - 1;
  }
  accept(Word::concurrently);
  if (accept(Word::if_)) {
    accept(Word::not_);
    accept(Word::exists);
  }
  RelationName table;
  bool more = !at_end() && found_.writes.empty();
  while (more) {
    accept(Word::only);
    const std::size_t end = QueryWalker::read_name(text_, tokens_, at_, table);
    if (end == at_) break;
    at_ = end;
    found_.add_write(std::move(table), use::kWrites);
    more = verb == Word::drop && type_is(TokenType::comma);
    if (more) ++at_;
  }
  at_ = begin_at;
}

}  // namespace pgweir::sql
