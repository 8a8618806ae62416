// What the class of a statement costs: nanoseconds for some usual ones when the cache knows their
// shape and when it does not, and, with `--each FILE`, a run in which a profiler can count the
// instructions of every statement of the corpus apart (scanner_instructions.py does). There each statement comes with other
// values each time, as programs send it.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sql/classifier.h"
#include "sql/scanner.h"
#include "sql/tokens.h"
#include "tools/json.h"

using namespace pgweir;

/// A place where callgrind writes down what was counted and begins anew.
extern "C" [[gnu::noipa]] void bench_statement_begins() { asm volatile("" ::: "memory"); }

namespace {

constexpr int kRoundsEach =
    10;  ///< of each statement between two of those places; the script divides by it

class FixedRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = static_cast<char>(seed_ = seed_ * 1103515245U + 12345U);
  }

 private:
  unsigned seed_ = 7;
};

double nanoseconds_each(sql::Classifier& classifier, const std::string& text, int rounds) {
  std::size_t statements = 0;  // Keeps the work from being thrown away.
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) statements += classifier.classify(text, {})->statements.size();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  if (statements == 0) std::puts("(no statement)");
  return took.count() / rounds;
}

std::vector<std::pair<const char*, std::string>> usual_statements() {
  std::string in_list = "SELECT * FROM users WHERE id IN (0";
  for (int i = 1; i < 1000; ++i) in_list += "," + std::to_string(i);
  in_list += ")";
  return {
      {"SELECT 1", "SELECT 1"},
      {"BEGIN", "BEGIN"},
      {"primary key select", "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;"},
      {"ORM find", "SELECT \"users\".* FROM \"users\" WHERE \"users\".\"id\" = $1 LIMIT $2"},
      {"insert returning", "INSERT INTO orders (user_id, total) VALUES ($1, $2) RETURNING id"},
      {"update", "UPDATE pgbench_accounts SET abalance = abalance + -3215 WHERE aid = 71124;"},
      {"join and group",
       "SELECT u.id, u.name, count(o.id) FROM users u LEFT JOIN orders o ON o.user_id = u.id "
       "WHERE u.active AND o.total > 100 GROUP BY u.id, u.name HAVING count(o.id) > 3 ORDER BY 3 "
       "DESC LIMIT 20"},
      {"200 bytes",
       "SELECT p.id, p.title, p.price, c.name FROM products p JOIN categories c ON c.id = "
       "p.category_id "
       "WHERE p.price BETWEEN 10 AND 250.50 AND c.name = 'garden tools' ORDER BY p.price DESC, "
       "p.id LIMIT 50"},
      {"sqlcommenter",
       "SELECT \"users\".* FROM \"users\" WHERE \"users\".\"id\" = $1 LIMIT $2 "
       "/*action='show',controller='users',framework='rails%3A7.1',route='%2Fusers%2F%3Aid',traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01'*/"},
      {"set (never cached)", "SET statement_timeout = '5s'"},
      {"IN list of 1000", in_list},
  };
}

