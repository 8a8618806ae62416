// A classifier whose secret is fixed, and a catalog made by hand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/random.h"
#include "sql/classifier.h"

namespace pgweir::sql::test {

class FixedRandom final : public Random {
 public:
  explicit FixedRandom(unsigned seed = 1) : seed_(seed) {}
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) {
      seed_ = seed_ * 1103515245U + 12345U;
      byte = static_cast<char>(seed_ >> 16);
    }
  }

 private:
  unsigned seed_;
};

/// Relations and functions by bare name; a schema is not looked at unless it is "nowhere".
class HandCatalog final : public Catalog {
 public:
  std::map<std::string, RelationFacts, std::less<>> relations;
  std::map<std::string, Volatility, std::less<>> functions;
  bool hides = false;

  HandCatalog& table(const std::string& name) {
    relations[name] = {.known = true, .on_replicas = true};
    return *this;
  }
  RelationFacts relation(Bytes schema, Bytes name) const noexcept override {
    const auto found = relations.find(name);
    return found == relations.end() || schema == "nowhere" ? RelationFacts{} : found->second;
  }
  Volatility function(Bytes schema, Bytes name, int) const noexcept override {
    const auto found = functions.find(name);
    return found == functions.end() || schema == "nowhere" ? Volatility::unknown : found->second;
  }
  bool hides_writes() const noexcept override { return hides; }
};

inline std::shared_ptr<const StatementClass> classify(
    Bytes text, std::shared_ptr<const Catalog> catalog = nullptr, Dialect dialect = {}) {
  FixedRandom random;
  Classifier classifier(random, 16);
  classifier.use_catalog(std::move(catalog));
  return classifier.classify(text, dialect);
}

/// "schema.name schema.name", as found.
inline std::string listed(const std::vector<RelationName>& names) {
  std::string out;
  for (const RelationName& name : names) {
    if (!out.empty()) out += ' ';
    if (!name.schema.empty()) out += name.schema + '.';
    out += name.name;
  }
  return out;
}
inline std::string reads_of(Bytes text) { return listed(classify(text)->tables_read); }
inline std::string writes_of(Bytes text) { return listed(classify(text)->tables_written); }
/// "name/arguments name/arguments"
inline std::string calls_of(Bytes text) {
  std::string out;
  const auto result = classify(text);
  for (const FunctionName& function : result->functions) {
    if (!out.empty()) out += ' ';
    if (!function.schema.empty()) out += function.schema + '.';
    out += function.name + '/' + std::to_string(function.arguments);
  }
  return out;
}

}  // namespace pgweir::sql::test
