// simulate --seed N [--trace] | --seeds A..B [--twice]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "seed_run.h"

namespace {

using pgweir::sim::run_seed;
using pgweir::sim::RunOptions;
using pgweir::sim::RunResult;

int usage() {
  std::fputs(
      "usage: simulate --seed N [--trace]\n"
      "       simulate --seeds A..B [--twice] [--summary] [--keep-going]\n",
      stderr);
  return 2;
}

void tell_failure(std::uint64_t seed, const RunResult& result, bool with_events) {
  if (with_events) std::printf("last events:\n%s", result.last_events.c_str());
  std::printf("%s\nseed %llu FAILED: %s\n", result.summary.c_str(),
              static_cast<unsigned long long>(seed), result.failure.c_str());
  std::printf("again: test/simulate --seed %llu --trace\n", static_cast<unsigned long long>(seed));
}

}  // namespace

int main(int count, char** arguments) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool given = false;
  bool trace = false;
  bool twice = false;
  bool summary = false;
  bool keep_going = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--trace") {
      trace = true;
    } else if (argument == "--twice") {
      twice = true;
    } else if (argument == "--summary") {
      summary = true;
    } else if (argument == "--keep-going") {
      keep_going = true;
    } else if ((argument == "--seed" || argument == "--seeds") && i + 1 < count) {
      char* end = nullptr;
      first = last = std::strtoull(arguments[++i], &end, 10);
      if (end[0] == '.' && end[1] == '.') last = std::strtoull(end + 2, &end, 10);
      if (*end != '\0' || last < first) return usage();
      given = true;
    } else {
      return usage();
    }
  }
  if (!given) return usage();
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t failed = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    if (first == last && !trace) summary = true;
    // A crash must leave its seed behind.
    std::fprintf(stderr, "seed %llu\r", static_cast<unsigned long long>(seed));
    RunResult result = run_seed({.seed = seed, .print_trace = trace});
    if (result.failure.empty() && twice) {
      const RunResult again = run_seed({.seed = seed, .print_trace = false});
      if (again.hash != result.hash) {
        result.failure = "a second run went another way";
        result.last_events = again.last_events;
      }
    }
    if (!result.failure.empty()) {
      ++failed;
      tell_failure(seed, result, !trace && !keep_going);
      if (!keep_going) return 1;
    } else if (summary) {
      std::printf("seed %llu: %s | hash %016llx\n", static_cast<unsigned long long>(seed),
                  result.summary.c_str(), static_cast<unsigned long long>(result.hash));
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%llu seeds, %llu failed, %.1f s\n",
              static_cast<unsigned long long>(last - first + 1),
              static_cast<unsigned long long>(failed), took.count());
  return failed == 0 ? 0 : 1;
}
