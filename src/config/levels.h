// What reads are owed, as settings, table rules and hints say it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace pgweir::config {

/// What a replica must have replayed before it may answer a read.
enum class ConsistencyLevel : std::uint8_t {
  eventual,
  session,
  table,
  latest,
  window,
  pin,
  primary
};
std::string_view to_string(ConsistencyLevel level) noexcept;

/// Of level window: how long a table that was written is read on the primary.
struct TableWindow {
  bool measured = true;  ///< As long as 99.9 % of the replica's lag samples.
  Duration time{};       ///< Else this.

  bool operator==(const TableWindow&) const = default;
};

}  // namespace pgweir::config
