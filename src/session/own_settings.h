// SET, RESET and SHOW of pgweir.*: how an application speaks to the router. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace pgweir::session {

enum class OwnSetting : std::uint8_t {
  causal_key,        ///< under which several clients share what they have written and seen
  read_consistency,  ///< the level of this session
  last_route,        ///< where its last unit went, and why; to be shown only
  token,             ///< what it has written and seen, for another session to take over: set, it raises what that one must see
};

struct OwnOrder {
  enum class What : std::uint8_t { set, reset, show };

  What what = What::show;
  OwnSetting setting = OwnSetting::causal_key;
  std::string value;  ///< of SET, without its quotes
};

/// "pgweir.causal_key", as it is written; nullopt for any other name.
std::optional<OwnSetting> own_setting(std::string_view name) noexcept;
std::string_view to_string(OwnSetting setting) noexcept;

/// Names the setting, the value (its beginning, should it be long) and what was expected.
Error refused_value(OwnSetting setting, std::string_view value, std::string_view expected);

/// Whether `sql` is nothing but such a statement; a comment or semicolon may stand behind it. SET LOCAL is none, nor is what PostgreSQL
/// would not take: servers get those, and take any name with a dot for a setting of the client's own. Cheap for every other statement.
std::optional<OwnOrder> own_order(Bytes sql);

}  // namespace pgweir::session
