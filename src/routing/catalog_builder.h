// CatalogBuilder: rows of kCatalogQuery to a CatalogView, a part at a time, so that a catalog of
// tens of thousands of objects never keeps the loop for long.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "routing/catalog_view.h"
#include "sql/body_reader.h"

namespace pgweir::routing {

/// What kCatalogQuery answers; nullopt is NULL.
using CatalogRow = std::vector<std::optional<std::string>>;
using CatalogRows = std::vector<CatalogRow>;

class CatalogBuilder {
 public:
  CatalogBuilder();

  /// A function's body is read at once.
  Status add(const CatalogRow& row);
  /// Of all rows that were added, in whatever order: catalogs that tell the same have the same one.
  struct Digest {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::uint64_t rows = 0;
    bool operator==(const Digest&) const = default;
  };
  const Digest& digest() const noexcept { return digest_; }
  /// When all rows were added: does a part of what is left, and says how much that was, in
  /// objects and edges. 0: nothing is left.
  std::size_t step();
  /// When nothing is left.
  std::shared_ptr<const CatalogView> take(std::uint64_t generation);

 private:
  enum class Phase : std::uint8_t {
    sort_relations,
    sort_others,
    edges,
    names,
    children,
    order,
    hidden,
    done
  };
  enum class NameKind : std::uint8_t { relation, call, doubtful_call, column, operation, type };

  /// An edge between two objects of the catalog, by their class and oid.
  struct OidEdge {
    std::uint64_t from;
    std::uint64_t to;
    sql::Uses when;
    sql::Uses use;
  };
  /// What a body names.
  struct NamedUse {
    std::uint64_t key;
    std::uint32_t from;
    std::int32_t arguments;
    sql::Uses use;
    NameKind kind;
    bool builtin;  ///< A built-in function of the name was counted already.
  };
  struct FullEdge {
    std::uint32_t from;
    CatalogEdge edge;
  };
  struct Child {
    std::uint32_t child;
    std::uint32_t parent;
  };

  Status add_relation(std::uint64_t oid, Bytes schema, Bytes name, Bytes kind);
  Status add_function(std::uint64_t oid, const CatalogRow& row);
  Status add_edge(std::uint64_t oid, const CatalogRow& row);
  void add_body(std::uint32_t object, const sql::Body& body);
  void add_call(std::uint32_t object, const sql::Call& call);
  std::uint32_t add_object(ObjectKind kind, char letter, std::uint64_t oid, Bytes schema,
                           Bytes name);
  std::uint32_t keep_name(Bytes name);
  std::uint32_t keep_schema(Bytes schema);
  std::optional<std::uint32_t> find(std::uint64_t class_and_oid) const;

  bool resolve_edges();
  bool resolve_names();
  void resolve(const NamedUse& named);
  void link_children();
  void order_edges();
  void find_hidden();

  void note(const CatalogRow& row) noexcept;

  std::shared_ptr<CatalogView> view_;
  Digest digest_;
  Phase phase_ = Phase::sort_relations;
  std::size_t at_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> objects_by_oid_;  ///< looked up only
  std::unordered_map<std::string, std::uint32_t> schemas_;           ///< looked up only
  std::vector<OidEdge> oid_edges_;
  std::vector<NamedUse> named_;
  std::vector<FullEdge> edges_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> inherits_;  ///< child, parent
  std::vector<std::uint64_t> locking_views_;
  std::vector<std::pair<std::uint64_t, sql::Uses>> instead_;
  std::vector<std::uint64_t> event_functions_;
  std::vector<std::uint64_t> hidden_casts_;
  sql::BodyReader reader_;
};

Result<std::shared_ptr<const CatalogView>> build_catalog(const CatalogRows& rows,
                                                         std::uint64_t generation);

}  // namespace pgweir::routing
