#include "sql/rules.h"

#include <algorithm>

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

int weight(Cause cause) noexcept {
  switch (cause) {
    case Cause::none:
      return 0;
    case Cause::unparsed:
      return 1;
    case Cause::server_view:
      return 2;
    case Cause::unlogged:
      return 3;
    case Cause::primary_function:
      return 4;
    case Cause::write:
      return 5;
    case Cause::session_state:
      return 6;
    case Cause::transaction_control:
      return 7;
  }
  return 0;
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

/// Whether a built-in function of this class may change rows that others read, in tables nobody can
/// name.
bool writes_unseen(FunctionClass kind) noexcept {
  switch (kind) {
    case FunctionClass::catalog_write:
    case FunctionClass::cursor:
    case FunctionClass::dynamic_sql:
    case FunctionClass::internal:
    case FunctionClass::large_object_descriptor:
    case FunctionClass::large_object_write:
      return true;
    case FunctionClass::backup:
    case FunctionClass::index_maintenance:
    case FunctionClass::notify:
    case FunctionClass::replication:
    case FunctionClass::safe:
    case FunctionClass::safe_approximate:
    case FunctionClass::safe_nondeterministic:
    case FunctionClass::sequence:
    case FunctionClass::server_action:
    case FunctionClass::server_file_write:
    case FunctionClass::server_specific:
    case FunctionClass::session_lock:
    case FunctionClass::session_read:
    case FunctionClass::session_state:
    case FunctionClass::snapshot:
    case FunctionClass::wal:
    case FunctionClass::xact_lock:
    case FunctionClass::xid_assign:
      return false;
  }
  return true;
}

bool matches(Bytes pattern, Bytes text) noexcept {
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == text;
}
/// A rule may be written with or without a schema.
bool listed(const std::vector<std::string>& rules, const FunctionName& function) {
  return std::any_of(rules.begin(), rules.end(), [&function](const std::string& rule) {
    if (matches(rule, function.name)) return true;
    const std::size_t dot = rule.find('.');
    if (dot == std::string::npos || function.schema.empty()) return false;
    return Bytes(rule).substr(0, dot) == function.schema &&
           matches(Bytes(rule).substr(dot + 1), function.name);
  });
}

}  // namespace

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
  resolve(found, judged, reading == Reading::runs ? Runs::yes : Runs::no);
  if (statement.kind == Kind::read && weight(statement.cause) >= weight(Cause::write))
    statement.kind = Kind::write;
}

void Rules::resolve(Findings& found, Judged& judged, Runs runs) const {
  Statement& statement = judged.statement;
  judged.certain = !found.broken;
  if (found.pg_temp) {
    statement.pg_temp = true;
    judged.add_cause(Cause::unlogged);
  }
  if (found.reads_all) judged.reads.all = true;
  for (const RelationName& name : found.reads) {
    resolve_read(name, judged);
    // COPY takes tables only. Whether it is one the text does not say, and the refusal is the
    // primary's to give.
    const bool is_table =
        !found.copies_relation ||
        (catalog != nullptr && !catalog->relation(name.schema, name.name).is_view);
    if (!is_table) judged.add_cause(Cause::unparsed);
  }
  if (runs == Runs::yes) {
    for (const RelationName& name : found.writes) resolve_write(name, judged);
  } else {
    found.writes.clear();
  }
  std::erase_if(found.calls, [&](const Call& call) { return !resolve_call(call, judged, runs); });
  if (catalog != nullptr) resolve_dotted(found, judged, runs);
  if (found.has_cast) add_key(judged.reads, kCatalogTable);  // 'users'::regclass

  const bool may_hide =
      (found.odd_operator || found.odd_type) && (catalog == nullptr || catalog->hides_writes());
  if (may_hide) {
    judged.may_hide_write = true;
    judged.certain = false;
    if (catalog != nullptr) {
      judged.add_cause(Cause::primary_function);
      if (runs == Runs::yes) judged.writes.all = true;
    }
  }
}

