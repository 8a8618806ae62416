// The unit of the extended protocol that some statements are answered in without a server.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace pgweir::session {

/// The messages of one unit that holds nothing but one unnamed statement, which it parses, binds and executes once.
struct OwnUnit {
  std::size_t size = 0;  ///< up to and with its Sync; 0 while that has not come
  bool fits = true;
};

/// Of the unit at the front of `input`.
OwnUnit read_own_unit(Bytes input) noexcept;

}  // namespace pgweir::session
