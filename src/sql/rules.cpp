#include "sql/rules.h"

#include <algorithm>

#include "base/text.h"
#include "sql/builtins.h"
#include "sql/statement_reader.h"

namespace pgweir::sql {
namespace {

/// Key of everything that only DDL changes: catalogs, and functions that read them.
constexpr Bytes kCatalogTable = "pg_catalog";

void add_key(TableSet& set, Bytes name) {
  const TableKey key = table_key(name);
  if (std::find(set.keys.begin(), set.keys.end(), key) == set.keys.end()) set.keys.push_back(key);
}

int weight(SessionStep step) noexcept {
  if (step == SessionStep::none) return 0;
  if (step == SessionStep::advisory_unlock) return 1;
  if (step == SessionStep::sequence_memory) return 2;
  if (step == SessionStep::seed) return 3;
  if (step == SessionStep::advisory_lock) return 4;
  if (step == SessionStep::set_config) return 5;
  return 6;
}
void add_step(Statement& statement, SessionStep step) noexcept {
  if (weight(step) > weight(statement.session)) statement.session = step;
}

/// What a call of a built-in function leaves in the session.
SessionStep step_of(Bytes name, FunctionClass kind) noexcept {
  if (name == "set_config") return SessionStep::set_config;
  if (name == "setseed") return SessionStep::seed;
  if (name == "nextval" || name == "setval" || name == "currval" || name == "lastval") {
    return SessionStep::sequence_memory;
  }
  if (kind == FunctionClass::session_lock) {
    return name.find("unlock") == Bytes::npos ? SessionStep::advisory_lock
                                              : SessionStep::advisory_unlock;
  }
  return SessionStep::none;
}

/// Why a built-in function is the primary's, for people.
std::string_view words_of(FunctionClass kind) noexcept {
  switch (kind) {
    case FunctionClass::backup:
    case FunctionClass::server_action:
    case FunctionClass::server_file_write:
    case FunctionClass::index_maintenance:
      return "acts on the server that is asked";
    case FunctionClass::catalog_write:
    case FunctionClass::large_object_write:
    case FunctionClass::replication:
    case FunctionClass::notify:
      return "writes";
    case FunctionClass::sequence:
      return "uses a sequence";
    case FunctionClass::dynamic_sql:
      return "runs what a text says";
    case FunctionClass::cursor:
    case FunctionClass::large_object_descriptor:
    case FunctionClass::session_lock:
    case FunctionClass::session_read:
    case FunctionClass::session_state:
    case FunctionClass::snapshot:
    case FunctionClass::xact_lock:
      return "belongs to the session's server";
    case FunctionClass::server_specific:
      return "describes the server that is asked";
    case FunctionClass::xid_assign:
      return "needs a transaction number, which no standby gives";
    case FunctionClass::internal:
    case FunctionClass::wal:
    case FunctionClass::safe:
    case FunctionClass::safe_approximate:
    case FunctionClass::safe_nondeterministic:
      return "is the primary's";
  }
  return {};
}

std::string text_of(const RelationName& name) {
  return name.schema.empty() ? name.name : concat({name.schema, ".", name.name});
}
std::string text_of(const FunctionName& name) {
  return name.schema.empty() ? name.name : concat({name.schema, ".", name.name});
}

/// What the text of a statement says about it without its names, for people.
std::string words_of(Bytes text, Tokens tokens, const Statement& statement, const Findings& found) {
  std::string word = to_lower(text_of(text, tokens.front()).substr(0, 32));
  for (char& c : word) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  switch (statement.cause) {
    case Cause::write:
      if (!found.writes.empty()) return concat({"writes ", text_of(found.writes.front())});
      if (found.select_into) return "SELECT INTO makes a table";
      if (found.locks_rows) return "locks rows: FOR UPDATE, FOR SHARE and their like";
      return word;
    case Cause::server_view:
      return concat({word, " describes the server that is asked"});
    case Cause::transaction_control:
    case Cause::session_state:
      return word;
    case Cause::unparsed:
      return "not understood";
    case Cause::none:
    case Cause::primary_function:
    case Cause::unlogged:
      break;
  }
  return {};
}

}  // namespace

/// As Judged::add_cause(), with what is said of it should it decide.
template <class Words>
void Rules::object(Judged& judged, Cause cause, Words&& words) const {
  if (trace != nullptr && weight(cause) > weight(judged.statement.cause)) judged.because = words();
  judged.add_cause(cause);
}

void Judged::add_cause(Cause cause) noexcept {
  if (weight(cause) > weight(statement.cause)) statement.cause = cause;
}

void Rules::judge(Bytes text, Tokens tokens, Findings& found, Judged& judged) {
  found.clear();
  judged = {};
  StatementReader reader(text, tokens, walker_, found, judged);
  const Reading reading = reader.read();
  Statement& statement = judged.statement;
  if (found.broken) {
    // What is not understood may do anything, also leave something in the session.
    if (statement.kind == Kind::read || statement.kind == Kind::unknown)
      statement.kind = Kind::unknown;
    judged.add_cause(Cause::unparsed);
    add_step(statement, SessionStep::opaque);
    statement.may_commit = true;
    judged.reads.all = judged.writes.all = true;
  }
  if (trace != nullptr && statement.cause != Cause::none) judged.because = words_of(text, tokens, statement, found);
  resolve(found, judged, reading == Reading::runs ? Runs::yes : Runs::no);
  if (statement.kind == Kind::read && weight(statement.cause) >= weight(Cause::write))
    statement.kind = Kind::write;
  // The first statement that is not for a replica decides.
  if (trace != nullptr && trace->because.empty()) trace->because = std::move(judged.because);
}

void Rules::resolve(Findings& found, Judged& judged, Runs runs) const {
  Statement& statement = judged.statement;
  judged.certain = !found.broken;
  if (found.pg_temp) {
    statement.pg_temp = true;
    object(judged, Cause::unlogged, [] { return std::string("pg_temp is the session's"); });
  }
  if (found.reads_all) judged.reads.all = true;
  const Uses reading = found.copies_relation ? use::kRead | use::kCopyOut : use::kRead;
  for (const RelationName& name : found.reads) resolve_read(name, reading, judged, runs);
  if (runs == Runs::yes) {
    for (std::size_t i = 0; i < found.writes.size(); ++i)
      resolve_write(found.writes[i], found.write_uses[i], judged);
  } else {
    found.writes.clear();
    found.write_uses.clear();
  }
  std::erase_if(found.calls, [&](const Call& call) { return !resolve_call(call, judged, runs); });
  if (catalog != nullptr) resolve_unnamed(found, judged, runs);
  if (found.has_cast) add_key(judged.reads, kCatalogTable);  // 'users'::regclass

  const bool may_hide =
      (found.odd_operator || found.odd_type) && (catalog == nullptr || catalog->hides_writes());
  if (may_hide) {
    judged.may_hide_write = true;
    judged.certain = false;
    if (catalog != nullptr) {
      object(judged, Cause::primary_function,
             [] { return std::string("an operator or type that is not built in, where casts that nobody names may write"); });
      if (runs == Runs::yes) judged.writes.all = true;
    }
  }
}

Effects Rules::effects() const {
  Effects effects;
  effects.rules = &functions;
  effects.trace = trace;
  if (trace != nullptr) trace->chain.clear();
  return effects;
}

void Judged::add(const Effects& effects, Runs runs) {
  reads.join(effects.reads);
  if (runs == Runs::yes) writes.join(effects.writes);
  if (effects.trace != nullptr && weight(effects.cause) > weight(statement.cause)) because = effects.trace->chain;
  add_cause(effects.cause);
  certain = certain && effects.certain;
  uses_code = uses_code || effects.uses_code;
}

void Rules::resolve_read(const RelationName& name, Uses uses, Judged& judged, Runs runs) const {
  switch (catalog_relation(name.schema, name.name)) {
    case CatalogRelation::replicated:
      return add_key(judged.reads, kCatalogTable);
    case CatalogRelation::server_view:
      return object(judged, Cause::server_view, [&] { return concat({"view ", text_of(name), ", describes the server that is asked"}); });
    case CatalogRelation::none:
      break;
  }
  add_key(judged.reads, name.name);
  const bool copies = (uses & use::kCopyOut) != 0;
  if (name.schema.starts_with("pg_temp")) return;
  if (catalog == nullptr) {
    // An ordinary table in all likelihood; but a view would read others.
    judged.reads.all = true;
    judged.certain = false;
    judged.may_hide_write = true;
    // COPY takes tables only. Whether it is one the text does not say, and the refusal is the
    // primary's to give.
    if (copies) object(judged, Cause::unparsed, [&] { return concat({text_of(name), " may be a view, which COPY refuses"}); });
    return;
  }
  Effects found = effects();
  if (catalog->relation(name.schema, name.name, uses, found)) return judged.add(found, runs);
  // New, or temporary: the primary knows.
  object(judged, Cause::unparsed, [&] { return concat({text_of(name), " is not in the catalog"}); });
  judged.reads.all = true;
  judged.certain = false;
  judged.unknown_name = true;
}

void Rules::resolve_write(const RelationName& name, Uses uses, Judged& judged) const {
  if (catalog_relation(name.schema, name.name) != CatalogRelation::none) {
    judged.writes.all = true;
    judged.statement.is_ddl = true;
    if (name.name == "pg_settings") add_step(judged.statement, SessionStep::set_config);
    return;
  }
  add_key(judged.writes, name.name);
  if (name.schema.starts_with("pg_temp")) return;
  Effects found = effects();
  const bool known = catalog != nullptr && catalog->relation(name.schema, name.name, uses, found);
  if (known) return judged.add(found, Runs::yes);
  judged.writes.all = true;
  judged.unknown_name = catalog != nullptr && !judged.statement.is_ddl;
}

/// False when the call is none after all.
bool Rules::resolve_call(const Call& call, Judged& judged, Runs runs) const {
  const FunctionName& function = call.name;
  const bool may_be_builtin = function.schema.empty() || function.schema == "pg_catalog";
  const bool builtin = may_be_builtin && find_builtin(function.name, function.arguments).known;
  Effects found = effects();
  const bool user = catalog != nullptr && function.schema != "pg_catalog" &&
                    catalog->function(function.schema, function.name, function.arguments, found);
  if (call.doubtful && !builtin && !user) return false;
  if (builtin) resolve_builtin(function, judged, runs);
  if (user) judged.add(found, runs);
  if (builtin || user) return true;

  judged.reads.all = judged.uses_code = true;
  judged.unknown_name = catalog != nullptr;
  const bool allowed = listed(functions.replica, function.schema, function.name) &&
                       !listed(functions.primary, function.schema, function.name);
  if (allowed) return true;
  object(judged, Cause::primary_function,
         [&] { return concat({"function ", text_of(function), catalog == nullptr ? " is not built in" : " is not in the catalog"}); });
  judged.certain = false;
  judged.may_hide_write = true;
  if (runs == Runs::yes) judged.writes.all = true;
  return true;
}

void Rules::resolve_builtin(const FunctionName& function, Judged& judged, Runs runs) const {
  const Builtin builtin = find_builtin(function.name, function.arguments);
  if (runs == Runs::yes) add_step(judged.statement, step_of(function.name, builtin.kind));
  const bool allowed = listed(functions.replica, function.schema, function.name);
  if (listed(functions.primary, function.schema, function.name))
    object(judged, Cause::primary_function, [&] { return concat({"function ", text_of(function), ", in primary_functions"}); });
  if (!builtin.replica && !allowed) {
    object(judged, Cause::primary_function, [&] { return concat({"function ", text_of(function), ", ", words_of(builtin.kind)}); });
    if (writes_unseen(builtin.kind)) {
      judged.reads.all = true;
      if (runs == Runs::yes) judged.writes.all = true;
    }
  }
  if (!builtin.immutable) add_key(judged.reads, kCatalogTable);
}

/// Calls that no parenthesis shows: `SELECT u.touch FROM users u` calls touch(users) when there is
/// such a function; operators, and casts.
void Rules::resolve_unnamed(const Findings& found, Judged& judged, Runs runs) const {
  Effects all = effects();
  for (const std::string& name : found.dotted) catalog->column(name, all);
  for (const std::string& symbol : found.operators) catalog->operation(symbol, all);
  for (const RelationName& type : found.types) catalog->type(type.schema, type.name, all);
  judged.add(all, runs);
}

std::size_t statement_end(Tokens tokens, std::size_t from, bool& balanced) {
  std::size_t depth = 0;
  std::size_t blocks = 0;  // open BEGIN ATOMIC and CASE
  const auto word = [&tokens](std::size_t at) {
    return at < tokens.size() ? tokens[at].word : Word::none;
  };
  bool routine = false;
  if (word(from) == Word::create) {
    const std::size_t kind = word(from + 1) == Word::or_ ? from + 3 : from + 1;
    routine = word(kind) == Word::function || word(kind) == Word::procedure;
  }
  for (std::size_t at = from; at < tokens.size(); ++at) {
    const TokenType type = tokens[at].type;
    if (type == TokenType::left_paren) ++depth;
    if (type == TokenType::right_paren) {
      if (depth == 0) {
        balanced = false;
        return tokens.size();
      }
      --depth;
    }
    if (routine && depth == 0) {
      if (word(at) == Word::begin && word(at + 1) == Word::atomic && blocks == 0)
        ++blocks;
      else if (blocks > 0 && word(at) == Word::case_)
        ++blocks;
      else if (blocks > 0 && word(at) == Word::end)
        --blocks;
    }
    if (type == TokenType::semicolon && depth == 0 && blocks == 0) return at;
  }
  if (depth != 0 || blocks != 0) balanced = false;
  return tokens.size();
}

}  // namespace pgweir::sql
