// What a node says of itself: the answers to the questions of the pooler's servers and of its
// monitor, told apart by what they ask for.
#pragma once

#include <optional>
#include <string_view>

#include "monitor/prober.h"
#include "sim_cluster.h"

namespace pgweir::sim {

/// The rows that `sql` gives on `node`, nullopt when it is no question that we know.
std::optional<monitor::Rows> system_answer(SimNode& node, std::string_view sql);

}  // namespace pgweir::sim
