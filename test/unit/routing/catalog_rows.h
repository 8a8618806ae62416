// Rows as kCatalogQuery gives them, made by name.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>

#include "routing/catalog_builder.h"

namespace pgweir::routing::test {

class Schema {
 public:
  Schema& relation(const char* name, const char* kind, const char* schema = "public") {
    add({"r", oid_of("r", full(name, schema)), schema, name, kind, std::nullopt, std::nullopt});
    return *this;
  }
  Schema& table(const char* name) { return relation(name, "rp"); }
  Schema& function(const char* name, const char* kind, const char* body = "",
                   const char* arguments = "0:1", const char* schema = "public") {
    add({"f", oid_of("f", full(name, schema)), schema, name, kind, arguments, body});
    return *this;
  }
  Schema& operation(const char* symbol) {
    add({"o", oid_of("o", symbol), std::nullopt, symbol, std::nullopt, std::nullopt, std::nullopt});
    return *this;
  }
  Schema& type(const char* name) {
    add({"t", oid_of("t", name), "public", name, std::nullopt, std::nullopt, std::nullopt});
    return *this;
  }
  Schema& edge(const char* from_class, const char* from, unsigned when, const char* to_class,
               const char* to, unsigned uses) {
    add({"d", oid_of(from_class, from), from_class, oid_of(to_class, to), std::to_string(when),
         to_class, std::to_string(uses)});
    return *this;
  }
  Schema& child(const char* child, const char* parent) {
    add({"i", oid_of("r", child), std::nullopt, oid_of("r", parent), std::nullopt, std::nullopt,
         std::nullopt});
    return *this;
  }
  Schema& row(const char* letter, const char* object, const char* uses = nullptr,
              const char* object_class = "r") {
    add({letter, oid_of(object_class, object), std::nullopt, std::nullopt,
         uses ? std::optional<std::string>(uses) : std::nullopt, std::nullopt, std::nullopt});
    return *this;
  }
  Schema& role(const char* name, const char* isolation = "serializable") {
    add({"s", "0", std::nullopt, name ? std::optional<std::string>(name) : std::nullopt,
         isolation, std::nullopt, std::nullopt});
    return *this;
  }
  std::shared_ptr<const CatalogView> built() const {
    Result<std::shared_ptr<const CatalogView>> view = build_catalog(rows_, 3);
    REQUIRE(view);
    return *view;
  }

 private:
  void add(CatalogRow row) { rows_.push_back(std::move(row)); }
  static std::string full(const std::string& name, const std::string& schema) {
    return schema == "public" ? name : schema + "." + name;
  }
  std::string oid_of(const std::string& letter, const std::string& name) {
    unsigned& oid = oids_[letter + name];
    if (oid == 0) oid = next_++;
    return std::to_string(oid);
  }

  CatalogRows rows_;
  std::map<std::string, unsigned> oids_;
  unsigned next_ = 20'000;
};

}  // namespace pgweir::routing::test
