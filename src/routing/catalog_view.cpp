#include "routing/catalog_view.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/text.h"
#include "routing/catalog_walk.h"

namespace pgweir::routing {

namespace {

constexpr std::size_t kAncestorsMax = 64;
constexpr std::size_t kDescendantsMax = 1000;

void hash_more(std::uint64_t& hash, Bytes text) noexcept {
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;  // FNV-1a
  }
}

}  // namespace

std::uint64_t name_key(Bytes schema, Bytes name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  if (!schema.empty()) {
    hash_more(hash, schema);
    hash_more(hash, Bytes("\0", 1));
  }
  hash_more(hash, name);
  return hash;
}

void NameTable::finish() {
  std::sort(building_.begin(), building_.end());
  keys_.reserve(building_.size());
  objects_.reserve(building_.size());
  for (const auto& [key, object] : building_) {
    keys_.push_back(key);
    objects_.push_back(object);
  }
  building_ = {};
}

NameTable::Range NameTable::find(std::uint64_t key) const noexcept {
  const auto [first, last] = std::equal_range(keys_.begin(), keys_.end(), key);
  return {objects_.data() + (first - keys_.begin()), objects_.data() + (last - keys_.begin())};
}

std::size_t NameTable::memory_bytes() const noexcept {
  return keys_.capacity() * sizeof(std::uint64_t) + objects_.capacity() * sizeof(std::uint32_t);
}

bool CatalogView::relation(Bytes schema, Bytes name, sql::Uses uses, sql::Effects& effects) const {
  const NameTable::Range found = relations_.find(name_key(schema, name));
  CatalogWalk walk(*this, effects);
  for (const std::uint32_t object : found) walk.add(object, uses);
  walk.run();
  return !found.empty();
}

bool CatalogView::function(Bytes schema, Bytes name, int arguments, sql::Effects& effects) const {
  bool found = false;
  CatalogWalk walk(*this, effects);
  for (const std::uint32_t object : functions_.find(name_key(schema, name))) {
    const CatalogObject& it = objects_[object];
    const bool fits =
        arguments < 0 || (arguments >= it.arguments_min && arguments <= it.arguments_max);
    if (!fits) continue;
    found = true;
    walk.add(object, sql::use::kCall);
  }
  walk.run();
  return found;
}

void CatalogView::column(Bytes name, sql::Effects& effects) const {
  CatalogWalk walk(*this, effects);
  for (const std::uint32_t object : functions_.find(name_key({}, name))) {
    if ((objects_[object].flags & object_flag::kColumnNotation) != 0)
      walk.add(object, sql::use::kCall);
  }
  walk.run();
}

void CatalogView::operation(Bytes symbol, sql::Effects& effects) const {
  CatalogWalk walk(*this, effects);
  for (const std::uint32_t object : operators_.find(name_key({}, symbol)))
    walk.add(object, sql::use::kCall);
  walk.run();
}

void CatalogView::type(Bytes schema, Bytes name, sql::Effects& effects) const {
  CatalogWalk walk(*this, effects);
  for (const std::uint32_t object : types_.find(name_key(schema, name)))
    walk.add(object, sql::use::kCall);
  walk.run();
}

bool CatalogView::is_view(Bytes schema, Bytes name) const noexcept {
  const NameTable::Range found = relations_.find(name_key(schema, name));
  return std::any_of(found.begin(), found.end(), [this](std::uint32_t object) {
    return objects_[object].kind == ObjectKind::view;
  });
}

std::vector<std::uint32_t> CatalogView::ancestors(std::uint32_t relation) const {
  std::vector<std::uint32_t> above;
  const auto add_parents = [&](std::uint32_t of) {
    for (std::uint32_t i = objects_[of].first_edge; i < objects_[of + 1].first_edge; ++i) {
      const CatalogEdge& edge = edges_[i];
      if ((edge.use & edge_use::kParent) == 0 || above.size() >= kAncestorsMax) continue;
      if (std::find(above.begin(), above.end(), edge.to) == above.end()) above.push_back(edge.to);
    }
  };
  add_parents(relation);
  for (std::size_t i = 0; i < above.size(); ++i) add_parents(above[i]);
  return above;
}

