#include "sql/classifier.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sql/builtins.h"
#include "sql/class_cache.h"
#include "sql/outline.h"
#include "sql/rules.h"
#include "sql/scanner.h"
#include "sql/shape.h"
#include "sql/tokens.h"

namespace pgweir::sql {
namespace {

constexpr std::size_t kTextBytesMax = 1 << 20;
constexpr std::size_t kStatementsMax = 1000;     ///< In one message; more is unparsed.
constexpr std::size_t kKeptTokensMax = 1 << 16;  ///< Scratch beyond this is given back after use.
constexpr std::size_t kKeptShapeBytesMax = 1 << 16;  ///< The same: above it a text of 32 kB pays for memory.
/// A class that names more than this is not worth its place in the cache.
constexpr std::size_t kCachedNamesMax = 256;
constexpr std::size_t kCachedStatementsMax = 32;
constexpr Bytes kNotUnderstood = "not understood";

bool is_ascii(Bytes text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; });
}

/// What nobody understood may do anything.
std::shared_ptr<StatementClass> unparsed() {
  auto result = std::make_shared<StatementClass>();
  Statement statement;
  statement.session = SessionStep::opaque;
  statement.may_commit = true;
  result->statements.push_back(std::move(statement));
  result->has_session_step = result->may_commit = result->may_hide_write = result->uses_code = true;
  result->reads.all = result->writes.all = true;
  return result;
}

/// Catalogs are left out: everything reads them.
void join(std::vector<RelationName>& names, const std::vector<RelationName>& more) {
  for (const RelationName& name : more) {
    if (catalog_relation(name.schema, name.name) != CatalogRelation::none) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

void add(StatementClass& whole, Judged& judged, const Findings& found) {
  const Statement& statement = judged.statement;
  whole.reads.join(judged.reads);
  whole.writes.join(judged.writes);
  join(whole.tables_read, found.reads);
  join(whole.tables_written, found.writes);
  for (const Call& call : found.calls) {
    const bool seen =
        std::any_of(whole.functions.begin(), whole.functions.end(), [&call](const FunctionName& f) {
          return f.name == call.name.name && f.schema == call.name.schema &&
                 f.arguments == call.name.arguments;
        });
    if (!seen) whole.functions.push_back(call.name);
  }
  whole.certain = whole.certain && judged.certain;
  whole.may_hide_write = whole.may_hide_write || judged.may_hide_write;
  whole.uses_code = whole.uses_code || judged.uses_code;
  whole.depends_on_literal = whole.depends_on_literal || judged.depends_on_literal;
  whole.has_session_step = whole.has_session_step || statement.session != SessionStep::none;
  whole.has_transaction_step =
      whole.has_transaction_step || statement.transaction != TransactionStep::none;
  whole.may_commit = whole.may_commit || statement.may_commit;
  whole.is_ddl = whole.is_ddl || statement.is_ddl;
  whole.unknown_name = whole.unknown_name || judged.unknown_name;
  // The first statement that is not for a replica decides.
  const bool decides =
      whole.statements.empty() || (whole.cause == Cause::none && statement.cause != Cause::none);
  if (decides) {
    whole.kind = statement.kind;
    whole.cause = statement.cause;
  }
  whole.statements.push_back(std::move(judged.statement));
}

}  // namespace

struct Classifier::Impl {
  Impl(Random& secret, std::size_t cache_entries_max)
      : key{secret.next(), secret.next()}, cache(cache_entries_max), by_outline(cache_entries_max) {}

  /// Nullopt for what can't be read.
  /// The text as it can be read, good until the next call; nothing when it can't be.
  std::optional<Bytes> readable(Bytes text, Dialect dialect);
  std::optional<Shape> outline_if_any(Bytes text, Dialect dialect);
  std::optional<Shape> shape_of(Bytes text, Dialect dialect);
  void forget() noexcept {
    cache.clear();
    by_outline.clear();
  }
  std::shared_ptr<StatementClass> judge(Bytes text, Dialect dialect);

  ShapeKey key;
  ClassCache cache;  ///< by shape
  /// What `cache` has answered a second time: what comes once only does not fill it.
  ClassCache by_outline;
  std::shared_ptr<const Catalog> catalog;
  Rules rules;
  std::vector<char> outline_bytes;
  std::vector<char> shape_bytes;
  std::vector<char> converted;
  std::vector<Token> tokens;
  Findings found;
  Judged judged;
};

std::shared_ptr<StatementClass> Classifier::Impl::judge(Bytes text, Dialect dialect) {
  TokenSink sink(text, tokens);
  if (Scanner<TokenSink>(text, dialect, sink).run() == ScanEnd::broken) return unparsed();

  auto whole = std::make_shared<StatementClass>();
  whole->certain = true;
  whole->kind = Kind::empty;
  whole->cause = Cause::none;
  bool balanced = true;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t end = statement_end(tokens, at, balanced);
    if (!balanced || whole->statements.size() >= kStatementsMax) return unparsed();
    if (end > at) {
      rules.judge(text, Tokens(tokens).subspan(at, end - at), found, judged);
      add(*whole, judged, found);
    }
    at = end + 1;
  }
  if (dialect.encoding != Encoding::ascii_safe) {
    // Names and values that somebody will compare or send again must be what the client wrote.
    const bool kept = std::all_of(whole->statements.begin(), whole->statements.end(), [](const Statement& statement) {
      return is_ascii(statement.object) && is_ascii(statement.value);
    });
    if (!kept) {
      auto given_up = unparsed();
      given_up->depends_on_literal = true;
      return given_up;
    }
  }
  whole->target = whole->cause == Cause::none ? Target::replica : Target::primary;
  whole->hint = sink.seen_hint().target;
  whole->hint_named = sink.seen_hint().named;
  return whole;
}

