#include "routing/catalog_builder.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "routing/catalog_queries.h"
#include "routing/catalog_walk.h"
#include "sql/builtins.h"
#include "sql/shape.h"

namespace pgweir::routing {

namespace {

namespace flag = object_flag;
using sql::Uses;

/// How much one step() does: a few milliseconds' worth.
constexpr std::size_t kEdgesPerStep = 20'000;
constexpr std::size_t kNamesPerStep = 10'000;
constexpr std::size_t kFieldsPerRow = 7;

/// Extensions in C whose volatile functions only make random values, or compute.
constexpr Bytes kHarmlessLibraries[] = {"$libdir/uuid-ossp", "$libdir/pgcrypto"};

template <class Number>
std::optional<Number> parse(Bytes text) noexcept {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Bytes text_of(const std::optional<std::string>& field) noexcept {
  return field ? Bytes(*field) : Bytes();
}

/// Objects of different classes may have the same oid.
std::uint64_t of_class(char letter, std::uint64_t oid) noexcept {
  return static_cast<std::uint64_t>(static_cast<unsigned char>(letter)) << 32 | oid;
}

std::optional<ObjectKind> relation_kind(char letter) noexcept {
  switch (letter) {
    case 'r':
      return ObjectKind::table;
    case 'p':
      return ObjectKind::partitioned_table;
    case 'v':
      return ObjectKind::view;
    case 'm':
      return ObjectKind::materialized_view;
    case 'f':
      return ObjectKind::foreign_table;
    case 'S':
      return ObjectKind::sequence;
    default:
      return std::nullopt;
  }
}

/// What a call of a built-in function from a view, a policy or a body means. Settings of the
/// session travel with the client, so current_setting(), on which many policies rest, is no reason.
std::uint32_t builtin_flags(Bytes name, int arguments) noexcept {
  const sql::Builtin builtin = sql::find_builtin(name, arguments);
  std::uint32_t flags = builtin.immutable ? 0 : flag::kReadsCatalog;
  if (!builtin.known) return flags | flag::kPrimaryOnly | flag::kReadsAll | flag::kWritesAll;
  if (builtin.replica || name == "current_setting") return flags;
  flags |=
      builtin.kind == sql::FunctionClass::server_specific ? flag::kServerView : flag::kPrimaryOnly;
  if (sql::writes_unseen(builtin.kind)) flags |= flag::kReadsAll | flag::kWritesAll;
  return flags;
}

Error bad_row(const CatalogRow& row, std::string_view expected) {
  std::string fields;
  for (const auto& field : row)
    fields += concat({fields.empty() ? "" : ", ", text_of(field).substr(0, 100)});
  return Error(concat({"catalog: a row (", fields, "): expected ", expected}));
}

}  // namespace

CatalogBuilder::CatalogBuilder() : view_(std::make_shared<CatalogView>()) {
  view_->names_.push_back('\0');  // The empty name.
}

/// A sum of hashes, because the server gives the rows in no particular order.
void CatalogBuilder::note(const CatalogRow& row) noexcept {
  // Whoever could find two catalogs of one sum may change what functions do anyway: no secret is needed.
  sql::SipHash hash({});
  std::uint64_t bytes = 0;
  for (const auto& field : row) {
    const Bytes text = text_of(field);
    hash.word(field ? text.size() : ~std::uint64_t{0});
    for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
      hash.word(word);
    }
    bytes += text.size();
  }
  const sql::Shape sum = hash.finish(bytes);
  digest_.low += sum.low;
  digest_.high += sum.high + (digest_.low < sum.low ? 1 : 0);
  ++digest_.rows;
}

Status CatalogBuilder::add(const CatalogRow& row) {
  note(row);
  if (row.size() != kFieldsPerRow || text_of(row[0]).size() != 1)
    return bad_row(row, "a letter and six fields");
  const std::optional<std::uint64_t> oid = parse<std::uint32_t>(text_of(row[1]));
  if (!oid) return bad_row(row, "an oid in the second field");
  const Bytes schema = text_of(row[2]);
  const Bytes name = text_of(row[3]);
  switch (row[0]->front()) {
    case 'r':
      return add_relation(*oid, schema, name, text_of(row[4]));
    case 'f':
      return add_function(*oid, row);
    case 'b': {
      const std::uint32_t object = add_object(ObjectKind::function, 'f', *oid, {}, name);
      view_->objects_[object].flags = builtin_flags(name, parse<int>(text_of(row[5])).value_or(-1));
      return {};
    }
    case 'o':
      view_->operators_.add(name_key({}, name),
                            add_object(ObjectKind::operation, 'o', *oid, {}, name));
      return {};
    case 't': {
      const std::uint32_t object = add_object(ObjectKind::type, 't', *oid, schema, name);
      view_->types_.add(name_key({}, name), object);
      view_->types_.add(name_key(schema, name), object);
      return {};
    }
    case 'd':
      return add_edge(*oid, row);
    case 'i': {
      const std::optional<std::uint64_t> parent = parse<std::uint32_t>(name);
      if (!parent) return bad_row(row, "the oid of a parent");
      inherits_.emplace_back(of_class('r', *oid), of_class('r', *parent));
      return {};
    }
    case 'l':
      locking_views_.push_back(of_class('r', *oid));
      return {};
    case 'n': {
      const std::optional<Uses> uses = parse<Uses>(text_of(row[4]));
      if (!uses) return bad_row(row, "uses");
      instead_.emplace_back(of_class('r', *oid), *uses);
      return {};
    }
    case 'x':
      event_functions_.push_back(of_class('f', *oid));
      return {};
    case 'c':
      hidden_casts_.push_back(of_class('f', *oid));
      return {};
    case 's':
      if (text_of(row[4]) == "repeatable read") {
        (row[3] ? view_->repeatable_roles_.push_back(*row[3])
                : static_cast<void>(view_->all_repeatable_ = true));
      } else if (row[3]) {
        view_->serializable_roles_.push_back(*row[3]);
      } else {
        view_->all_serializable_ = true;
      }
      return {};
    default:
      return bad_row(row, "r, f, b, o, t, d, i, l, n, x, c or s first");
  }
}

std::uint32_t CatalogBuilder::keep_name(Bytes name) {
  const auto at = static_cast<std::uint32_t>(view_->names_.size());
  view_->names_ += name;
  view_->names_ += '\0';
  return at;
}

std::uint32_t CatalogBuilder::keep_schema(Bytes schema) {
  if (schema.empty()) return 0;
  const auto [entry, fresh] = schemas_.try_emplace(std::string(schema), 0U);
  if (fresh) entry->second = keep_name(schema);
  return entry->second;
}

std::uint32_t CatalogBuilder::add_object(ObjectKind kind, char letter, std::uint64_t oid,
                                         Bytes schema, Bytes name) {
  const auto index = static_cast<std::uint32_t>(view_->objects_.size());
  CatalogObject object;
  object.kind = kind;
  object.name_at = keep_name(name);
  object.schema_at = keep_schema(schema);
  view_->objects_.push_back(object);
  objects_by_oid_[of_class(letter, oid)] = index;
  return index;
}

Status CatalogBuilder::add_relation(std::uint64_t oid, Bytes schema, Bytes name, Bytes kind) {
  const std::optional<ObjectKind> known = kind.size() == 2 ? relation_kind(kind[0]) : std::nullopt;
  if (!known) {
    return Error(concat({"catalog: relation ", schema, ".", name, " of kind \"", kind,
                         "\": expected r, p, v, m, f or S and a persistence"}));
  }
  const std::uint32_t index = add_object(*known, 'r', oid, schema, name);
  CatalogObject& object = view_->objects_[index];
  object.key = sql::table_key(name);
  switch (sql::catalog_relation(schema, name)) {
    case sql::CatalogRelation::none:
      break;
    case sql::CatalogRelation::replicated:
      object.flags |= flag::kReadsCatalog;
      break;
    case sql::CatalogRelation::server_view:
      object.flags |= flag::kServerView;
      break;
  }
  switch (*known) {
    case ObjectKind::foreign_table:
    case ObjectKind::sequence:
      object.flags |= flag::kOffReplicas;
      break;
    case ObjectKind::table:
    case ObjectKind::partitioned_table:
    case ObjectKind::materialized_view:
      if (kind[1] != 'p') object.flags |= flag::kOffReplicas;
      break;
    case ObjectKind::view:
    case ObjectKind::function:
    case ObjectKind::operation:
    case ObjectKind::type:
      break;
  }
  view_->relations_.add(name_key({}, name), index);
  view_->relations_.add(name_key(schema, name), index);
  ++view_->relation_count_;
  return {};
}

Status CatalogBuilder::add_function(std::uint64_t oid, const CatalogRow& row) {
  const Bytes schema = text_of(row[2]);
  const Bytes name = text_of(row[3]);
  const Bytes kind = text_of(row[4]);
  const Bytes arguments = text_of(row[5]);
  const std::size_t colon = std::min(arguments.find(':'), arguments.size());
  const std::optional<std::uint16_t> least = parse<std::uint16_t>(arguments.substr(0, colon));
  const std::optional<std::uint16_t> most =
      parse<std::uint16_t>(arguments.substr(std::min(colon + 1, arguments.size())));
  const bool fine = kind.size() > 3 && Bytes("fpaw").find(kind[0]) != Bytes::npos &&
                    Bytes("isv").find(kind[1]) != Bytes::npos && least && most;
  if (!fine) return bad_row(row, "kind, volatility, notation, language, and least:most arguments");

  const std::uint32_t index = add_object(ObjectKind::function, 'f', oid, schema, name);
  const Bytes language = kind.substr(3);
  std::uint32_t flags = 0;
  if (kind[1] == 'v' || kind[0] == 'p') flags |= flag::kVolatile;
  if (kind[2] == '1') flags |= flag::kColumnNotation;
  {
    CatalogObject& object = view_->objects_[index];
    object.arguments_min = *least;
    object.arguments_max = *most;
  }
  sql::Body body;
  const bool in_c = language == "c" || language == "internal";
  if (kind[0] == 'a' || language == "atomic") {
    // Its edges tell all.
  } else if (language == "sql") {
    reader_.read_sql(text_of(row[6]), body);
  } else if (language == "plpgsql") {
    reader_.read_plpgsql(text_of(row[6]), body);
  } else {
    body.readable = false;
    const bool harmless =
        language == "c" && std::find(std::begin(kHarmlessLibraries), std::end(kHarmlessLibraries),
                                     text_of(row[6])) != std::end(kHarmlessLibraries);
    if (harmless) flags &= ~flag::kVolatile;
    if (harmless || (in_c && kind[1] == 'i')) flags |= flag::kPure;
  }
  if (!body.readable) {
    flags |= flag::kUnreadable;
  } else {
    if (body.dynamic) flags |= flag::kDynamic;
    if (body.reads_all || body.found.reads_all) flags |= flag::kReadsAll;
    if (body.writes_all) flags |= flag::kWritesAll;
    if (body.primary_only || body.found.pg_temp || body.found.locks_rows)
      flags |= flag::kPrimaryOnly;
    if (body.found.has_cast) flags |= flag::kReadsCatalog;
  }
  view_->objects_[index].flags = flags;
  if (body.readable) add_body(index, body);
  view_->functions_.add(name_key({}, name), index);
  view_->functions_.add(name_key(schema, name), index);
  ++view_->function_count_;
  return {};
}

void CatalogBuilder::add_body(std::uint32_t object, const sql::Body& body) {
  const auto name = [this, object](NameKind kind, Bytes schema, Bytes text, Uses uses) {
    named_.push_back({name_key(schema, text), object, -1, uses, kind, false});
  };
  for (const sql::RelationName& read : body.found.reads) {
    switch (sql::catalog_relation(read.schema, read.name)) {
      case sql::CatalogRelation::none:
        name(NameKind::relation, read.schema, read.name, sql::use::kRead);
        break;
      case sql::CatalogRelation::replicated:
        view_->objects_[object].flags |= flag::kReadsCatalog;
        break;
      case sql::CatalogRelation::server_view:
        view_->objects_[object].flags |= flag::kServerView;
        break;
    }
  }
  for (std::size_t i = 0; i < body.found.writes.size(); ++i) {
    const sql::RelationName& written = body.found.writes[i];
    name(NameKind::relation, written.schema, written.name, body.found.write_uses[i]);
  }
  for (const sql::Call& call : body.found.calls) add_call(object, call);
  for (const std::string& dotted : body.found.dotted)
    name(NameKind::column, {}, dotted, sql::use::kCall);
  for (const std::string& symbol : body.found.operators)
    name(NameKind::operation, {}, symbol, sql::use::kCall);
  for (const sql::RelationName& type : body.found.types)
    name(NameKind::type, type.schema, type.name, sql::use::kCall);
}

void CatalogBuilder::add_call(std::uint32_t object, const sql::Call& call) {
  const sql::FunctionName& function = call.name;
  const bool may_be_builtin = function.schema.empty() || function.schema == "pg_catalog";
  const bool builtin = may_be_builtin && sql::find_builtin(function.name, function.arguments).known;
  if (builtin) view_->objects_[object].flags |= builtin_flags(function.name, function.arguments);
  if (function.schema == "pg_catalog" && builtin) return;
  named_.push_back({name_key(function.schema, function.name), object, function.arguments,
                    sql::use::kCall, call.doubtful ? NameKind::doubtful_call : NameKind::call,
                    builtin});
}

Status CatalogBuilder::add_edge(std::uint64_t oid, const CatalogRow& row) {
  const Bytes from = text_of(row[2]);
  const Bytes to = text_of(row[5]);
  const std::optional<std::uint64_t> to_oid = parse<std::uint32_t>(text_of(row[3]));
  const std::optional<Uses> when = parse<Uses>(text_of(row[4]));
  const std::optional<Uses> uses = parse<Uses>(text_of(row[6]));
  if (from.size() != 1 || to.size() != 1 || !to_oid || !when || !uses)
    return bad_row(row, "two objects and two sets of uses");
  oid_edges_.push_back({of_class(from[0], oid), of_class(to[0], *to_oid), *when, *uses});
  return {};
}

std::optional<std::uint32_t> CatalogBuilder::find(std::uint64_t class_and_oid) const {
  const auto found = objects_by_oid_.find(class_and_oid);
  if (found == objects_by_oid_.end()) return std::nullopt;
  return found->second;
}

// ---------------------------------------------------------------- what is left when all is known

std::size_t CatalogBuilder::step() {
  const std::size_t before = at_;
  const auto next = [this](Phase phase, std::size_t work) {
    phase_ = phase;
    at_ = 0;
    return work + 1;
  };
  switch (phase_) {
    case Phase::sort_relations:
      view_->relations_.finish();
      return next(Phase::sort_others, view_->relation_count_);
    case Phase::sort_others:
      view_->functions_.finish();
      view_->operators_.finish();
      view_->types_.finish();
      return next(Phase::edges, view_->function_count_);
    case Phase::edges:
      return resolve_edges() ? at_ - before : next(Phase::names, oid_edges_.size() - before);
    case Phase::names:
      return resolve_names() ? at_ - before : next(Phase::children, named_.size() - before);
    case Phase::children: {
      const std::size_t work = edges_.size();
      link_children();
      return next(Phase::order, work);
    }
    case Phase::order: {
      const std::size_t work = edges_.size();
      order_edges();
      return next(Phase::hidden, work);
    }
    case Phase::hidden:
      find_hidden();
      return next(Phase::done, hidden_casts_.size());
    case Phase::done:
      return 0;
  }
  return 0;
}

/// An object that is not there is an immutable function of the system's, or an index.
bool CatalogBuilder::resolve_edges() {
  const std::size_t end = std::min(at_ + kEdgesPerStep, oid_edges_.size());
  for (; at_ < end; ++at_) {
    const OidEdge& edge = oid_edges_[at_];
    const std::optional<std::uint32_t> from = find(edge.from);
    const std::optional<std::uint32_t> to = find(edge.to);
    if (from && to) edges_.push_back({*from, {*to, edge.when, edge.use}});
  }
  return at_ < oid_edges_.size();
}

bool CatalogBuilder::resolve_names() {
  const std::size_t end = std::min(at_ + kNamesPerStep, named_.size());
  for (; at_ < end; ++at_) resolve(named_[at_]);
  return at_ < named_.size();
}

void CatalogBuilder::resolve(const NamedUse& named) {
  std::uint32_t& flags = view_->objects_[named.from].flags;
  bool found = false;
  const auto link = [&](std::uint32_t to) {
    found = true;
    edges_.push_back({named.from, {to, sql::use::kCall, named.use}});
  };
  switch (named.kind) {
    case NameKind::relation:
      for (const std::uint32_t relation : view_->relations_.find(named.key)) link(relation);
      // New, temporary, or a trigger's table of changed rows.
      if (!found) flags |= flag::kReadsAll | flag::kUncertain;
      if (!found && named.use != sql::use::kRead) flags |= flag::kWritesAll;
      break;
    case NameKind::call:
    case NameKind::doubtful_call:
      for (const std::uint32_t function : view_->functions_.find(named.key)) {
        const CatalogObject& it = view_->objects_[function];
        const bool fits = named.arguments < 0 || (named.arguments >= it.arguments_min &&
                                                  named.arguments <= it.arguments_max);
        if (fits) link(function);
      }
      if (!found && !named.builtin && named.kind == NameKind::call)
        flags |= flag::kReadsAll | flag::kWritesAll | flag::kPrimaryOnly;
      break;
    case NameKind::column:
      for (const std::uint32_t function : view_->functions_.find(named.key)) {
        if ((view_->objects_[function].flags & flag::kColumnNotation) != 0) link(function);
      }
      break;
    case NameKind::operation:
      for (const std::uint32_t operation : view_->operators_.find(named.key)) link(operation);
      break;
    case NameKind::type:
      for (const std::uint32_t type : view_->types_.find(named.key)) link(type);
      break;
  }
}

/// Children know their parents. A parent knows only those children, and those that lead to them,
/// through which writing does more than write, and that it has one whose rows no standby has.
void CatalogBuilder::link_children() {
  std::vector<CatalogObject>& objects = view_->objects_;
  std::vector<Child> children;
  for (const auto& [child_oid, parent_oid] : inherits_) {
    const std::optional<std::uint32_t> child = find(child_oid);
    const std::optional<std::uint32_t> parent = find(parent_oid);
    if (!child || !parent) continue;
    children.push_back({*child, *parent});
    objects[*parent].flags |= flag::kHasChildren;
    edges_.push_back({*child, {*parent, 0, edge_use::kParent}});
  }
  std::vector<bool> does_more(objects.size());
  for (const FullEdge& edge : edges_) {
    const bool more =
        (edge.edge.when & sql::use::kWrites) != 0 && (edge.edge.use & ~sql::use::kRead) != 0;
    if (more) does_more[edge.from] = true;
  }
  std::vector<bool> linked(children.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const Child& pair = children[i];
      const CatalogObject& child = objects[pair.child];
      CatalogObject& parent = objects[pair.parent];
      const bool off = (child.flags & (flag::kOffReplicas | flag::kOffBelow)) != 0;
      if (off && (parent.flags & flag::kOffBelow) == 0) {
        parent.flags |= flag::kOffBelow;
        changed = true;
      }
      const bool follows = does_more[pair.child] || child.kind == ObjectKind::foreign_table;
      if (linked[i] || !follows) continue;
      linked[i] = changed = true;
      does_more[pair.parent] = true;
      edges_.push_back(
          {pair.parent, {pair.child, sql::use::kWrites, edge_use::kSame | edge_use::kThrough}});
    }
  }
  for (const std::uint64_t view : locking_views_) {
    if (const auto found = find(view)) objects[*found].flags |= flag::kLocksRows;
  }
  for (const auto& [relation, uses] : instead_) {
    const auto found = find(relation);
    if (found) objects[*found].instead = static_cast<Uses>(objects[*found].instead | uses);
  }
  for (const std::uint64_t function : event_functions_) {
    if (const auto found = find(function)) view_->on_ddl_.push_back(*found);
  }
}

