// SET of settings that PostgreSQL does not report: which of them can be brought to another server, and to what value. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace pgweir::session {

/// Whether set_config() on any server has the effect that SET had on one. Not so for roles, for what belongs to one transaction, and for
/// what would undo the protection of a replica's server.
bool can_travel(std::string_view name) noexcept;

/// Whether the setting may change what a literal means when a statement is parsed, as TimeZone does: statements parsed under
/// different values are different ones then. True when in doubt.
bool may_change_literals(std::string_view name) noexcept;

/// What stands behind "SET name =" as a value for set_config(): a string without escapes, a number, or a word. nullopt: a list, or
/// anything else.
std::optional<std::string> setting_value(std::string_view as_written);

/// "SELECT set_config('name', 'value', false)" and nothing else: the name and the value.
std::optional<std::pair<std::string, std::string>> set_config_call(Bytes sql);

}  // namespace pgweir::session