/// For people only: parents are not told of their children.
std::vector<std::uint32_t> CatalogView::descendants(std::uint32_t relation) const {
  std::vector<std::uint32_t> below;
  if ((objects_[relation].flags & object_flag::kHasChildren) == 0) return below;
  for (std::uint32_t i = 0; i + 1 < objects_.size() && below.size() < kDescendantsMax; ++i) {
    const std::vector<std::uint32_t> above = ancestors(i);
    if (std::find(above.begin(), above.end(), relation) != above.end()) below.push_back(i);
  }
  return below;
}

bool CatalogView::serializable(Bytes role) const noexcept {
  return all_serializable_ || std::find(serializable_roles_.begin(), serializable_roles_.end(),
                                        role) != serializable_roles_.end();
}

bool CatalogView::read_committed(Bytes role) const noexcept {
  return !serializable(role) && !all_repeatable_ &&
         std::find(repeatable_roles_.begin(), repeatable_roles_.end(), role) == repeatable_roles_.end();
}

std::size_t CatalogView::memory_bytes() const noexcept {
  return objects_.capacity() * sizeof(CatalogObject) + edges_.capacity() * sizeof(CatalogEdge) +
         names_.capacity() + relations_.memory_bytes() + functions_.memory_bytes() +
         operators_.memory_bytes() + types_.memory_bytes();
}

void CatalogView::each_relation(const std::function<void(const Relation&)>& what) const {
  for (std::uint32_t i = 0; i + 1 < objects_.size(); ++i) {
    const CatalogObject& it = objects_[i];
    if (it.key == 0) continue;
    Relation relation{.schema = names_.data() + it.schema_at,
                      .name = names_.data() + it.name_at,
                      .key = it.key,
                      .has_children = (it.flags & object_flag::kHasChildren) != 0,
                      .above = {}};
    for (const std::uint32_t above : ancestors(i)) relation.above.push_back(objects_[above].key);
    what(relation);
  }
}

std::vector<std::string> CatalogView::names_of(const std::vector<sql::TableKey>& keys) const {
  std::unordered_map<sql::TableKey, std::size_t> wanted;
  for (std::size_t i = 0; i < keys.size(); ++i) wanted.emplace(keys[i], i);
  std::vector<std::string> names(keys.size());
  const auto tell = [&](sql::TableKey key, std::string_view before, const CatalogObject& it) {
    const auto found = wanted.find(key);
    if (found == wanted.end()) return;
    std::string& name = names[found->second];
    name += concat({name.empty() ? "" : ", ", before, names_.data() + it.schema_at, ".",
                    names_.data() + it.name_at});
  };
  for (const CatalogObject& it : objects_) {
    if (it.key == 0) continue;
    tell(it.key, "", it);
    if ((it.flags & object_flag::kHasChildren) != 0) tell(sql::tree_key(it.key), "below ", it);
  }
  return names;
}

bool DoubtfulCatalog::relation(Bytes schema, Bytes name, sql::Uses uses,
                               sql::Effects& effects) const {
  if (snapshot_->is_view(schema, name)) return false;
  sql::Effects plain;
  if (!snapshot_->relation(schema, name, uses, plain)) return false;
  // What hides behind a table (a policy over a function, say) may be another thing by now.
  if (sql::weight(plain.cause) > sql::weight(sql::Cause::unlogged)) return false;
  effects.add_cause(plain.cause);
  effects.certain = effects.certain && plain.certain;
  effects.reads.join(plain.reads);
  if ((uses & sql::use::kWrites) != 0) effects.writes.join({.all = true, .keys = {}});
  return true;
}

}  // namespace pgweir::routing