/// By the object they belong to, each once.
void CatalogBuilder::order_edges() {
  std::vector<CatalogObject>& objects = view_->objects_;
  objects.emplace_back();
  std::vector<std::uint32_t> place(objects.size() + 1);
  for (const FullEdge& edge : edges_) ++place[edge.from + 1];
  for (std::size_t i = 1; i < place.size(); ++i) place[i] += place[i - 1];
  std::vector<CatalogEdge> ordered(edges_.size());
  std::vector<std::uint32_t> next(place);
  for (const FullEdge& edge : edges_) ordered[next[edge.from]++] = edge.edge;
  edges_ = {};
  std::size_t kept = 0;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    objects[i].first_edge = static_cast<std::uint32_t>(kept);
    if (i + 1 == objects.size()) break;
    const auto first = ordered.begin() + place[i];
    const auto last = ordered.begin() + place[i + 1];
    const auto order = [](const CatalogEdge& e) { return std::tuple(e.to, e.when, e.use); };
    std::sort(first, last,
              [&](const CatalogEdge& a, const CatalogEdge& b) { return order(a) < order(b); });
    const auto end = std::unique(first, last, [&](const CatalogEdge& a, const CatalogEdge& b) {
      return order(a) == order(b);
    });
    for (auto edge = first; edge != end; ++edge) ordered[kept++] = *edge;
  }
  ordered.resize(kept);
  ordered.shrink_to_fit();
  view_->edges_ = std::move(ordered);
  objects.shrink_to_fit();
  view_->names_.shrink_to_fit();
}

/// Casts that a statement need not name.
void CatalogBuilder::find_hidden() {
  for (const std::uint64_t cast : hidden_casts_) {
    const std::optional<std::uint32_t> function = find(cast);
    if (!function) continue;
    sql::Effects effects;
    CatalogWalk walk(*view_, effects);
    walk.add(*function, sql::use::kCall);
    walk.run();
    if (effects.cause != sql::Cause::none || !effects.writes.empty()) view_->hides_writes_ = true;
  }
}

std::shared_ptr<const CatalogView> CatalogBuilder::take(std::uint64_t generation) {
  view_->generation_ = generation;
  return std::move(view_);
}

Result<std::shared_ptr<const CatalogView>> build_catalog(const CatalogRows& rows,
                                                         std::uint64_t generation) {
  CatalogBuilder builder;
  for (const CatalogRow& row : rows) {
    if (Status added = builder.add(row); !added) return added.error();
  }
  while (builder.step() != 0) {
  }
  return builder.take(generation);
}

}  // namespace pgweir::routing
