// Ids that can't be taken for one another.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace pgweir {

/// A number with a meaning: Id<struct ClientTag> and Id<struct ServerTag> don't mix. 0 is nobody.
template <class Tag>
struct Id {
  std::uint64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  auto operator<=>(const Id&) const noexcept = default;
};

using ClientId = Id<struct ClientTag>;
using ServerId = Id<struct ServerTag>;
/// A node of one cluster. Never reused while the process lives, also not over a reload.
using NodeId = Id<struct NodeTag>;

}  // namespace pgweir

template <class Tag>
struct std::hash<pgweir::Id<Tag>> {
  std::size_t operator()(pgweir::Id<Tag> id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};
