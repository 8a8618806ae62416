// Nanoseconds for the class of a usual statement that the cache knows, and for one that it does
// not.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "base/random.h"
#include "sql/classifier.h"

using namespace pgweir;

namespace {

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

}  // namespace

int main() {
  std::string in_list = "SELECT * FROM users WHERE id IN (0";
  for (int i = 1; i < 1000; ++i) in_list += "," + std::to_string(i);
  in_list += ")";
  const std::pair<const char*, std::string> statements[] = {
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
      {"set (never cached)", "SET statement_timeout = '5s'"},
      {"IN list of 1000", in_list},
  };
  std::printf("%-22s %6s %12s %12s\n", "statement", "bytes", "cached ns", "not cached ns");
  for (const auto& [name, text] : statements) {
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
