#include "routing/catalog_walk.h"

#include <algorithm>

#include "base/text.h"

namespace pgweir::routing {

namespace {

namespace flag = object_flag;
using sql::Cause;
using sql::Uses;

/// Past these a statement counts as one that touches everything.
constexpr std::size_t kStepsMax = 20'000;
constexpr std::size_t kKeysMax = 256;
constexpr std::size_t kAncestorsMax = 64;
constexpr std::size_t kTracedMax = 200;

std::string_view word_of(ObjectKind kind) noexcept {
  switch (kind) {
    case ObjectKind::table:
    case ObjectKind::partitioned_table:
      return "table";
    case ObjectKind::view:
      return "view";
    case ObjectKind::materialized_view:
      return "materialized view";
    case ObjectKind::foreign_table:
      return "foreign table";
    case ObjectKind::sequence:
      return "sequence";
    case ObjectKind::function:
      return "function";
    case ObjectKind::operation:
      return "operator";
    case ObjectKind::type:
      return "type";
  }
  return "";
}

void add_key(sql::TableSet& set, sql::TableKey key) {
  if (set.all) return;
  if (std::find(set.keys.begin(), set.keys.end(), key) != set.keys.end()) return;
  if (set.keys.size() >= kKeysMax) {
    set.all = true;
    set.keys.clear();
    return;
  }
  set.keys.push_back(key);
}

void add_all(sql::TableSet& set) {
  set.all = true;
  set.keys.clear();
}

bool is_relation(ObjectKind kind) noexcept {
  switch (kind) {
    case ObjectKind::table:
    case ObjectKind::partitioned_table:
    case ObjectKind::view:
    case ObjectKind::materialized_view:
    case ObjectKind::foreign_table:
    case ObjectKind::sequence:
      return true;
    case ObjectKind::function:
    case ObjectKind::operation:
    case ObjectKind::type:
      return false;
  }
  return false;
}

}  // namespace

void CatalogWalk::add(std::uint32_t object, Uses uses) {
  push({.object = object,
        .from = static_cast<std::uint32_t>(steps_.size()),
        .uses = uses,
        .by_deeds = false,
        .reads_only = false});
}

void CatalogWalk::push(const Step& step) {
  // A way of looking at it is part of what was seen: a function that counts by its deeds may count
  // by its declaration later.
  const Uses mode = step.uses & edge_use::kThrough;
  const std::uint64_t place = std::uint64_t{step.object} << 3 | (mode != 0 ? 4U : 0U) |
                              (step.by_deeds ? 2U : 0U) | (step.reads_only ? 1U : 0U);
  Uses& seen = seen_[place];
  const Uses fresh = static_cast<Uses>(step.uses & ~seen & ~edge_use::kThrough);
  if (fresh == 0) return;
  seen = static_cast<Uses>(seen | fresh);
  if (steps_.size() >= kStepsMax) {
    if (!step.reads_only) {
      effects_.add_cause(Cause::primary_function);
      add_all(effects_.writes);
    }
    add_all(effects_.reads);
    effects_.certain = false;
    return;
  }
  steps_.push_back(step);
  steps_.back().uses = static_cast<Uses>(fresh | mode);
}

void CatalogWalk::run() {
  for (; done_ < steps_.size(); ++done_) visit(static_cast<std::uint32_t>(done_));
}

void CatalogWalk::visit(std::uint32_t at) {
  const Step step = steps_[at];
  const CatalogObject& it = object(step.object);
  if (it.kind == ObjectKind::view || it.kind == ObjectKind::function) effects_.uses_code = true;
  if (is_relation(it.kind)) return visit_relation(at, step.uses);
  if (it.kind == ObjectKind::function) return visit_function(at);
  follow(at, step.uses);
}

void CatalogWalk::visit_relation(std::uint32_t at, Uses fresh) {
  const Step step = steps_[at];
  const CatalogObject& it = object(step.object);
  const auto has = [&it](std::uint32_t bit) { return (it.flags & bit) != 0; };
  const bool through = (fresh & edge_use::kThrough) != 0;
  if ((fresh & sql::use::kRead) != 0) {
    if (has(flag::kServerView)) {
      cause(at, Cause::server_view, "of the server that answers");
    } else if (has(flag::kReadsCatalog)) {
      add_key(effects_.reads, sql::table_key("pg_catalog"));
    } else {
      read_keys(step.object);
    }
    if (has(flag::kOffReplicas) || has(flag::kOffBelow)) {
      cause(at, Cause::unlogged,
            it.kind == ObjectKind::sequence        ? "a sequence"
            : it.kind == ObjectKind::foreign_table ? "foreign"
            : has(flag::kOffReplicas)              ? "unlogged"
                                                   : "partly unlogged or foreign");
    }
    if (has(flag::kLocksRows)) cause(at, Cause::write, "locks rows");
  }
  if ((fresh & sql::use::kCopyOut) != 0 && it.kind == ObjectKind::view)
    cause(at, Cause::unparsed, "no table");
  const Uses writes = static_cast<Uses>(fresh & sql::use::kWrites & ~it.instead);
  if (writes != 0 && !step.reads_only) {
    if (!through) write_keys(step.object);
    const bool unknown_effect =
        it.kind == ObjectKind::foreign_table || has(flag::kServerView) || has(flag::kReadsCatalog);
    if (unknown_effect) add_all(effects_.writes);
    // A statement that names what it writes is a write by its own text.
    if (steps_[at].from != at) cause(at, Cause::primary_function, "written");
    if ((writes & sql::use::kRefresh) != 0) {
      for (const std::uint32_t function : view_.on_ddl_)
        push({function, at, sql::use::kCall, false, false});
    }
  }
  follow(at, fresh);
}

void CatalogWalk::visit_function(std::uint32_t at) {
  Step& step = steps_[at];
  const CatalogObject& it = object(step.object);
  const auto has = [&it](std::uint32_t bit) { return (it.flags & bit) != 0; };
  if (effects_.rules != nullptr && !step.reads_only) {
    const Bytes schema = text(it.schema_at);
    const Bytes name = text(it.name_at);
    if (sql::listed(effects_.rules->primary, schema, name)) {
      cause(at, Cause::primary_function, "in primary_functions");
      if (has(flag::kUnreadable)) everything(at, "in primary_functions");
    } else if (sql::listed(effects_.rules->replica, schema, name)) {
      step.reads_only = true;
    }
  }
  if (has(flag::kReadsAll)) add_all(effects_.reads);
  if (has(flag::kReadsCatalog)) add_key(effects_.reads, sql::table_key("pg_catalog"));
  if (step.reads_only) {
    if (has(flag::kUnreadable) && !has(flag::kPure)) add_all(effects_.reads);
    if (has(flag::kDynamic)) add_all(effects_.reads);
    return follow(at, step.uses);
  }
  if (has(flag::kVolatile) && !step.by_deeds) cause(at, Cause::primary_function, "VOLATILE");
  if (has(flag::kUnreadable) && !has(flag::kPure)) {
    if (has(flag::kVolatile)) {
      everything(at, "VOLATILE and not to be read");
    } else {
      add_all(effects_.reads);
      effects_.certain = false;
    }
  }
  if (has(flag::kDynamic)) everything(at, "runs dynamic SQL");
  if (has(flag::kServerView)) cause(at, Cause::server_view, "of the server that answers");
  if (has(flag::kPrimaryOnly)) cause(at, Cause::primary_function, "does what only a primary can");
  if (has(flag::kWritesAll)) everything(at, "writes what can't be told");
  if (has(flag::kUncertain)) effects_.certain = false;
  if (!has(flag::kVolatile)) step.by_deeds = true;
  follow(at, step.uses);
}

void CatalogWalk::follow(std::uint32_t at, Uses uses) {
  const Step step = steps_[at];
  const CatalogObject& it = object(step.object);
  Uses wanted = uses;
  // Moving a row to another partition deletes it in one and inserts it in the other.
  if (it.kind == ObjectKind::partitioned_table && (uses & sql::use::kUpdate) != 0)
    wanted = static_cast<Uses>(wanted | sql::use::kInsert | sql::use::kDelete);
  const std::uint32_t end = object(step.object + 1).first_edge;
  for (std::uint32_t i = it.first_edge; i < end; ++i) {
    const CatalogEdge& edge = view_.edges_[i];
    const bool child = (edge.use & edge_use::kThrough) != 0;
    const Uses met = static_cast<Uses>(edge.when & (child ? wanted : uses));
    if (met == 0 || (edge.use & edge_use::kParent) != 0) continue;
    const Uses next = (edge.use & edge_use::kSame) == 0
                          ? edge.use
                          : static_cast<Uses>(met | (edge.use & edge_use::kThrough));
    push({edge.to, at, next, step.by_deeds, step.reads_only});
  }
}

/// Its own key, what was written below it, and what was written through those above it.
void CatalogWalk::read_keys(std::uint32_t index) {
  const CatalogObject& it = object(index);
  if (it.kind != ObjectKind::sequence) trace_relation(index, false);
  add_key(effects_.reads, it.key);
  if (it.kind == ObjectKind::view || it.kind == ObjectKind::sequence) return;
  const std::vector<std::uint32_t> above = view_.ancestors(index);
  for (const std::uint32_t ancestor : above) add_key(effects_.reads, object(ancestor).key);
  if ((it.flags & flag::kHasChildren) != 0) add_key(effects_.reads, sql::tree_key(it.key));
}

void CatalogWalk::write_keys(std::uint32_t index) {
  const CatalogObject& it = object(index);
  // What is written to a view is written to the tables below it.
  if (it.kind != ObjectKind::view) trace_relation(index, true);
  add_key(effects_.writes, it.key);
  for (const std::uint32_t ancestor : view_.ancestors(index))
    add_key(effects_.writes, sql::tree_key(object(ancestor).key));
}

void CatalogWalk::cause(std::uint32_t at, Cause why, std::string_view word) {
  if (steps_[at].reads_only) return;
  const bool first = sql::weight(why) > sql::weight(effects_.cause);
  effects_.add_cause(why);
  const bool asks = (steps_.front().uses & sql::use::kWrites) == 0;
  if (first && asks && effects_.trace != nullptr) effects_.trace->chain = chain(at, word);
}

void CatalogWalk::everything(std::uint32_t at, std::string_view word) {
  cause(at, Cause::primary_function, word);
  add_all(effects_.reads);
  add_all(effects_.writes);
  effects_.certain = false;
}

void CatalogWalk::trace_relation(std::uint32_t index, bool written) {
  if (effects_.trace == nullptr) return;
  std::vector<sql::RelationName>& names = written ? effects_.trace->writes : effects_.trace->reads;
  const auto add = [&](std::uint32_t relation) {
    sql::RelationName name{std::string(text(object(relation).schema_at)),
                           std::string(text(object(relation).name_at))};
    if (names.size() < kTracedMax && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  };
  add(index);
  for (const std::uint32_t child : view_.descendants(index)) add(child);
}

std::string CatalogWalk::chain(std::uint32_t at, std::string_view word) const {
  std::vector<std::string> parts;
  for (std::uint32_t i = at;; i = steps_[i].from) {
    const CatalogObject& it = object(steps_[i].object);
    parts.push_back(concat({word_of(it.kind), " ", text(it.name_at)}));
    if (steps_[i].from == i || parts.size() > kAncestorsMax) break;
  }
  std::string out;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    out += concat({out.empty() ? "" : " → ", *part});
  return concat({out, ", ", word});
}

}  // namespace pgweir::routing
