// TableRules: the lines of [table_rules], resolved for the tables of one database.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/table_rules.h"
#include "routing/catalog_view.h"
#include "tokens/commit_log.h"

namespace pgweir::routing {

/// Which rules judge a table. Immutable: made anew when the configuration or the catalog changes, and then asked for each unit.
///
/// Tables are known by a key that those of one name in different schemas share, so several rules may judge one: all of them have to
/// allow the replica. Who reads a table reads its partitions and children too, and their rules count as well.
class TableRules {
 public:
  /// A set of rules: bit 0 is the level in force, bit i + 1 is rules()[i].
  using Set = std::uint64_t;
  static constexpr Set kLevelInForce = 1;

  /// Null when no line is about `database`. While no catalog is known every rule may judge any table.
  static std::shared_ptr<const TableRules> make(const std::vector<config::TableRuleLine>& lines, std::string_view database,
                                                const CatalogView* catalog);

  const std::vector<config::TableRule>& rules() const noexcept { return rules_; }
  Set of(sql::TableKey table) const noexcept {
    if (!catalog_known_) return all_;
    const auto found = by_table_.find(table);
    return found == by_table_.end() ? kLevelInForce : found->second;
  }
  /// Of a statement that may read any table.
  Set of_all() const noexcept { return all_; }

 private:
  Set bit_of(const config::TableRule& rule);

  std::vector<config::TableRule> rules_;
  std::unordered_map<sql::TableKey, Set> by_table_;  ///< those that not only the level in force judges
  Set all_ = kLevelInForce;
  bool catalog_known_ = false;
};

/// What the unit reads of the tables that one rule judges.
struct RuledTables {
  const config::TableRule* rule = nullptr;
  config::ConsistencyLevel level = config::ConsistencyLevel::table;  ///< the rule's, as far as it can be kept
  tokens::Need tables;  ///< as UnitFacts::tables
  Duration since_table_write = Duration::max();
};

}  // namespace pgweir::routing
