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

/// What a function may do, the worst last.
enum class Volatility : std::uint8_t { immutable_builtin, immutable, stable, volatile_ };

/// What a relation is and stands on.
struct RelationFacts {
  bool known = false;
  bool on_replicas = false;
  bool is_view = false;
  bool is_sequence = false;
  bool reads_more = false;   ///< All tables count as read.
  bool writes_more = false;  ///< All tables count as written.
  bool hides_volatile = false;
};

/// Relations and functions by bare name; a schema is not looked at unless it is "nowhere". A
/// function that is not immutable in C reads all tables, a volatile one writes them.
class HandCatalog final : public Catalog {
 public:
  std::map<std::string, RelationFacts, std::less<>> relations;
  std::map<std::string, Volatility, std::less<>> functions;
  bool hides = false;

  HandCatalog& table(const std::string& name) {
    relations[name] = {.known = true, .on_replicas = true};
    return *this;
  }
  bool relation(Bytes schema, Bytes name, Uses uses, Effects& effects) const override {
    const auto found = relations.find(name);
    if (found == relations.end() || schema == "nowhere" || !found->second.known) return false;
    const RelationFacts& facts = found->second;
    const bool written = (uses & use::kWrites) != 0;
    if (!written && (facts.is_sequence || !facts.on_replicas)) effects.add_cause(Cause::unlogged);
    if ((uses & use::kCopyOut) != 0 && facts.is_view) effects.add_cause(Cause::unparsed);
    if (!written && (facts.is_view || facts.reads_more)) everything(effects.reads);
    if (written && (facts.is_view || facts.writes_more)) everything(effects.writes);
    if (facts.hides_volatile) does_anything(effects);
    // What refers to it nobody here knows.
    if ((uses & use::kTruncateCascade) != 0) everything(effects.writes);
    return true;
  }
  bool function(Bytes schema, Bytes name, int, Effects& effects) const override {
    const auto found = functions.find(name);
    if (found == functions.end() || schema == "nowhere") return false;
    call(*found, effects);
    return true;
  }
  void column(Bytes name, Effects& effects) const override {
    const auto found = functions.find(name);
    if (found != functions.end()) call(*found, effects);
  }
  void operation(Bytes, Effects&) const override {}
  void type(Bytes, Bytes, Effects&) const override {}
  bool hides_writes() const noexcept override { return hides; }

 private:
  static void everything(TableSet& set) { set.join({.all = true, .keys = {}}); }
  static void does_anything(Effects& effects) {
    effects.add_cause(Cause::primary_function);
    effects.certain = false;
    everything(effects.reads);
    everything(effects.writes);
  }
  static void call(const std::pair<const std::string, Volatility>& function, Effects& effects) {
    const bool allowed = listed(effects.rules->replica, {}, function.first);
    if (listed(effects.rules->primary, {}, function.first)) return does_anything(effects);
    if (function.second == Volatility::immutable_builtin) return;
    everything(effects.reads);
    if (allowed) return;
    effects.certain = false;
    if (function.second == Volatility::volatile_) does_anything(effects);
  }
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
