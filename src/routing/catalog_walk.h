// CatalogWalk: follows the edges of a catalog from what a statement names to all that it implies.
// One visit for each object and way of using it, no recursion, bounded.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routing/catalog_view.h"

namespace pgweir::routing {

class CatalogWalk {
 public:
  CatalogWalk(const CatalogView& view, sql::Effects& effects) : view_(view), effects_(effects) {}

  /// What using `object` so implies; several may be added before run().
  void add(std::uint32_t object, sql::Uses uses);
  void run();

 private:
  /// On the way to an object.
  struct Step {
    std::uint32_t object;
    std::uint32_t from;  ///< the step that led here; its own index for the first
    sql::Uses uses;
    /// Below a function that is declared to write nothing: what it calls counts by what it does,
    /// not by what it is declared.
    bool by_deeds;
    bool reads_only;  ///< Below a function that the rules allow on replicas.
  };

  void push(const Step& step);
  void visit(std::uint32_t at);
  void visit_relation(std::uint32_t at, sql::Uses fresh);
  void visit_function(std::uint32_t at);
  void follow(std::uint32_t at, sql::Uses uses);
  void read_keys(std::uint32_t object);
  void write_keys(std::uint32_t object);
  void cause(std::uint32_t at, sql::Cause why, std::string_view word);
  void everything(std::uint32_t at, std::string_view word);
  void trace_relation(std::uint32_t object, bool written);
  std::string chain(std::uint32_t at, std::string_view word) const;

  const CatalogObject& object(std::uint32_t index) const { return view_.objects_[index]; }
  Bytes text(std::uint32_t at) const { return view_.names_.data() + at; }

  const CatalogView& view_;
  sql::Effects& effects_;
  std::vector<Step> steps_;
  std::size_t done_ = 0;
  std::unordered_map<std::uint64_t, sql::Uses> seen_;  ///< only looked up
};

}  // namespace pgweir::routing
