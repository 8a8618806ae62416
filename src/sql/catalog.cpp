#include "sql/catalog.h"

#include <algorithm>

namespace pgweir::sql {
namespace {

bool matches(Bytes pattern, Bytes text) noexcept {
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == text;
}

}  // namespace

bool listed(const std::vector<std::string>& rules, Bytes schema, Bytes name) noexcept {
  return std::any_of(rules.begin(), rules.end(), [schema, name](Bytes rule) {
    if (matches(rule, name)) return true;
    const std::size_t dot = rule.find('.');
    if (dot == Bytes::npos || schema.empty()) return false;
    return rule.substr(0, dot) == schema && matches(rule.substr(dot + 1), name);
  });
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

void Effects::add_cause(Cause more) noexcept {
  if (weight(more) > weight(cause)) cause = more;
}

}  // namespace pgweir::sql
