// What single tables are owed where rules judge them.
#pragma once

#include <span>
#include <vector>

#include "session/hub.h"

namespace pgweir::session {

struct TableReads {
  std::span<const sql::TableKey> tables;
  bool all = false;
};

/// Fills in UnitFacts::ruled and level_applies: one entry for each rule that judges a table of the unit. What the level in force
/// judges, beside or instead of a rule, is left in `by_level`. `database` has rules. `arrival` is the ticket that covers all that was
/// committed when the unit came; it is drawn here when it is 0 and a rule asks for it.
void judge_tables(const Hub& hub, DatabaseContext& database, const TableReads& reads, tokens::Ticket& arrival, routing::UnitFacts& facts,
                  std::vector<sql::TableKey>& by_level);

}  // namespace pgweir::session
