// What the caches that are filled by texts occupy while ten million texts pass that are all different: classes by shape, what standbys
// have taught, prepared statements. Ends with status 1 when anything grows past the first million.
//
//   cache_memory_bench [texts]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "session/learned.h"
#include "session/statements.h"
#include "sql/classifier.h"
#include "sql/normalised.h"

using namespace pgweir;

namespace {

class FixedRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = static_cast<char>(seed_++ * 37 + 11);
  }

 private:
  unsigned seed_ = 0;
};

/// Resident memory of this process.
std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

/// Each of another shape: names differ, and what is read of how many tables.
std::string text_of(std::size_t number) {
  const std::string n = std::to_string(number);
  std::string text = "SELECT a" + n + ", b.c, upper(d) FROM t" + n + " JOIN b ON b.id = t" + n + ".b";
  for (std::size_t i = number % 7; i > 0; --i) text += " JOIN more_" + n + "_" + std::to_string(i) + " USING (id)";
  return text + " WHERE e = 1 AND f IN (1, 2, 3) ORDER BY g" + n;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::size_t texts = argument_count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000'000;
  constexpr std::size_t kCacheEntries = 10'000;  // classify_cache_size
  FixedRandom random;
  sql::Classifier classifier(random, kCacheEntries);
  session::ShapeSet proven;
  session::Misroutes learned;
  session::StatementStore statements;
  std::size_t after_first_part = 0;
  const std::size_t first_part = texts / 10;
  std::printf("%12s %10s %10s %10s %12s %10s\n", "texts", "classes", "proven", "learned", "statements", "RSS KiB");
  for (std::size_t i = 1; i <= texts; ++i) {
    const std::string text = text_of(i);
    const auto meaning = classifier.classify(text, {});
    proven.add(meaning->shape);
    learned.add(meaning->shape, sql::normalised(text, {}, session::Misroutes::kTextBytesMax), "25006", Time{});
    (void)statements.get(text, {});
    const bool told = i == 1000 || i == 10'000 || i == 100'000 || i % first_part == 0;
    if (!told) continue;
    const std::size_t now = resident_kib();
    std::printf("%12zu %10zu %10zu %10zu %12zu %10zu\n", i, classifier.cached(), proven.size(), learned.size(), statements.size(), now);
    if (i == first_part) after_first_part = now;
  }
  const std::size_t grown = resident_kib() - std::min(resident_kib(), after_first_part);
  std::printf("grown by %zu KiB since the first tenth\n", grown);
  return grown > 1024 ? 1 : 0;
}