void Rules::resolve_read(const RelationName& name, Judged& judged) const {
  switch (catalog_relation(name.schema, name.name)) {
    case CatalogRelation::replicated:
      return add_key(judged.reads, kCatalogTable);
    case CatalogRelation::server_view:
      return judged.add_cause(Cause::server_view);
    case CatalogRelation::none:
      break;
  }
  add_key(judged.reads, name.name);
  if (name.schema.starts_with("pg_temp")) return;
  if (catalog == nullptr) {
    // An ordinary table in all likelihood; but a view would read others.
    judged.reads.all = true;
    judged.certain = false;
    judged.may_hide_write = true;
    return;
  }
  const RelationFacts facts = catalog->relation(name.schema, name.name);
  if (!facts.known) {
    judged.add_cause(Cause::unparsed);  // New, or temporary: the primary knows.
    judged.reads.all = true;
    judged.certain = false;
    return;
  }
  if (facts.is_sequence || !facts.on_replicas) judged.add_cause(Cause::unlogged);
  if (facts.is_view || facts.reads_more) judged.reads.all = true;
  if (facts.hides_volatile) {
    judged.add_cause(Cause::primary_function);
    judged.certain = false;
    judged.may_hide_write = true;
    judged.writes.all = true;
  }
}

void Rules::resolve_write(const RelationName& name, Judged& judged) const {
  if (catalog_relation(name.schema, name.name) != CatalogRelation::none) {
    judged.writes.all = true;
    judged.statement.is_ddl = true;
    if (name.name == "pg_settings") add_step(judged.statement, SessionStep::set_config);
    return;
  }
  add_key(judged.writes, name.name);
  if (judged.writes.all || name.schema.starts_with("pg_temp")) return;
  const RelationFacts facts =
      catalog == nullptr ? RelationFacts{} : catalog->relation(name.schema, name.name);
  if (!facts.known || facts.is_view || facts.writes_more || facts.hides_volatile)
    judged.writes.all = true;
}

/// False when the call is none after all.
bool Rules::resolve_call(const Call& call, Judged& judged, Runs runs) const {
  const FunctionName& function = call.name;
  const bool may_be_builtin = function.schema.empty() || function.schema == "pg_catalog";
  const Builtin builtin =
      may_be_builtin ? find_builtin(function.name, function.arguments) : Builtin{};
  const Volatility user =
      catalog == nullptr || function.schema == "pg_catalog"
          ? Volatility::unknown
          : catalog->function(function.schema, function.name, function.arguments);
  if (call.doubtful && !builtin.known && user == Volatility::unknown) return false;

  const bool allowed = listed(functions.replica, function);
  bool primary = listed(functions.primary, function);
  bool writes = primary && !builtin.known;
  if (builtin.known) {
    if (runs == Runs::yes) add_step(judged.statement, step_of(function.name, builtin.kind));
    if (!builtin.replica && !allowed) {
      primary = true;
      writes = writes || writes_unseen(builtin.kind);
      if (writes_unseen(builtin.kind)) judged.reads.all = true;
    }
    if (!builtin.immutable) add_key(judged.reads, kCatalogTable);
  }
  if (!builtin.known || user != Volatility::unknown) {
    switch (user) {
      case Volatility::unknown:
      case Volatility::volatile_:
        judged.reads.all = true;
        if (allowed) break;
        primary = writes = true;
        judged.certain = false;
        judged.may_hide_write = true;
        break;
      case Volatility::stable:
      case Volatility::immutable:
        // Not certain: such a function may call a volatile one. But marking all tables for each
        // call would keep every read that uses one away from the replicas.
        judged.reads.all = true;
        if (!allowed) judged.certain = false;
        break;
      case Volatility::immutable_builtin:
        break;
    }
  }
  if (primary) judged.add_cause(Cause::primary_function);
  if (writes && runs == Runs::yes) judged.writes.all = true;
  return true;
}

/// `SELECT u.touch FROM users u` calls touch(users) when there is such a function.
void Rules::resolve_dotted(const Findings& found, Judged& judged, Runs runs) const {
  for (const std::string& name : found.dotted) {
    switch (catalog->function({}, name, 1)) {
      case Volatility::unknown:
      case Volatility::immutable_builtin:
        break;
      case Volatility::immutable:
      case Volatility::stable:
        judged.reads.all = true;
        break;
      case Volatility::volatile_:
        if (listed(functions.replica, {{}, name, 1})) break;
        judged.add_cause(Cause::primary_function);
        judged.certain = false;
        judged.may_hide_write = true;
        judged.reads.all = true;
        if (runs == Runs::yes) judged.writes.all = true;
        break;
    }
  }
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
