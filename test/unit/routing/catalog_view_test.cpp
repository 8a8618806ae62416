#include "routing/catalog_view.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "catalog_rows.h"

namespace pgweir::routing {
namespace {

using sql::Cause;
using sql::Effects;
using test::Schema;
namespace use = sql::use;

/// What a statement that uses a relation or calls a function comes to.
struct Found : Effects {
  bool known = false;
  bool reads_table(Bytes name) const { return reads.all || has(reads.keys, sql::table_key(name)); }
  bool writes_table(Bytes name) const {
    return writes.all || has(writes.keys, sql::table_key(name));
  }
  static bool has(const std::vector<sql::TableKey>& keys, sql::TableKey key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }
};

Found relation(const CatalogView& view, Bytes name, sql::Uses uses, Bytes schema = {}) {
  Found found;
  found.known = view.relation(schema, name, uses, found);
  return found;
}
Found read(const CatalogView& view, Bytes name) { return relation(view, name, use::kRead); }
Found call(const CatalogView& view, Bytes name, int arguments = -1, Bytes schema = {}) {
  Found found;
  found.known = view.function(schema, name, arguments, found);
  return found;
}
/// A commit of the first marks something that the second needs.
bool meet(const Found& written, const Found& reader) {
  if (written.writes.all || reader.reads.all) return true;
  return std::any_of(written.writes.keys.begin(), written.writes.keys.end(),
                     [&](sql::TableKey key) { return Found::has(reader.reads.keys, key); });
}

TEST_CASE("a relation is found with and without its schema", "[routing]") {
  Schema schema;
  schema.table("users").relation("log", "ru", "audit");
  const auto view = schema.built();
  CHECK(read(*view, "users").known);
  CHECK(read(*view, "users").cause == Cause::none);
  CHECK(relation(*view, "users", use::kRead, "public").known);
  CHECK_FALSE(relation(*view, "users", use::kRead, "audit").known);
  CHECK(relation(*view, "log", use::kRead, "audit").cause == Cause::unlogged);
  CHECK_FALSE(read(*view, "nothing").known);
  CHECK(view->relations() == 2);
  CHECK(view->generation() == 3);
}

TEST_CASE("an unqualified name means the union of what it could mean", "[routing]") {
  Schema schema;
  schema.relation("t", "rp", "a").relation("t", "ru", "b").table("log");
  schema.function("trg", "fv0plpgsql", "BEGIN INSERT INTO log VALUES (1); END");
  schema.edge("r", "a.t", use::kInsert, "f", "trg", use::kCall);
  const auto view = schema.built();
  CHECK(read(*view, "t").cause == Cause::unlogged);
  CHECK(relation(*view, "t", use::kRead, "a").cause == Cause::none);
  CHECK(relation(*view, "t", use::kInsert, "a").writes_table("log"));
  CHECK_FALSE(relation(*view, "t", use::kInsert, "b").writes_table("log"));
  CHECK(relation(*view, "t", use::kInsert).writes_table("log"));
}

TEST_CASE("a function is the worst of all that the call could mean", "[routing]") {
  Schema schema;
  schema.function("f", "fs0sql", "SELECT 1", "1:2").function("f", "fv0sql", "SELECT 1", "3:3");
  schema.function("f", "fi0c", "lib", "1:1", "other")
      .function("many", "fi0sql", "SELECT 1", "0:32767");
  const auto view = schema.built();
  CHECK(call(*view, "f", 1).cause == Cause::none);
  CHECK(call(*view, "f", 2).cause == Cause::none);
  CHECK(call(*view, "f", 3).cause == Cause::primary_function);
  CHECK(call(*view, "f").cause == Cause::primary_function);
  CHECK_FALSE(call(*view, "f", 4).known);
  CHECK(call(*view, "f", 1, "other").known);
  CHECK(call(*view, "many", 500).known);
  CHECK_FALSE(call(*view, "g", 0).known);
  CHECK(view->functions() == 4);
}

TEST_CASE("a body that can be read tells what a function reads and writes", "[routing]") {
  Schema schema;
  schema.table("orders").table("log");
  schema.function("reads", "fs0sql", "SELECT count(*) FROM orders WHERE user_id = uid");
  schema.function("reads_more", "fs0sql", "SELECT reads(1)", "0:0");
  schema.function("writes", "fv0plpgsql", "BEGIN INSERT INTO log VALUES (1); END");
  schema.function("forgotten", "fv0sql", "SELECT 1");
  const auto view = schema.built();
  for (Bytes name : {"reads", "reads_more"}) {
    const Found found = call(*view, name);
    CHECK(found.cause == Cause::none);
    CHECK(found.certain);
    CHECK_FALSE(found.reads.all);
    CHECK(found.reads_table("orders"));
    CHECK_FALSE(found.reads_table("log"));
    CHECK(found.writes.empty());
  }
  CHECK(call(*view, "writes").cause == Cause::primary_function);
  CHECK_FALSE(call(*view, "writes").writes.all);
  CHECK(call(*view, "writes").writes_table("log"));
  CHECK(call(*view, "forgotten").cause == Cause::primary_function);  // As it is declared.
  CHECK(call(*view, "forgotten").writes.empty());
}

TEST_CASE("a body that can't be read may do anything, or read anything when it is declared so",
          "[routing]") {
  Schema schema;
  schema.function("c_volatile", "fv0c", "lib")
      .function("c_stable", "fs0c", "lib")
      .function("c_immutable", "fi0c", "lib");
  schema.function("python", "fi0plpython3u").function("odd", "fs0plpgsql", "BEGIN FOR x");
  schema.function("uuid", "fv0c", "$libdir/uuid-ossp");
  const auto view = schema.built();
  CHECK(call(*view, "c_volatile").cause == Cause::primary_function);
  CHECK(call(*view, "c_volatile").writes.all);
  CHECK(call(*view, "c_volatile").reads.all);
  for (Bytes name : {"c_stable", "python", "odd"}) {
    INFO(name);
    const Found found = call(*view, name);
    CHECK(found.cause == Cause::none);
    CHECK(found.reads.all);
    CHECK(found.writes.empty());
    CHECK_FALSE(found.certain);
  }
  for (Bytes name : {"c_immutable", "uuid"}) {
    INFO(name);
    const Found found = call(*view, name);
    CHECK(found.cause == Cause::none);
    CHECK_FALSE(found.reads.all);
    CHECK(found.certain);
  }
}

TEST_CASE("a function that is declared STABLE counts by what it does", "[routing]") {
  Schema schema;
  schema.table("log").table("t");
  schema.function("write_log", "fv0sql", "INSERT INTO log VALUES (1)", "0:0");
  schema.function("only_reads", "fv0plpgsql", "BEGIN RETURN (SELECT max(a) FROM t); END", "0:0");
  schema.function("unreadable", "fv0c", "lib", "0:0");
  schema.function("liar", "fs0plpgsql", "BEGIN RETURN write_log(); END", "0:0");
  schema.function("deep_liar", "fi0sql", "SELECT liar()", "0:0");
  schema.function("sequence_liar", "fs0sql", "SELECT nextval('s')", "0:0");
  schema.function("dynamic", "fs0plpgsql", "BEGIN EXECUTE q INTO n; RETURN n; END", "0:0");
  schema.function("calls_c", "fs0sql", "SELECT unreadable()", "0:0");
  schema.function("unknown", "fs0sql", "SELECT nobody_knows()", "0:0");
  schema.function("fine", "fs0sql", "SELECT only_reads() + random()", "0:0");
  schema.function("asks_server", "fs0sql", "SELECT pg_is_in_recovery()", "0:0");
  const auto view = schema.built();
  for (Bytes name : {"liar", "deep_liar", "sequence_liar", "dynamic", "calls_c", "unknown"}) {
    INFO(name);
    CHECK(call(*view, name).cause == Cause::primary_function);
  }
  CHECK(call(*view, "asks_server").cause == Cause::server_view);
  for (Bytes name : {"liar", "deep_liar"}) {
    CHECK(call(*view, name).writes_table("log"));
    CHECK_FALSE(call(*view, name).writes.all);
  }
  for (Bytes name : {"dynamic", "calls_c", "unknown"}) CHECK(call(*view, name).writes.all);
  CHECK(call(*view, "fine").cause == Cause::none);
  CHECK(call(*view, "fine").certain);
  CHECK(call(*view, "fine").reads_table("t"));
}

TEST_CASE("functions that call each other in a circle are followed once", "[routing]") {
  Schema schema;
  schema.table("a").table("b");
  schema.function("f", "fs0sql", "SELECT g() FROM a", "0:0")
      .function("g", "fs0sql", "SELECT f() FROM b", "0:0");
  const auto view = schema.built();
  CHECK(call(*view, "f").reads_table("a"));
  CHECK(call(*view, "f").reads_table("b"));
  CHECK(call(*view, "f").cause == Cause::none);
}

TEST_CASE("a view stands for what it reads and calls, through views below it", "[routing]") {
  Schema schema;
  schema.table("users")
      .table("quiet")
      .relation("cache", "ru")
      .relation("v", "vp")
      .relation("nested", "vp");
  schema.relation("sly", "vp")
      .relation("hot", "vp")
      .relation("locked", "vp")
      .relation("activity", "vp");
  schema.relation("pg_stat_activity", "vp", "pg_catalog")
      .relation("pg_class", "rp", "pg_catalog")
      .relation("names", "vp");
  schema.function("f", "fv0sql", "SELECT 1", "0:0");
  schema.edge("r", "v", use::kRead, "r", "users", use::kRead);
  schema.edge("r", "nested", use::kRead, "r", "v", use::kRead);
  schema.edge("r", "sly", use::kRead, "f", "f", use::kCall);
  schema.edge("r", "hot", use::kRead, "r", "cache", use::kRead);
  schema.edge("r", "activity", use::kRead, "r", "pg_catalog.pg_stat_activity", use::kRead);
  schema.edge("r", "names", use::kRead, "r", "pg_catalog.pg_class", use::kRead);
  schema.row("l", "locked");
  const auto view = schema.built();
  CHECK(read(*view, "nested").reads_table("users"));
  CHECK_FALSE(read(*view, "nested").reads_table("quiet"));
  CHECK(read(*view, "nested").cause == Cause::none);
  CHECK(read(*view, "nested").certain);
  CHECK(read(*view, "sly").cause == Cause::primary_function);
  CHECK(read(*view, "hot").cause == Cause::unlogged);
  CHECK(read(*view, "locked").cause == Cause::write);
  CHECK(read(*view, "activity").cause == Cause::server_view);
  CHECK(read(*view, "names").cause == Cause::none);
  CHECK(read(*view, "names").reads_table("pg_catalog"));
  CHECK(relation(*view, "v", use::kRead | use::kCopyOut).cause == Cause::unparsed);
  CHECK(relation(*view, "users", use::kRead | use::kCopyOut).cause == Cause::none);
}

TEST_CASE("triggers, rules and cascades write what they write, when they do", "[routing]") {
  Schema schema;
  for (const char* name : {"users", "orders", "items", "log", "copy"}) schema.table(name);
  schema.function("audit", "fv0plpgsql", "BEGIN INSERT INTO log VALUES (1); RETURN NULL; END",
                  "0:0");
  schema.edge("r", "orders", use::kInsert | use::kUpdate | use::kDelete, "f", "audit", use::kCall);
  schema.edge("r", "users", use::kDelete, "r", "orders", use::kDelete);
  schema.edge("r", "orders", use::kDelete, "r", "items", use::kDelete);
  schema.edge("r", "users", use::kTruncateCascade, "r", "orders",
              use::kTruncate | use::kTruncateCascade);
  schema.edge("r", "copy", use::kInsert, "r", "log", use::kInsert);
  const auto view = schema.built();
  const Found deleted = relation(*view, "users", use::kDelete);
  for (Bytes name : {"users", "orders", "items", "log"}) CHECK(deleted.writes_table(name));
  CHECK_FALSE(deleted.writes.all);
  const Found inserted = relation(*view, "users", use::kInsert);
  CHECK(inserted.writes.keys == std::vector<sql::TableKey>{sql::table_key("users")});
  CHECK(relation(*view, "orders", use::kUpdate).writes_table("log"));
  CHECK_FALSE(relation(*view, "orders", use::kTruncate).writes_table("log"));
  CHECK(relation(*view, "users", use::kTruncate | use::kTruncateCascade).writes_table("orders"));
  CHECK_FALSE(relation(*view, "users", use::kTruncate).writes_table("orders"));
  CHECK(relation(*view, "copy", use::kInsert).writes_table("log"));
}

TEST_CASE("a write through a trigger that can't be read is a write of all tables", "[routing]") {
  Schema schema;
  schema.table("t").function("trg", "fv0c", "lib", "0:0");
  schema.edge("r", "t", use::kInsert, "f", "trg", use::kCall);
  const auto view = schema.built();
  CHECK(relation(*view, "t", use::kInsert).writes.all);
  CHECK_FALSE(relation(*view, "t", use::kDelete).writes.all);
}

TEST_CASE("a rule that does something INSTEAD keeps the write from the relation itself",
          "[routing]") {
  Schema schema;
  schema.table("frozen").row("n", "frozen", "4");
  const auto view = schema.built();
  CHECK(relation(*view, "frozen", use::kUpdate).writes.empty());
  CHECK(relation(*view, "frozen", use::kInsert).writes_table("frozen"));
}

TEST_CASE("a write to a partition is seen by readers of its tree, not by those of its siblings",
          "[routing]") {
  Schema schema;
  schema.relation("root", "pp")
      .relation("middle", "pp")
      .table("leaf")
      .table("sibling")
      .table("other");
  schema.child("middle", "root").child("leaf", "middle").child("sibling", "root");
  const auto view = schema.built();
  const Found leaf = relation(*view, "leaf", use::kInsert);
  CHECK(meet(leaf, read(*view, "leaf")));
  CHECK(meet(leaf, read(*view, "middle")));
  CHECK(meet(leaf, read(*view, "root")));
  CHECK_FALSE(meet(leaf, read(*view, "sibling")));
  CHECK_FALSE(meet(leaf, read(*view, "other")));
  const Found root = relation(*view, "root", use::kUpdate);
  for (Bytes name : {"root", "middle", "leaf", "sibling"}) CHECK(meet(root, read(*view, name)));
  CHECK_FALSE(meet(root, read(*view, "other")));
  const Found middle = relation(*view, "middle", use::kDelete);
  CHECK(meet(middle, read(*view, "leaf")));
  CHECK(meet(middle, read(*view, "root")));
  CHECK_FALSE(meet(middle, read(*view, "sibling")));
}

TEST_CASE("partitions with triggers, and ones that no standby has, count for those above",
          "[routing]") {
  Schema schema;
  schema.relation("root", "pp")
      .table("plain")
      .table("triggered")
      .table("log")
      .relation("away", "fp")
      .relation("far", "pp");
  schema.child("plain", "root").child("triggered", "root").child("away", "far");
  schema.function("audit", "fv0plpgsql", "BEGIN INSERT INTO log VALUES (1); END", "0:0");
  schema.edge("r", "triggered", use::kDelete, "f", "audit", use::kCall);
  const auto view = schema.built();
  CHECK(relation(*view, "root", use::kDelete).writes_table("log"));
  CHECK(relation(*view, "root", use::kUpdate).writes_table("log"));  // A row that moves is deleted.
  CHECK_FALSE(relation(*view, "root", use::kInsert).writes_table("log"));
  CHECK(read(*view, "root").cause == Cause::none);
  CHECK(read(*view, "far").cause == Cause::unlogged);
  CHECK(relation(*view, "far", use::kInsert).writes.all);
}

TEST_CASE("a tree of ten thousand partitions costs its readers a key or two", "[routing]") {
  Schema schema;
  schema.relation("root", "pp");
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "p" + std::to_string(i);
    schema.table(name.c_str()).child(name.c_str(), "root");
  }
  const auto view = schema.built();
  CHECK(read(*view, "root").reads.keys.size() == 2);
  CHECK(read(*view, "p77").reads.keys.size() == 2);
  CHECK(relation(*view, "p77", use::kInsert).writes.keys.size() == 2);
}

TEST_CASE("REFRESH writes the view, reads its query, and fires event triggers", "[routing]") {
  Schema schema;
  schema.table("orders").table("log").relation("mv", "mp");
  schema.edge("r", "mv", use::kRefresh, "r", "orders", use::kRead);
  const auto quiet = schema.built();
  CHECK(relation(*quiet, "mv", use::kRefresh).writes_table("mv"));
  CHECK_FALSE(relation(*quiet, "mv", use::kRefresh).writes.all);
  CHECK(relation(*quiet, "mv", use::kRefresh).reads_table("orders"));
  CHECK_FALSE(read(*quiet, "mv").reads_table("orders"));
  schema.function("on_ddl", "fv0plpgsql", "BEGIN INSERT INTO log VALUES (1); END", "0:0")
      .row("x", "on_ddl", nullptr, "f");
  CHECK(relation(*schema.built(), "mv", use::kRefresh).writes_table("log"));
}

TEST_CASE("operators, types and column notation lead to their functions", "[routing]") {
  Schema schema;
  schema.table("log")
      .function("logs", "fv1sql", "INSERT INTO log VALUES (1)", "1:1")
      .function("plain", "fv0sql", "SELECT 1", "1:1");
  schema.operation("===").type("tag").type("outer_tag");
  schema.edge("o", "===", use::kCall, "f", "logs", use::kCall);
  schema.edge("t", "tag", use::kCall, "f", "logs", use::kCall)
      .edge("t", "outer_tag", use::kCall, "t", "tag", use::kCall);
  schema.function("uses_operator", "fs0sql", "SELECT 1 === 2", "0:0")
      .function("uses_type", "fs0plpgsql", "DECLARE x tag := 1; BEGIN END", "0:0");
  const auto view = schema.built();
  Found found;
  view->operation("===", found);
  CHECK(found.writes_table("log"));
  CHECK(found.cause == Cause::primary_function);
  found = {};
  view->type("", "outer_tag", found);
  CHECK(found.writes_table("log"));
  found = {};
  view->column("logs", found);
  CHECK(found.writes_table("log"));
  found = {};
  view->column("plain", found);
  view->operation("+", found);
  view->type("", "users", found);
  CHECK(found.cause == Cause::none);
  CHECK(call(*view, "uses_operator").writes_table("log"));
  CHECK(call(*view, "uses_type").writes_table("log"));
}

TEST_CASE("pitfall 24: what the rules allow on replicas writes nothing, also below a view",
          "[routing]") {
  Schema schema;
  schema.table("t").relation("v", "vp").function("f", "fv0c", "lib", "0:0");
  schema.function("g", "fv0plpgsql", "BEGIN EXECUTE q; END", "0:0")
      .edge("r", "v", use::kRead, "f", "f", use::kCall);
  const auto view = schema.built();
  sql::FunctionRules rules{.replica = {"f", "public.g"}, .primary = {}};
  for (int i = 0; i < 3; ++i) {
    Found found;
    found.rules = &rules;
    if (i == 0) view->function("", "f", 0, found);
    if (i == 1) view->function("", "g", 0, found);
    if (i == 2) view->relation("", "v", use::kRead, found);
    CHECK(found.cause == Cause::none);
    CHECK(found.writes.empty());
    CHECK(found.reads.all);
  }
  rules = {.replica = {}, .primary = {"harmless"}};
  schema.function("harmless", "fs0sql", "SELECT 1", "0:0");
  Found found;
  found.rules = &rules;
  schema.built()->function("", "harmless", 0, found);
  CHECK(found.cause == Cause::primary_function);
}

TEST_CASE("an explanation names what is behind a name and what led to the cause", "[routing]") {
  Schema schema;
  schema.table("users").table("log").relation("v", "vp").relation("outer_view", "vp");
  schema.function("f", "fv0sql", "INSERT INTO log VALUES (1)", "0:0");
  schema.edge("r", "outer_view", use::kRead, "r", "v", use::kRead)
      .edge("r", "v", use::kRead, "f", "f", use::kCall);
  schema.edge("r", "v", use::kRead, "r", "users", use::kRead);
  const auto view = schema.built();
  sql::Trace trace;
  Found found;
  found.trace = &trace;
  view->relation("", "outer_view", use::kRead, found);
  CHECK(trace.chain == "view outer_view → view v → function f, VOLATILE");
  CHECK(trace.reads.size() == 3);
  REQUIRE(trace.writes.size() == 1);
  CHECK(trace.writes[0].name == "log");
}

TEST_CASE("keys have names again", "[routing]") {
  Schema schema;
  schema.relation("t", "rp", "a").relation("t", "rp", "b").relation("root", "pp").table("leaf");
  schema.child("leaf", "root");
  const sql::TableKey root = sql::table_key("root");
  CHECK(schema.built()->names_of({sql::table_key("t"), root, sql::tree_key(root), 77}) ==
        std::vector<std::string>{"a.t, b.t", "public.root", "below public.root", ""});
}

TEST_CASE("hidden casts and serializable roles are told", "[routing]") {
  CHECK_FALSE(Schema().built()->hides_writes());
  CHECK_FALSE(Schema().built()->serializable("app"));
  Schema schema;
  schema.function("to_tag", "fv0c", "lib").row("c", "to_tag", nullptr, "f").role("app");
  CHECK(schema.built()->hides_writes());
  CHECK(schema.built()->serializable("app"));
  CHECK_FALSE(schema.built()->serializable("other"));
  Schema harmless;
  harmless.function("to_tag", "fi0sql", "SELECT 1").row("c", "to_tag", nullptr, "f");
  CHECK_FALSE(harmless.built()->hides_writes());
  Schema all;
  all.role(nullptr);
  CHECK(all.built()->serializable("anybody"));
}

TEST_CASE("roles that are not READ COMMITTED by default are told", "[routing]") {
  Schema schema;
  schema.role("strict").role("steady", "repeatable read");
  CHECK(schema.built()->read_committed("app"));
  CHECK_FALSE(schema.built()->read_committed("strict"));
  CHECK_FALSE(schema.built()->read_committed("steady"));
  CHECK_FALSE(schema.built()->serializable("steady"));
  Schema all;
  all.role(nullptr, "repeatable read");
  CHECK_FALSE(all.built()->read_committed("anybody"));
  CHECK_FALSE(all.built()->serializable("anybody"));
}

TEST_CASE("what stands on a view or a function is told from plain tables", "[routing]") {
  Schema schema;
  schema.table("t").table("leaf").relation("root", "pp").relation("v", "vp").edge("r", "v", 1, "r", "t", 1);
  schema.child("leaf", "root").function("f", "fs0sql", "SELECT n FROM t");
  const auto uses_code = [&](const char* relation) {
    sql::Effects effects;
    REQUIRE(schema.built()->relation("", relation, sql::use::kRead, effects));
    return effects.uses_code;
  };
  CHECK_FALSE(uses_code("t"));
  CHECK_FALSE(uses_code("root"));
  CHECK(uses_code("v"));
  sql::Effects effects;
  REQUIRE(schema.built()->function("", "f", 0, effects));
  CHECK(effects.uses_code);
}

TEST_CASE(
    "pitfall 13: while DDL may be unseen, functions and views are unknown and every write marks "
    "all",
    "[routing]") {
  Schema schema;
  schema.table("t").table("guarded").relation("v", "vp").function("f", "fs0sql", "SELECT 1", "0:0");
  schema.function("volatile_f", "fv0sql", "SELECT 1", "0:0")
      .edge("r", "guarded", use::kRead, "f", "volatile_f", use::kCall);
  const DoubtfulCatalog doubtful(schema.built());
  Found found;
  CHECK(doubtful.relation("", "t", use::kRead, found));
  CHECK(found.cause == Cause::none);
  CHECK_FALSE(found.reads.all);
  CHECK(doubtful.relation("", "t", use::kInsert, found));
  CHECK(found.writes.all);
  found = {};
  CHECK_FALSE(doubtful.relation("", "v", use::kRead, found));
  CHECK_FALSE(doubtful.relation("", "w", use::kRead, found));
  CHECK_FALSE(doubtful.relation("", "guarded", use::kRead, found));
  CHECK_FALSE(doubtful.function("", "f", 0, found));
  CHECK(doubtful.hides_writes());
}

TEST_CASE("rows that don't come from the catalog query are refused", "[routing]") {
  const auto refuses = [](CatalogRow row) { return !build_catalog({std::move(row)}, 1); };
  CHECK(refuses({"r"}));
  CHECK(refuses({"z", "1", "a", "b", "rp", std::nullopt, std::nullopt}));
  CHECK(refuses({"r", "x", "a", "b", "rp", std::nullopt, std::nullopt}));
  CHECK(refuses({"r", "1", "a", "b", "many", std::nullopt, std::nullopt}));
  CHECK(refuses({"f", "1", "a", "b", "qv0sql", "0:0", ""}));
  CHECK(refuses({"f", "1", "a", "b", "fv0sql", "0", ""}));
  CHECK(refuses({"d", "1", "r", "x", "1", "r", "1"}));
  CHECK(refuses({std::nullopt, "1", "a", "b", "rp", std::nullopt, std::nullopt}));
}

}  // namespace
}  // namespace pgweir::routing
