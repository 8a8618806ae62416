#include "session/table_judgement.h"

#include <algorithm>
#include <array>
#include <bit>

namespace pgweir::session {
namespace {

using config::ConsistencyLevel;
using Rules = routing::TableRules;

std::size_t first_rule(Rules::Set set) noexcept { return static_cast<std::size_t>(std::countr_zero(set)) - 1; }

}  // namespace

void judge_tables(const Hub& hub, DatabaseContext& database, const TableReads& reads, tokens::Ticket& arrival, routing::UnitFacts& facts,
                  std::vector<sql::TableKey>& by_level) {
  const Rules& rules = *database.table_rules;
  const tokens::TableWrites& writes = database.marks->writes;
  struct Written {
    tokens::Ticket ticket = 0;
    Time at{};
  };
  std::array<Written, config::kTableRulesMax> written;
  Rules::Set judging = 0;
  const auto judge = [&](Rules::Set set, std::span<const sql::TableKey> tables, bool all) {
    judging |= set;
    const Written last{writes.last_write(tables, all), writes.last_write_time(tables, all)};
    for (Rules::Set left = set & ~Rules::kLevelInForce; left != 0; left &= left - 1) {
      Written& of_rule = written[first_rule(left)];
      of_rule.ticket = std::max(of_rule.ticket, last.ticket);
      of_rule.at = std::max(of_rule.at, last.at);
    }
  };
  by_level.clear();
  if (reads.all) {
    judge(rules.of_all(), {}, true);
  } else {
    for (const sql::TableKey& table : reads.tables) {
      const Rules::Set set = rules.of(table);
      if ((set & Rules::kLevelInForce) != 0) by_level.push_back(table);
      judge(set, {&table, 1}, false);
    }
  }
  facts.level_applies = judging == 0 || (judging & Rules::kLevelInForce) != 0;
  facts.ruled.clear();
  for (Rules::Set left = judging & ~Rules::kLevelInForce; left != 0; left &= left - 1) {
    const std::size_t index = first_rule(left);
    routing::RuledTables& ruled = facts.ruled.emplace_back();
    ruled.rule = &rules.rules()[index];
    ruled.level = hub.level_kept(ruled.rule->level);
    switch (ruled.level) {
      case ConsistencyLevel::table: ruled.tables = database.captures->need(written[index].ticket); break;
      case ConsistencyLevel::latest:
        if (arrival == 0) arrival = database.captures->mark();
        ruled.tables = database.captures->need(arrival);
        break;
      case ConsistencyLevel::window:
        if (written[index].at != Time{}) ruled.since_table_write = hub.now() - written[index].at;
        break;
      case ConsistencyLevel::eventual:
      case ConsistencyLevel::session:
      case ConsistencyLevel::pin:
      case ConsistencyLevel::primary: break;
    }
  }
}

}  // namespace pgweir::session
