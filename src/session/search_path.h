// The settings that travel with a client, and the one of them whose SET must be read to be followed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pgweir::session {

/// The name as PostgreSQL writes it when it is a setting that travels with each client; else empty.
std::string_view tracked_name(std::string_view name) noexcept;
inline bool is_tracked(std::string_view name) noexcept { return !tracked_name(name).empty(); }

/// What stands behind "SET search_path =" as a value for set_config(): string elements become quoted names.
/// nullopt: DEFAULT, or nothing at all.
std::optional<std::string> search_path_value(std::string_view as_written);

}  // namespace pgweir::session
