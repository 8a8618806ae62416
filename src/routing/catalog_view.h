// CatalogView: one snapshot of a database's catalog, as classification asks it: a graph of
// relations, functions, operators and types, with an edge for everything that using one of them
// uses in turn. Immutable and compact: names lie in one block, edges are numbers.
// CatalogBuilder makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sql/catalog.h"

namespace pgweir::routing {

enum class ObjectKind : std::uint8_t {
  table,
  partitioned_table,
  view,
  materialized_view,
  foreign_table,
  sequence,
  function,
  operation,
  type,
};

/// What is known of one object beside its edges.
namespace object_flag {
inline constexpr std::uint32_t kOffReplicas = 1;    ///< unlogged: no standby has its rows
inline constexpr std::uint32_t kOffBelow = 2;       ///< so is a partition or child of it
inline constexpr std::uint32_t kLocksRows = 4;      ///< a view with FOR UPDATE or SHARE
inline constexpr std::uint32_t kServerView = 8;     ///< says something of the server that is asked
inline constexpr std::uint32_t kReadsCatalog = 16;  ///< the system's tables, or reads them
inline constexpr std::uint32_t kVolatile = 32;
inline constexpr std::uint32_t kPure = 64;          ///< immutable, in C: reads no table
inline constexpr std::uint32_t kUnreadable = 128;   ///< its body can't be read
inline constexpr std::uint32_t kDynamic = 256;      ///< runs what a text says
inline constexpr std::uint32_t kPrimaryOnly = 512;  ///< does what no standby can
inline constexpr std::uint32_t kReadsAll = 1024;
inline constexpr std::uint32_t kWritesAll = 2048;
inline constexpr std::uint32_t kUncertain = 4096;
inline constexpr std::uint32_t kColumnNotation = 8192;  ///< may be called as x.name
inline constexpr std::uint32_t kHasChildren = 16384;
}  // namespace object_flag

/// Uses that only edges have.
namespace edge_use {
inline constexpr sql::Uses kSame = 512;      ///< The target is used as this one is.
inline constexpr sql::Uses kThrough = 1024;  ///< A child written through its parent: no keys.
inline constexpr sql::Uses kParent = 2048;   ///< From a partition or child to its parent.
}  // namespace edge_use

struct CatalogObject {
  sql::TableKey key = 0;         ///< of a relation
  std::uint32_t first_edge = 0;  ///< Its edges end where those of the next object begin.
  std::uint32_t name_at = 0;     ///< in the block of names, ended by a NUL
  std::uint32_t schema_at = 0;
  std::uint32_t flags = 0;
  std::uint16_t arguments_min = 0;
  std::uint16_t arguments_max = 0;
  /// Writes of these kinds don't reach the relation itself: a rule does something INSTEAD.
  sql::Uses instead = 0;
  ObjectKind kind = ObjectKind::table;
};

/// Using the object that it belongs to in one of the ways `when` uses object `to` as `use` says.
struct CatalogEdge {
  std::uint32_t to = 0;
  sql::Uses when = 0;
  sql::Uses use = 0;
};

/// A sorted table from the hash of a name, bare or with its schema, to objects: 12 bytes for each.
/// Hashes that meet are taken together, which can only add doubt.
class NameTable {
 public:
  void add(std::uint64_t key, std::uint32_t object) { building_.push_back({key, object}); }
  void finish();
  struct Range {
    const std::uint32_t* first;
    const std::uint32_t* last;
    const std::uint32_t* begin() const noexcept { return first; }
    const std::uint32_t* end() const noexcept { return last; }
    bool empty() const noexcept { return first == last; }
  };
  Range find(std::uint64_t key) const noexcept;
  std::size_t memory_bytes() const noexcept;

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> building_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> objects_;
};

/// Of the bare name when `schema` is empty. A NUL can't be in a name, so the two kinds don't meet.
std::uint64_t name_key(Bytes schema, Bytes name) noexcept;

class CatalogView final : public sql::Catalog {
 public:
  bool relation(Bytes schema, Bytes name, sql::Uses uses, sql::Effects& effects) const override;
  bool function(Bytes schema, Bytes name, int arguments, sql::Effects& effects) const override;
  void column(Bytes name, sql::Effects& effects) const override;
  void operation(Bytes symbol, sql::Effects& effects) const override;
  void type(Bytes schema, Bytes name, sql::Effects& effects) const override;
  bool hides_writes() const noexcept override { return hides_writes_; }

  /// A table, view or sequence. The texts live as long as the view.
  struct Relation {
    Bytes schema;
    Bytes name;
    sql::TableKey key = 0;
    bool has_children = false;
    std::vector<sql::TableKey> above;  ///< what it is a partition or child of, at any distance
  };
  /// Linear in the catalog.
  void each_relation(const std::function<void(const Relation&)>& what) const;

  bool is_view(Bytes schema, Bytes name) const noexcept;
  /// Transactions of this role are serializable by default here, by a setting of the role, the
  /// database or the server.
  bool serializable(Bytes role) const noexcept;
  /// They are READ COMMITTED by default.
  bool read_committed(Bytes role) const noexcept;
  /// Rises with each snapshot that is loaded.
  std::uint64_t generation() const noexcept { return generation_; }
  std::size_t relations() const noexcept { return relation_count_; }
  std::size_t functions() const noexcept { return function_count_; }
  std::size_t memory_bytes() const noexcept;
  /// A name for each key; empty where no relation has it, "below x" for tree_key() of x's. Linear
  /// in the catalog: for people.
  std::vector<std::string> names_of(const std::vector<sql::TableKey>& keys) const;

 private:
  friend class CatalogBuilder;
  friend class CatalogWalk;

  /// The tables above a partition or child, each once, bounded; and those below a table.
  std::vector<std::uint32_t> ancestors(std::uint32_t relation) const;
  std::vector<std::uint32_t> descendants(std::uint32_t relation) const;

  std::vector<CatalogObject> objects_;  ///< and one more, for the end of the last one's edges
  std::vector<CatalogEdge> edges_;
  std::string names_;
  NameTable relations_;
  NameTable functions_;
  NameTable operators_;
  NameTable types_;
  std::vector<std::uint32_t> on_ddl_;  ///< functions of event triggers
  std::vector<std::string> serializable_roles_;
  std::vector<std::string> repeatable_roles_;  ///< repeatable read by default
  bool all_serializable_ = false;
  bool all_repeatable_ = false;
  bool hides_writes_ = false;
  std::uint64_t generation_ = 0;
  std::size_t relation_count_ = 0;
  std::size_t function_count_ = 0;
};

/// A snapshot while DDL has passed by that it may not show: plain tables are what they were,
/// functions and views count as unknown, and what is written counts as written to all tables.
class DoubtfulCatalog final : public sql::Catalog {
 public:
  explicit DoubtfulCatalog(std::shared_ptr<const CatalogView> snapshot)
      : snapshot_(std::move(snapshot)) {}
  bool relation(Bytes schema, Bytes name, sql::Uses uses, sql::Effects& effects) const override;
  bool function(Bytes, Bytes, int, sql::Effects&) const override { return false; }
  void column(Bytes, sql::Effects&) const override {}
  void operation(Bytes, sql::Effects&) const override {}
  void type(Bytes, Bytes, sql::Effects&) const override {}
  bool hides_writes() const noexcept override { return true; }

 private:
  std::shared_ptr<const CatalogView> snapshot_;
};

}  // namespace pgweir::routing
