// What classification asks of a database's catalog; routing::CatalogView answers from a snapshot.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace pgweir::sql {

/// What calling a function of this name may do: the worst of all functions the call could mean.
enum class Volatility : std::uint8_t {
  unknown,            ///< No such function is known.
  immutable_builtin,  ///< Immutable, and in C: reads no table.
  immutable,
  stable,
  volatile_,
};

/// What reading or writing a relation of this name may touch: the worst of all relations the name
/// could mean.
struct RelationFacts {
  bool known = false;
  /// An ordinary permanent table or materialised view; without it a replica can't serve the
  /// relation (unlogged, temporary, foreign) and `reason_primary` is what the route says.
  bool on_replicas = false;
  bool is_view = false;  ///< Stands for other tables: reads count as all tables.
  bool is_sequence = false;
  bool reads_more =
      false;  ///< View, partitioned, inherited from, row security: reads count as all tables.
  bool writes_more =
      false;  ///< Triggers, rules, partitions, inheritance, cascades: writes count as all tables.
  bool hides_volatile = false;  ///< A view, policy or the like over a volatile function: primary.
};

class Catalog {
 public:
  virtual ~Catalog() = default;
  /// Names are folded as PostgreSQL folds them; an empty schema means any. `arguments` is -1 when
  /// not counted.
  virtual RelationFacts relation(Bytes schema, Bytes name) const noexcept = 0;
  virtual Volatility function(Bytes schema, Bytes name, int arguments) const noexcept = 0;
  /// True when operators, casts or column-notation calls over volatile user functions exist at all:
  /// reads that look innocent may then write, and what runs on the primary counts as a write of all
  /// tables.
  virtual bool hides_writes() const noexcept = 0;
};

}  // namespace pgweir::sql
