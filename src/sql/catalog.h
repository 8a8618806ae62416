// What classification asks of a database's catalog; routing::CatalogView answers from a snapshot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

/// What is done with a relation or function: a set of the bits below.
using Uses = std::uint16_t;
namespace use {
inline constexpr Uses kRead = 1;
inline constexpr Uses kInsert = 2;
inline constexpr Uses kUpdate = 4;
inline constexpr Uses kDelete = 8;
inline constexpr Uses kTruncate = 16;
inline constexpr Uses kTruncateCascade = 32;
inline constexpr Uses kRefresh = 64;
inline constexpr Uses kCall = 128;
inline constexpr Uses kCopyOut = 256;  ///< COPY relation TO, which refuses views
inline constexpr Uses kWrites =
    kInsert | kUpdate | kDelete | kTruncate | kTruncateCascade | kRefresh;
}  // namespace use

/// Partitions and inheritance: who writes a table marks, beside its own key, this one of each table
/// above it; who reads a table needs, beside its own, the keys of those above (a write through one
/// of them may have reached it) and this one of its own (what was written below it). So a tree of
/// any size costs a key or two for each level.
constexpr TableKey tree_key(TableKey table) noexcept {
  return (table ^ 0x7265776f6c656221U) * 0x9e3779b97f4a7c15U;
}

/// What a database line adds to the rules: names of functions (lower case, `*` at the end as a
/// pattern).
struct FunctionRules {
  std::vector<std::string>
      replica;  ///< allowed on replicas whatever the catalog says; they write nothing
  std::vector<std::string> primary;  ///< never on a replica
};

/// A rule may be written with or without a schema.
bool listed(const std::vector<std::string>& rules, Bytes schema, Bytes name) noexcept;

/// The names behind the keys, for people.
struct Trace {
  std::vector<RelationName> reads;
  std::vector<RelationName> writes;
  std::string chain;  ///< "view v → function f, VOLATILE": what in the catalog led to the last question's cause
  std::string because;  ///< what decided that a statement is not for a replica: such a chain, or what its text says
};

/// What using something implies, through all that it stands on. Questions add to it.
struct Effects {
  TableSet reads;
  TableSet writes;
  Cause cause = Cause::none;  ///< why it is not for a replica
  bool certain = true;        ///< nothing is left that could hide a write
  bool uses_code = false;     ///< a view, or a function, stands behind it
  const FunctionRules* rules = nullptr;
  Trace* trace = nullptr;  ///< null: nobody wants the names

  void add_cause(Cause more) noexcept;
};

/// The weightier of two causes decides.
int weight(Cause cause) noexcept;

/// Names are folded as PostgreSQL folds them; an empty schema means any: then all that the name
/// could mean counts. What is not known answers false and adds nothing.
class Catalog {
 public:
  virtual ~Catalog() = default;
  virtual bool relation(Bytes schema, Bytes name, Uses uses, Effects& effects) const = 0;
  /// `arguments` is -1 when not counted.
  virtual bool function(Bytes schema, Bytes name, int arguments, Effects& effects) const = 0;
  /// x.name: a column, or a function of one composite argument.
  virtual void column(Bytes name, Effects& effects) const = 0;
  /// An operator of this symbol that is not built in.
  virtual void operation(Bytes symbol, Effects& effects) const = 0;
  /// A cast to this type, or a value of it.
  virtual void type(Bytes schema, Bytes name, Effects& effects) const = 0;
  /// True when casts that nobody has to name call functions that write, or when operators and types
  /// are not known: reads that name one that is not built in may then write.
  virtual bool hides_writes() const noexcept = 0;
};

}  // namespace pgweir::sql
