// One seed, start to end: a drawn topology, settings, workload and troubles; then quiet, in which
// everybody must get on.
#pragma once

#include <cstdint>
#include <string>

namespace pgweir::sim {

struct RunResult {
  std::string failure;  ///< Empty: every promise held.
  std::string last_events;
  std::string summary;  ///< What was drawn and what was done, for people.
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
};

struct RunOptions {
  std::uint64_t seed = 1;
  bool print_trace = false;
};

RunResult run_seed(const RunOptions& options);

}  // namespace pgweir::sim
