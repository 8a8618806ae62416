#include <catch2/catch.hpp>

#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

std::shared_ptr<HandCatalog> catalog() {
  auto made = std::make_shared<HandCatalog>();
  made->table("t").table("users");
  made->relations["view"] = {
      .known = true, .on_replicas = true, .is_view = true, .reads_more = true};
  made->relations["partitioned"] = {.known = true, .on_replicas = true, .reads_more = true};
  made->relations["cache"] = {.known = true, .on_replicas = false};
  made->relations["seq"] = {.known = true, .on_replicas = true, .is_sequence = true};
  made->relations["sly"] = {
      .known = true, .on_replicas = true, .is_view = true, .hides_volatile = true};
  made->functions["f_volatile"] = Volatility::volatile_;
  made->functions["f_stable"] = Volatility::stable;
  made->functions["f_immutable"] = Volatility::immutable;
  made->functions["f_c"] = Volatility::immutable_builtin;
  made->functions["touch"] = Volatility::volatile_;
  return made;
}

std::string verdict(Bytes text, std::shared_ptr<const Catalog> known) {
  const auto result = classify(text, std::move(known));
  return result->target == Target::replica ? "replica" : std::string(to_string(result->cause));
}

}  // namespace

TEST_CASE("relations are judged by what the catalog knows of them") {
  CHECK(verdict("SELECT * FROM t", catalog()) == "replica");
  CHECK(verdict("SELECT * FROM view", catalog()) == "replica");
  CHECK(verdict("SELECT * FROM cache", catalog()) == "unlogged");
  CHECK(verdict("SELECT last_value FROM seq", catalog()) == "unlogged");
  CHECK(verdict("SELECT * FROM sly", catalog()) == "primary_function");
  CHECK(verdict("SELECT * FROM brand_new", catalog()) == "unparsed");
  CHECK(verdict("SELECT * FROM nowhere.t", catalog()) == "unparsed");
  CHECK(verdict("SELECT * FROM pg_temp.t", catalog()) == "unlogged");
  CHECK(verdict("SELECT * FROM pg_class", catalog()) == "replica");
}

TEST_CASE("what a statement reads is its plain tables, or all when more lies behind them") {
  const auto plain = classify("SELECT * FROM t JOIN users USING (id)", catalog());
  CHECK_FALSE(plain->reads.all);
  CHECK(plain->reads.keys == std::vector<TableKey>{table_key("t"), table_key("users")});
  for (Bytes text : {"SELECT * FROM view", "SELECT * FROM partitioned", "SELECT f_stable(1)",
                     "SELECT f_immutable(1)", "SELECT f_volatile(1)"}) {
    INFO(text);
    CHECK(classify(text, catalog())->reads.all);
  }
  CHECK_FALSE(classify("SELECT f_c(1)", catalog())->reads.all);
}

TEST_CASE("functions are judged by volatility, and the unknown is volatile") {
  CHECK(verdict("SELECT f_stable(1)", catalog()) == "replica");
  CHECK(verdict("SELECT f_immutable(1)", catalog()) == "replica");
  CHECK(verdict("SELECT f_volatile(1)", catalog()) == "primary_function");
  CHECK(verdict("SELECT f_unheard_of(1)", catalog()) == "primary_function");
  CHECK(verdict("SELECT nowhere.f_stable(1)", catalog()) == "primary_function");
  CHECK(classify("SELECT f_volatile(1)", catalog())->writes.all);
  CHECK_FALSE(classify("SELECT f_stable(1)", catalog())->writes.all);
  CHECK_FALSE(classify("SELECT f_stable(1)", catalog())->may_hide_write);
}

TEST_CASE("a user's function behind a built-in name makes the call the worse of both") {
  auto known = catalog();
  known->functions["lower"] = Volatility::volatile_;
  known->functions["nextval"] = Volatility::immutable;
  CHECK(verdict("SELECT lower('x')", known) == "primary_function");
  CHECK(verdict("SELECT pg_catalog.lower('x')", known) == "replica");
  CHECK(verdict("SELECT nextval('s')", known) == "primary_function");
  CHECK(verdict("SELECT app.nextval('s')", known) == "replica");
}

