#include "tools/classify.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

using namespace pgweir;
using namespace pgweir::tools;

namespace {

class KnowsOneFunction final : public sql::Catalog {
 public:
  bool relation(Bytes, Bytes, sql::Uses, sql::Effects&) const override { return false; }
  bool function(Bytes, Bytes name, int, sql::Effects&) const override { return name == "mine"; }
  void column(Bytes, sql::Effects&) const override {}
  void operation(Bytes, sql::Effects&) const override {}
  void type(Bytes, Bytes, sql::Effects&) const override {}
  bool hides_writes() const noexcept override { return false; }
};

class OneDatabase final : public CatalogLoader {
 public:
  Result<std::shared_ptr<const sql::Catalog>> load(std::string_view url) override {
    if (url != "postgresql://here") return Error("no server there");
    return std::shared_ptr<const sql::Catalog>(std::make_shared<KnowsOneFunction>());
  }
};

struct Run {
  int code;
  std::string out;
  std::string err;
};
Run run(std::vector<std::string_view> args, const std::string& input,
        CatalogLoader* loader = nullptr) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const int code = classify_main(args, in, out, err, loader);
  return {code, out.str(), err.str()};
}
bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a script gives one line for each statement") {
  const Run result =
      run({}, "SELECT lower(name) FROM app.users WHERE id = 1;\n-- twice\nDELETE FROM \"T\";\n");
  CHECK(result.code == 0);
  CHECK(lines_in(result.out) == 2);
  CHECK(contains(
      result.out,
      R"({"sql":"SELECT lower(name) FROM app.users WHERE id = 1","route":"replica","reason":"read","class":"read","shape":")"));
  CHECK(contains(result.out,
                 R"(","tables_read":["app.users"],"tables_written":[],"functions":["lower"],"because":""})"));
  CHECK(contains(
      result.out,
      R"("sql":"-- twice\nDELETE FROM \"T\"","route":"primary","reason":"write","class":"write")"));
  CHECK(contains(result.out, R"("tables_written":["T"])"));
}

TEST_CASE("texts of one shape show one shape, in every run") {
  const auto shape = [](const std::string& out) { return out.substr(out.find("\"shape\":"), 42); };
  CHECK(shape(run({}, "SELECT 1").out) == shape(run({}, "select 2 -- x").out));
  CHECK(shape(run({}, "SELECT 1").out) != shape(run({}, "SELECT a").out));
}

TEST_CASE("with --jsonl each line is a message of its own") {
  const Run result =
      run({"--jsonl"},
          "{\"id\": 1, \"sql\": \"SELECT 1; DELETE FROM t\"}\n\n{\"sql\": \"SELECT ';'\"}\n");
  CHECK(result.code == 0);
  CHECK(lines_in(result.out) == 2);
  CHECK(contains(result.out, R"("sql":"SELECT 1; DELETE FROM t","route":"primary")"));
}

TEST_CASE("a bad line is named, and the others are still answered") {
  const Run result =
      run({"--jsonl"}, "{\"sql\": \"SELECT 1\"}\nnot json\n{\"id\": 1}\n{\"sql\": \"SELECT 2\"}\n");
  CHECK(result.code == 1);
  CHECK(lines_in(result.out) == 2);
  CHECK(contains(result.err, "-:2: byte 1: expected an object"));
  CHECK(contains(result.err, "-:3: the object has no field \"sql\""));
}

TEST_CASE("a hint for the primary is followed, one for a replica only where a replica may answer") {
  CHECK(contains(run({}, "/* pgweir: primary */ SELECT 1").out,
                 R"("route":"primary","reason":"hint")"));
  CHECK(contains(run({}, "/* pgweir: replica */ DELETE FROM t").out,
                 R"("route":"primary","reason":"write")"));
}

TEST_CASE("the rule that decided is told, without a catalog too") {
  const auto because = [](const std::string& sql) {
    const std::string out = run({}, sql).out;
    const std::size_t at = out.rfind("\"because\":\"") + 11;
    return out.substr(at, out.rfind('"') - at);
  };
  CHECK(because("SELECT 1") == "");
  CHECK(because("INSERT INTO s.t VALUES (1)") == "writes s.t");
  CHECK(because("WITH d AS (DELETE FROM t RETURNING 1) SELECT * FROM d") == "writes t");
  CHECK(because("SELECT a INTO b FROM c") == "writes b");
  CHECK(because("SELECT * FROM t FOR KEY SHARE") == "locks rows: FOR UPDATE, FOR SHARE and their like");
  CHECK(because("create table t (a int)") == "writes t");
  CHECK(because("NOTIFY c") == "NOTIFY");
  CHECK(because("CALL p()") == "CALL");
  CHECK(because("SET work_mem = '1MB'") == "SET");
  CHECK(because("SAVEPOINT s") == "SAVEPOINT");
  CHECK(because("SHOW work_mem") == "SHOW describes the server that is asked");
  CHECK(because("SELECT * FROM pg_locks") == "view pg_locks, describes the server that is asked");
  CHECK(because("SELECT * FROM pg_temp.t") == "pg_temp is the session's");
  CHECK(because("SELECT 'open") == "not understood");
  CHECK(because("FLY TO the moon") == "not understood");
  CHECK(because("SELECT mine()") == "function mine is not built in");
  CHECK(because("SELECT nextval('s')") == "function nextval, uses a sequence");
  CHECK(because("SELECT pg_advisory_lock(1)") == "function pg_advisory_lock, belongs to the session's server");
  CHECK(because("SELECT txid_current()") == "function txid_current, needs a transaction number, which no standby gives");
  CHECK(because("SELECT query_to_xml('SELECT 1', false, false, '')") == "function query_to_xml, runs what a text says");
  CHECK(because("COPY t TO STDOUT") == "t may be a view, which COPY refuses");
  // The weightiest rule of the statement that decides.
  CHECK(because("INSERT INTO t SELECT mine() FROM pg_locks") == "writes t");
  CHECK(because("SELECT mine() FROM pg_locks") == "function mine is not built in");
}

TEST_CASE("a function is unknown without a catalog, and known with one") {
  OneDatabase loader;
  CHECK(contains(run({}, "SELECT mine()").out, R"("reason":"primary_function")"));
  CHECK(contains(run({"--catalog", "postgresql://here"}, "SELECT mine()", &loader).out,
                 R"("route":"replica")"));
  CHECK(contains(run({"--catalog=postgresql://here"}, "SELECT mine()", &loader).out,
                 R"("route":"replica")"));
  const Run failed = run({"--catalog", "postgresql://gone"}, "SELECT 1", &loader);
  CHECK(failed.code == 1);
  CHECK(failed.err == "pgweir classify: --catalog: no server there\n");
  CHECK(failed.out.empty());
}

TEST_CASE("strings are read as the option says") {
  const std::string script = "SELECT 'a\\'; DELETE FROM t; --'";
  CHECK(lines_in(run({}, script).out) == 2);
  CHECK(lines_in(run({"--no-standard-conforming-strings"}, script).out) == 1);
}

TEST_CASE("a wrong command line explains itself") {
  CHECK(run({"--what"}, "").code == 2);
  CHECK(contains(run({"--what"}, "").err, "unknown option \"--what\""));
  CHECK(run({"a", "b"}, "").code == 2);
  CHECK(run({"--catalog"}, "").code == 2);
  CHECK(run({"/no/such/file"}, "").code == 1);
  CHECK(contains(run({"/no/such/file"}, "").err, "can't read file \"/no/such/file\""));
  CHECK(run({"--help"}, "").code == 0);
}