Classifier::Classifier(Random& secret, std::size_t cache_entries_max)
    : impl_(std::make_unique<Impl>(secret, cache_entries_max)) {}
Classifier::~Classifier() = default;

void Classifier::use_catalog(std::shared_ptr<const Catalog> catalog) {
  impl_->catalog = std::move(catalog);
  impl_->rules.catalog = impl_->catalog.get();
  impl_->forget();
}

void Classifier::use_rules(FunctionRules rules) {
  impl_->rules.functions = std::move(rules);
  impl_->forget();
}

std::size_t Classifier::cached() const noexcept { return impl_->cache.size(); }

std::optional<Bytes> Classifier::Impl::readable(Bytes text, Dialect dialect) {
  if (text.size() > kTextBytesMax) return std::nullopt;
  if (dialect.encoding == Encoding::ascii_safe || is_ascii(text)) return text;
  if (converted.capacity() > kKeptShapeBytesMax) converted = {};
  if (!without_hidden_ascii(dialect.encoding, text, converted)) return std::nullopt;
  return Bytes(converted.data(), converted.size());
}

std::optional<Shape> Classifier::Impl::outline_if_any(Bytes text, Dialect dialect) {
  if (!dialect.standard_conforming_strings) return std::nullopt;
  if (dialect.encoding != Encoding::ascii_safe && !is_ascii(text)) return std::nullopt;
  const std::optional<Shape> outline = outline_of(text, key, outline_bytes);
  if (outline_bytes.size() > kKeptShapeBytesMax) outline_bytes = {};
  return outline;
}

// All in one function, so that the scanner's place in the text and the sink's in its bytes stay in registers: as members
// behind pointers they would be read again after each byte that is written.
[[gnu::flatten]] std::optional<Shape> Classifier::Impl::shape_of(Bytes text, Dialect dialect) {
  ShapeSink sink(key, dialect, text, shape_bytes);
  const bool broken = Scanner<ShapeSink>(text, dialect, sink).run() == ScanEnd::broken;
  const Shape shape = broken ? Shape() : sink.finish();
  if (shape_bytes.size() > kKeptShapeBytesMax) shape_bytes = {};
  return broken ? std::nullopt : std::optional(shape);
}

std::shared_ptr<const StatementClass> Classifier::explain(Bytes text, Dialect dialect,
                                                          Trace& trace) {
  Impl& impl = *impl_;
  const std::optional<Bytes> read = impl.readable(text, dialect);
  if (read) text = *read;
  const std::optional<Shape> shape = read ? impl.shape_of(text, dialect) : std::nullopt;
  if (!shape) {
    trace.because = kNotUnderstood;
    return unparsed();
  }
  impl.rules.trace = &trace;
  std::shared_ptr<StatementClass> judged = impl.judge(text, dialect);
  impl.rules.trace = nullptr;
  if (trace.because.empty() && judged->cause == Cause::unparsed) trace.because = kNotUnderstood;
  judged->shape = *shape;
  return judged;
}

std::shared_ptr<const StatementClass> Classifier::classify(Bytes text, Dialect dialect) {
  Impl& impl = *impl_;
  if (text.size() > kTextBytesMax) return unparsed();
  const std::optional<Shape> outline = impl.outline_if_any(text, dialect);
  if (outline) {
    if (const auto* known = impl.by_outline.find(*outline)) return *known;
  }
  const std::optional<Bytes> read = impl.readable(text, dialect);
  if (!read) return unparsed();
  text = *read;
  const std::optional<Shape> shape = impl.shape_of(text, dialect);
  if (!shape) return unparsed();
  if (const auto* known = impl.cache.find(*shape)) {
    if (outline) impl.by_outline.insert(*outline, *known);
    return *known;
  }

  std::shared_ptr<StatementClass> judged = impl.judge(text, dialect);
  judged->shape = *shape;
  if (impl.tokens.capacity() > kKeptTokensMax) impl.tokens = {};
  const std::size_t names = judged->tables_read.size() + judged->tables_written.size() +
                            judged->functions.size() + judged->reads.keys.size() +
                            judged->writes.keys.size();
  const bool worth_keeping = !judged->depends_on_literal && names <= kCachedNamesMax &&
                             judged->statements.size() <= kCachedStatementsMax;
  if (worth_keeping) impl.cache.insert(*shape, judged);
  return judged;
}

}  // namespace pgweir::sql