TEST_CASE("a column that is also a volatile function of one argument may be a call") {
  CHECK(verdict("SELECT u.touch FROM users u", catalog()) == "primary_function");
  CHECK(verdict("SELECT (u).touch FROM users u", catalog()) == "primary_function");
  CHECK(verdict("SELECT touch FROM users u", catalog()) == "replica");
  CHECK(verdict("SELECT u.id FROM users u", catalog()) == "replica");
}

TEST_CASE("operators and types that are not built in count when volatile ones exist") {
  auto known = catalog();
  for (Bytes text : {"SELECT 1 === 1", "SELECT 1 OPERATOR(public.+) 1", "SELECT 5::money_tag",
                     "SELECT CAST(1 AS app.money_tag)", "SELECT logged_int '5'"}) {
    INFO(text);
    known->hides = false;
    CHECK(verdict(text, known) == "replica");
    CHECK_FALSE(classify(text, known)->may_hide_write);
    CHECK(classify(text, known)->certain);
    known->hides = true;
    CHECK(classify(text, known)->may_hide_write);
    CHECK(verdict(text, known) == "primary_function");
    CHECK(classify(text, known)->writes.all);
    CHECK_FALSE(classify(text, known)->certain);
  }
  for (Bytes text : {"SELECT 1 = 1, 2 <> 3, 'a' || 'b', x->>'y' FROM t",
                     "SELECT 5::int, '1'::pg_catalog.text, x::numeric(10,2) FROM t",
                     "SELECT date '2026-01-01', 1 OPERATOR(pg_catalog.+) 1",
                     "SELECT '{}'::_int4, x::int[] FROM t"}) {
    INFO(text);
    CHECK(verdict(text, known) == "replica");
    CHECK_FALSE(classify(text, known)->may_hide_write);
  }
}

TEST_CASE("pitfall 22: a class is certain only when text and catalog leave no doubt") {
  CHECK(classify("SELECT * FROM t WHERE id = 1", catalog())->certain);
  CHECK(classify("SELECT lower(name) FROM users", catalog())->certain);
  CHECK(classify("SELECT 1", nullptr)->certain);
  CHECK_FALSE(classify("SELECT * FROM t", nullptr)->certain);
  CHECK_FALSE(classify("SELECT f_stable(1)", catalog())->certain);
  CHECK_FALSE(classify("SELECT * FROM sly", catalog())->certain);
}

TEST_CASE("pitfall 24: rules of the database line overrule volatility, in both directions") {
  FixedRandom random;
  Classifier classifier(random, 16);
  classifier.use_catalog(catalog());
  classifier.use_rules(
      {.replica = {"f_volatile", "report_*"}, .primary = {"f_stable", "app.audit"}});
  const auto route = [&](Bytes text) { return classifier.classify(text, {}); };
  CHECK(route("SELECT f_volatile(1)")->target == Target::replica);
  CHECK_FALSE(route("SELECT f_volatile(1)")->writes.all);
  CHECK(route("SELECT report_sales(1)")->target == Target::replica);
  CHECK(route("SELECT f_stable(1)")->target == Target::primary);
  CHECK(route("SELECT app.audit(1)")->target == Target::primary);
  CHECK(route("SELECT u.touch FROM users u")->target == Target::primary);
}

TEST_CASE("words of the grammar before a parenthesis are calls only if such a function exists") {
  auto known = catalog();
  CHECK(verdict("SELECT * FROM t AS x (a, b)", known) == "replica");
  CHECK(verdict("SELECT count(*) OVER (ORDER BY id) FROM t", known) == "replica");
  known->functions["over"] = Volatility::volatile_;
  CHECK(verdict("SELECT over(1)", known) == "primary_function");
  known->functions["x"] = Volatility::volatile_;
  CHECK(verdict("SELECT * FROM t AS x (a, b)", known) == "primary_function");
}
