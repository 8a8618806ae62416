// The SQLSTATE under which a client is told of an error.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "config/settings.h"

namespace pgweir::session {

/// A view of `error`, or of a constant.
inline Bytes shown_sqlstate(const config::Settings& settings, const Error& error) noexcept {
  constexpr Bytes kAnything = "08P01";
  if (error.sqlstate().empty()) return kAnything;
  if (error.is_of_server()) return error.sqlstate();
  switch (settings.sqlstate_style) {
    case config::SqlstateStyle::postgres: return error.sqlstate();
    case config::SqlstateStyle::pgbouncer: return kAnything;
  }
  return kAnything;
}

}  // namespace pgweir::session
