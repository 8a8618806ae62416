// CatalogView: one snapshot of a database's catalog, as classification asks it. Immutable and
// compact: a relation costs some 20 bytes, whatever its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sql/catalog.h"

namespace pgweir::routing {

/// What kCatalogQuery answers; nullopt is NULL.
using CatalogRows = std::vector<std::vector<std::optional<std::string>>>;

class CatalogView final : public sql::Catalog {
 public:
  sql::RelationFacts relation(Bytes schema, Bytes name) const noexcept override;
  sql::Volatility function(Bytes schema, Bytes name, int arguments) const noexcept override;
  bool hides_writes() const noexcept override { return hides_writes_; }

  /// Transactions of this role are serializable by default here, by a setting of the role, the
  /// database or the server.
  bool serializable(Bytes role) const noexcept;
  /// Rises with each snapshot that is loaded.
  std::uint64_t generation() const noexcept { return generation_; }
  std::size_t relations() const noexcept { return relations_; }
  std::size_t functions() const noexcept { return functions_by_name_.size() / 2; }

 private:
  friend Result<std::shared_ptr<const CatalogView>> build_catalog(const CatalogRows& rows,
                                                                  std::uint64_t generation);

  /// A sorted table from the hash of a name, bare or with its schema, to flags. Keys and flags lie
  /// apart: nine bytes for each name. Hashes that meet are or-ed, which can only add doubt.
  class FlagTable {
   public:
    void add(std::uint64_t key, std::uint8_t flags) { building_.push_back({key, flags}); }
    void finish();
    std::optional<std::uint8_t> find(std::uint64_t key) const noexcept;

   private:
    struct Row {
      std::uint64_t key;
      std::uint8_t flags;
    };
    std::vector<Row> building_;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint8_t> flags_;
  };
  struct Function {
    std::uint64_t key;
    std::uint16_t arguments_min;
    std::uint16_t arguments_max;
    sql::Volatility volatility;
  };

  Status add_relation(Bytes schema, Bytes name, Bytes value);
  Status add_function(Bytes schema, Bytes name, Bytes value, Bytes arguments);
  void finish();

  FlagTable relations_by_name_;
  std::size_t relations_ = 0;
  std::vector<Function>
      functions_by_name_;  ///< Sorted by key; each function twice, as relations are.
  std::vector<std::string> serializable_roles_;
  bool all_serializable_ = false;
  bool hides_writes_ = false;
  std::uint64_t generation_ = 0;
};

Result<std::shared_ptr<const CatalogView>> build_catalog(const CatalogRows& rows,
                                                         std::uint64_t generation);

/// A snapshot while DDL has passed by that it may not show: plain tables are what they were,
/// functions and views count as unknown, and what is written counts as written to all tables.
class DoubtfulCatalog final : public sql::Catalog {
 public:
  explicit DoubtfulCatalog(std::shared_ptr<const CatalogView> snapshot)
      : snapshot_(std::move(snapshot)) {}
  sql::RelationFacts relation(Bytes schema, Bytes name) const noexcept override;
  sql::Volatility function(Bytes, Bytes, int) const noexcept override {
    return sql::Volatility::unknown;
  }
  bool hides_writes() const noexcept override { return true; }

 private:
  std::shared_ptr<const CatalogView> snapshot_;
};

}  // namespace pgweir::routing
