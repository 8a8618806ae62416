#include "routing/table_rules.h"

#include <algorithm>

namespace pgweir::routing {

TableRules::Set TableRules::bit_of(const config::TableRule& rule) {
  const auto found = std::find(rules_.begin(), rules_.end(), rule);
  const auto index = static_cast<unsigned>(found - rules_.begin());
  if (found == rules_.end()) rules_.push_back(rule);
  return Set{1} << (index + 1);
}

std::shared_ptr<const TableRules> TableRules::make(const std::vector<config::TableRuleLine>& lines, std::string_view database,
                                                   const CatalogView* catalog) {
  auto made = std::make_shared<TableRules>();
  bool any = false;
  for (const config::TableRuleLine& line : lines) {
    if (!line.database.empty() && line.database != database) continue;
    any = true;
    if (!catalog) made->all_ |= made->bit_of(line.rule);
  }
  if (!any) return nullptr;
  if (!catalog) return made;
  made->catalog_known_ = true;
  catalog->each_relation([&](const CatalogView::Relation& relation) {
    const config::TableRule* rule = config::find_table_rule(lines, database, relation.schema, relation.name);
    const Set judged_by = rule ? made->bit_of(*rule) : kLevelInForce;
    made->all_ |= judged_by;
    made->by_table_[relation.key] |= judged_by;
    // What is written below a table concerns who reads it: by the table's own rule, and by those of the partitions and children.
    if (relation.has_children) made->by_table_[sql::tree_key(relation.key)] |= judged_by;
    if (!rule) return;
    for (const sql::TableKey above : relation.above) made->by_table_[sql::tree_key(above)] |= judged_by;
  });
  std::erase_if(made->by_table_, [](const auto& entry) { return entry.second == kLevelInForce; });
  return made;
}

}  // namespace pgweir::routing
