#include "routing/catalog_view.h"

#include <catch2/catch.hpp>

#include "routing/catalog_queries.h"

namespace pgweir::routing {
namespace {

using sql::Volatility;

std::vector<std::optional<std::string>> row(const char* what, const char* schema, const char* name,
                                            const char* value, const char* arguments = nullptr) {
  std::vector<std::optional<std::string>> fields;
  for (const char* field : {what, schema, name, value, arguments}) {
    fields.push_back(field ? std::optional<std::string>(field) : std::nullopt);
  }
  return fields;
}

std::shared_ptr<const CatalogView> built(const CatalogRows& rows) {
  Result<std::shared_ptr<const CatalogView>> view = build_catalog(rows, 3);
  REQUIRE(view);
  return *view;
}

TEST_CASE("a relation is found with and without its schema", "[routing]") {
  const auto view = built({row("r", "public", "users", "0"), row("r", "audit", "log", "1")});
  CHECK(view->relation("", "users").known);
  CHECK(view->relation("public", "users").on_replicas);
  CHECK_FALSE(view->relation("audit", "users").known);
  CHECK_FALSE(view->relation("audit", "log").on_replicas);
  CHECK_FALSE(view->relation("", "nothing").known);
  CHECK_FALSE(view->relation("", "nothing").on_replicas);
  CHECK(view->relations() == 2);
  CHECK(view->generation() == 3);
}

TEST_CASE("an unqualified name means the union of what it could mean", "[routing]") {
  const auto view =
      built({row("r", "a", "t", std::to_string(relation_flag::kWritesMore).c_str()),
             row("r", "b", "t",
                 std::to_string(relation_flag::kOffReplicas | relation_flag::kView).c_str())});
  const sql::RelationFacts any = view->relation("", "t");
  CHECK(any.writes_more);
  CHECK(any.is_view);
  CHECK_FALSE(any.on_replicas);
  CHECK(view->relation("a", "t").on_replicas);
  CHECK_FALSE(view->relation("b", "t").writes_more);
}

TEST_CASE("a function is the worst of all that the call could mean", "[routing]") {
  const auto view =
      built({row("f", "public", "f", "s", "1:2"), row("f", "public", "f", "v", "3:3"),
             row("f", "other", "f", "b", "1:1"), row("f", "public", "many", "i", "0:32767")});
  CHECK(view->function("", "f", 1) == Volatility::stable);
  CHECK(view->function("", "f", 2) == Volatility::stable);
  CHECK(view->function("", "f", 3) == Volatility::volatile_);
  CHECK(view->function("", "f", -1) == Volatility::volatile_);
  CHECK(view->function("", "f", 4) == Volatility::unknown);
  CHECK(view->function("other", "f", 1) == Volatility::immutable_builtin);
  CHECK(view->function("", "many", 500) == Volatility::immutable);
  CHECK(view->function("", "g", 0) == Volatility::unknown);
  CHECK(view->functions() == 4);
}

TEST_CASE("hidden writes and serializable roles are told", "[routing]") {
  const auto plain = built({});
  CHECK_FALSE(plain->hides_writes());
  CHECK_FALSE(plain->serializable("app"));
  const auto view = built({row("h", nullptr, nullptr, nullptr), row("s", nullptr, "app", nullptr)});
  CHECK(view->hides_writes());
  CHECK(view->serializable("app"));
  CHECK_FALSE(view->serializable("other"));
  CHECK(built({row("s", nullptr, nullptr, nullptr)})->serializable("anybody"));
}

TEST_CASE(
    "pitfall 13: while DDL may be unseen, functions and views are unknown and every write marks "
    "all",
    "[routing]") {
  const DoubtfulCatalog doubtful(built({row("r", "public", "t", "0"), row("r", "public", "v", "2"),
                                        row("f", "public", "f", "s", "0:0")}));
  CHECK(doubtful.relation("", "t").known);
  CHECK(doubtful.relation("", "t").on_replicas);
  CHECK(doubtful.relation("", "t").writes_more);
  CHECK_FALSE(doubtful.relation("", "t").reads_more);
  CHECK_FALSE(doubtful.relation("", "v").known);
  CHECK_FALSE(doubtful.relation("", "w").known);
  CHECK(doubtful.function("", "f", 0) == Volatility::unknown);
  CHECK(doubtful.hides_writes());
}

TEST_CASE("rows that don't come from the catalog query are refused", "[routing]") {
  CHECK_FALSE(build_catalog({{std::optional<std::string>("r")}}, 1));
  CHECK_FALSE(build_catalog({row("x", "a", "b", "0")}, 1));
  CHECK_FALSE(build_catalog({row("r", "a", "b", "many")}, 1));
  CHECK_FALSE(build_catalog({row("f", "a", "b", "q", "0:0")}, 1));
  CHECK_FALSE(build_catalog({row("f", "a", "b", "s", "0")}, 1));
  CHECK_FALSE(build_catalog({row(nullptr, "a", "b", "s", "0")}, 1));
}

}  // namespace
}  // namespace pgweir::routing