void compare_times() {
  std::printf("%-22s %6s %12s %12s\n", "statement", "bytes", "cached ns", "not cached ns");
  for (const auto& [name, text] : usual_statements()) {
    FixedRandom random;
    const int rounds = text.size() > 1000 ? 20'000 : 500'000;
    sql::Classifier classifier(random, 1000);
    nanoseconds_each(classifier, text, rounds / 10);
    const double cached = nanoseconds_each(classifier, text, rounds);
    const auto began = std::chrono::steady_clock::now();
    const int misses = rounds / 20;
    for (int i = 0; i < misses; ++i) {
      classifier.use_rules({});  // forgets everything
      classifier.classify(text, {});
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    std::printf("%-22s %6zu %12.1f %12.1f\n", name, text.size(), cached, took.count() / misses);
  }
}

/// `text` with other digits in its numbers and other letters in its strings, where they mean nothing; as long as before.
std::string with_other_values(const std::string& text, unsigned seed) {
  std::vector<sql::Token> tokens;
  sql::TokenSink sink(text, tokens);
  std::string out = text;
  if (sql::Scanner<sql::TokenSink>(text, {}, sink).run() == sql::ScanEnd::broken) return out;
  for (const sql::Token& token : tokens) {
    const bool plain = token.type == sql::TokenType::number || (token.type == sql::TokenType::literal && text[token.begin] == '\'');
    if (!plain || text[token.begin] == '0') continue;
    for (std::size_t i = token.begin; i < token.begin + token.size; ++i) {
      seed = seed * 1103515245U + 12345U;
      if (out[i] >= '1' && out[i] <= '9') out[i] = static_cast<char>('1' + (seed >> 16) % 9);
    }
  }
  return out;
}

/// Prints one line for each statement in the order in which they are run: bytes and name.
int run_each(const char* path) {
  std::vector<std::pair<std::string, std::string>> statements;
  for (auto& [name, text] : usual_statements()) statements.emplace_back(name, std::move(text));
  std::ifstream file(path);
  if (!file) return std::fprintf(stderr, "can't read %s\n", path), 1;
  for (std::string line; std::getline(file, line);) {
    auto id = tools::find_json_string(line, "id");
    auto text = tools::find_json_string(line, "sql");
    if (id && *id && text && *text) statements.emplace_back(**id, **text);
  }
  FixedRandom random;
  sql::Classifier classifier(random, 10'000);
  std::size_t found = 0;
  std::vector<std::vector<std::string>> texts;
  for (const auto& [name, text] : statements) {
    // The first is judged, the second known by its shape, and all behind it by its outline.
    for (int i = 0; i < 2; ++i) found += classifier.classify(text, {})->statements.size();
    std::vector<std::string>& others = texts.emplace_back();
    for (int i = 0; i < kRoundsEach; ++i) others.push_back(with_other_values(text, static_cast<unsigned>(i + 1)));
  }
  for (const std::vector<std::string>& others : texts) {
    bench_statement_begins();
    for (const std::string& text : others) found += classifier.classify(text, {})->statements.size();
  }
  bench_statement_begins();
  for (const auto& [name, text] : statements) std::printf("%zu %s\n", text.size(), name.c_str());
  return found == 0 ? 1 : 0;
}

std::size_t bytes_in_use() { return mallinfo2().uordblks; }

/// N different shapes, each twice, so that they are kept by outline, too: what stays of them.
int flood(std::size_t texts) {
  constexpr std::size_t kEntries = 10'000;
  FixedRandom random;
  sql::Classifier classifier(random, kEntries);
  const std::size_t before = bytes_in_use();
  std::size_t most = 0;
  for (std::size_t i = 0; i < texts; ++i) {
    const std::string text = "SELECT c" + std::to_string(i) + " FROM t WHERE id = $1";
    for (int time = 0; time < 2; ++time) classifier.classify(text, {});
    if (i % 100'000 == 0) most = std::max(most, bytes_in_use() - before);
  }
  most = std::max(most, bytes_in_use() - before);
  std::printf("%zu shapes: %zu cached, %.1f MB in use at most (%.0f bytes for each entry)\n", texts, classifier.cached(),
              static_cast<double>(most) / 1e6, static_cast<double>(most) / static_cast<double>(classifier.cached()));
  return classifier.cached() <= kEntries ? 0 : 1;
}

int long_texts() {
  const std::pair<const char*, std::pair<std::string, std::string>> kinds[] = {
      {"nested comments", {"/*", "*/"}}, {"parentheses", {"(", ")"}},  {"1+1+1", {"+1", ""}},
      {"UNION ALL", {" UNION ALL SELECT 1", ""}}, {"IN list", {",2", ""}},
  };
  std::printf("%-18s %12s %12s %12s\n", "microseconds", "16 kB", "128 kB", "1 MB");
  for (const auto& [name, pieces] : kinds) {
    std::printf("%-18s", name);
    for (const std::size_t size : {std::size_t{1} << 14, std::size_t{1} << 17, (std::size_t{1} << 20) - 64}) {
      const std::size_t n = size / (pieces.first.size() + pieces.second.size());
      std::string text = "SELECT ";
      if (pieces.second.empty()) text += std::strcmp(name, "IN list") == 0 ? "1 WHERE a IN (1" : "1";
      for (std::size_t i = 0; i < n; ++i) text += pieces.first;
      if (!pieces.second.empty()) text += "1";
      for (std::size_t i = 0; i < n; ++i) text += pieces.second;
      if (std::strcmp(name, "IN list") == 0) text += ")";
      double least = 1e12;
      for (int i = 0; i < 5; ++i) {
        FixedRandom random;
        sql::Classifier classifier(random, 10);
        const std::clock_t began = std::clock();
        classifier.classify(text, {});
        least = std::min(least, static_cast<double>(std::clock() - began) * 1e6 / CLOCKS_PER_SEC);
      }
      std::printf(" %12.0f", least);
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--flood") == 0) return flood(std::strtoul(argv[2], nullptr, 10));
  if (argc == 2 && std::strcmp(argv[1], "--long") == 0) return long_texts();
  if (argc == 3 && std::strcmp(argv[1], "--each") == 0) return run_each(argv[2]);
  compare_times();
  return 0;
}
