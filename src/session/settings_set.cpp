#include "session/settings_set.h"

#include <algorithm>

#include "base/text.h"

namespace pgweir::session {
namespace {

bool before(std::string_view a, std::string_view b) noexcept {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return low(x) < low(y);
  });
}

std::string key_of(const SettingsSet& set) {
  std::string key;
  for (const SettingsSet::Item& item : set.items()) {
    key += to_lower(item.name);
    key += '\0';
    key += item.value;
    key += '\0';
  }
  return key;
}

}  // namespace

const std::string* SettingsSet::find(std::string_view name) const noexcept {
  for (const Item& item : items_) {
    if (equals_ignoring_case(item.name, name)) return &item.value;
  }
  return nullptr;
}

SettingsSet SettingsSet::with(std::string_view name, std::optional<std::string_view> value) const {
  SettingsSet changed = *this;
  auto at = std::lower_bound(changed.items_.begin(), changed.items_.end(), name,
                             [](const Item& item, std::string_view wanted) { return before(item.name, wanted); });
  const bool there = at != changed.items_.end() && equals_ignoring_case(at->name, name);
  if (!value) {
    if (there) changed.items_.erase(at);
  } else if (there) {
    at->value = *value;
  } else {
    changed.items_.insert(at, Item{std::string(name), std::string(*value)});
  }
  return changed;
}

SharedSettings SettingsInterner::intern(SettingsSet set) {
  if (sets_.size() >= sweep_at_) sweep();
  std::weak_ptr<const SettingsSet>& known = sets_[key_of(set)];
  SharedSettings shared = known.lock();
  if (!shared) {
    shared = std::make_shared<const SettingsSet>(std::move(set));
    known = shared;
  }
  return shared;
}

SharedSettings SettingsInterner::with(const SharedSettings& set, std::string_view name,
                                      std::optional<std::string_view> value) {
  const std::string* has = set->find(name);
  if (value ? has && *has == *value : has == nullptr) return set;
  return intern(set->with(name, value));
}

void SettingsInterner::sweep() {
  std::erase_if(sets_, [](const auto& entry) { return entry.second.expired(); });
  sweep_at_ = std::max<std::size_t>(64, sets_.size() * 2);
}

std::string difference(const SettingsSet& have, const SettingsSet& want) {
  std::string calls;
  for (const SettingsSet::Item& item : want.items()) {
    const std::string* value = have.find(item.name);
    if (value && *value == item.value) continue;
    calls += calls.empty() ? "SELECT " : ", ";
    calls += concat({"pg_catalog.set_config(", quote_literal(item.name), ", ", quote_literal(item.value), ", false)"});
  }
  std::string sql;
  for (const SettingsSet::Item& item : have.items()) {
    if (!want.find(item.name)) sql += concat({"RESET ", quote_identifier(to_lower(item.name)), "; "});
  }
  return sql + calls;
}

}  // namespace pgweir::session
