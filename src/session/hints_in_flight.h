// For whom, beside the session, counts what the statements under way write and see: their hints named a key or a level.
#pragma once

#include <memory>
#include <vector>

#include "config/levels.h"
#include "session/causality.h"

namespace pgweir::session {

/// From a statement's dispatch to the end of its transaction. A session has none until a hint comes.
struct HintsInFlight {
  static constexpr std::size_t kKeysMax = 64;

  std::vector<std::shared_ptr<Causality>> keys;
  bool unknown_key = false;  ///< one that could not be read, or too many of them: any key
  bool asks_session = false;
  bool asks_table = false;

  void add(const std::shared_ptr<Causality>& key);
  void add(config::ConsistencyLevel level) noexcept;
};

}  // namespace pgweir::session
