#include "sql/hint.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using pgweir::sql::test::FixedRandom;

namespace {

std::shared_ptr<const StatementClass> classify(Bytes text) {
  FixedRandom random;
  return Classifier(random, 16).classify(text, {});
}
Hint target(Bytes comment) { return parse_hint(comment).target; }
bool named(Bytes comment) { return parse_hint(comment).named; }
/// "key=…;level=…", in order.
std::string read(Bytes text, Dialect dialect = {}) {
  const NamedHints hints = read_hints(text, dialect);
  std::string out;
  for (const std::string& key : hints.keys) out += "key=" + key + ";";
  for (const std::string& level : hints.levels) out += "level=" + level + ";";
  return out + (hints.cut ? "cut" : "");
}

}  // namespace

TEST_CASE("a hint is a comment that begins with pgweir:") {
  CHECK(target(" pgweir: primary ") == Hint::primary);
  CHECK(target("pgweir:replica") == Hint::replica);
  CHECK(target(" pgweir: key=user:42, replica") == Hint::replica);
  CHECK(target(" pgweir: replica primary") == Hint::primary);
  CHECK(target(" pgweir: PRIMARY") == Hint::primary);
  CHECK(target(" pgweir: level=primary replica") == Hint::primary);
  for (const char* none : {" see pgweir: primary", " pgweir primary", " pgweir: primaryX", " pgweir: xprimary", " pgweir:", "", " ", " pgweir: key=primary",
                           " pgweir: primary=1", "pgweir='primary", "pgweir=primary", "PGWEIR: primary"}) {
    INFO(none);
    CHECK(target(none) == Hint::none);
  }
}

TEST_CASE("a key or a level in a hint is seen, and no part of the class") {
  CHECK(named(" pgweir: key=a"));
  CHECK(named(" pgweir: level=session"));
  CHECK(named("pgweir: replica,KEY=a"));
  CHECK_FALSE(named(" pgweir: key= level="));
  CHECK_FALSE(named(" pgweir: key"));
  CHECK_FALSE(named(" pgweir: monkey=a sublevel=session"));
  CHECK_FALSE(named(" key=a"));
  FixedRandom random;
  Classifier classifier(random, 1000);
  const auto first = classifier.classify("SELECT a FROM t /* pgweir: key=user:0 */", {});
  CHECK(first->hint_named);
  CHECK(first->hint == Hint::none);
  for (int i = 1; i < 500; ++i) {
    CHECK(classifier.classify("SELECT a FROM t /* pgweir: key=user:" + std::to_string(i) + " */", {})->shape == first->shape);
  }
  CHECK(classifier.cached() == 1);
  const auto plain = classifier.classify("SELECT a FROM t", {});
  CHECK_FALSE(plain->hint_named);
  CHECK(plain->shape != first->shape);
  CHECK(classifier.classify("SELECT a FROM t /* pgweir: key=a replica */", {})->shape != first->shape);
  CHECK(classifier.classify("SELECT a FROM t /* pgweir: key=a */", {})->hint_named);
}

TEST_CASE("a tag of a sqlcommenter comment is a hint, url-encoded as they are") {
  CHECK(target("pgweir='primary'") == Hint::primary);
  CHECK(target("action='cart',pgweir='replica',traceparent='00-5b-01'") == Hint::replica);
  CHECK(target(" action='a' , pgweir='replica' ") == Hint::replica);
  CHECK(named("action='cart',pgweir='key%3Duser%3A42%20level%3Dsession'"));
  CHECK(read("SELECT 1 /*action='cart',pgweir='key%3Duser%3A42%20level%3Dsession'*/") == "key=user:42;level=session;");
  CHECK(read("SELECT 1 /*pgweir='key%3duser%3a42%2Creplica'*/") == "key=user:42;");
  CHECK(read("SELECT 1 /*pgweir='key%3Dit%27s'*/") == "key=it's;");
  CHECK(read("SELECT 1 /*pgweir='key%3Dit\\'s'*/") == "key=it's;");
  CHECK(read("SELECT 1 /*pgweir='key=a+b'*/") == "key=a+b;");
  // What another tag holds is its own.
  CHECK_FALSE(parse_hint("action='pgweir=\\'primary\\''").any());
  CHECK_FALSE(parse_hint("action='x\\',pgweir=\\'primary'").any());
  CHECK_FALSE(parse_hint("action='pgweir%3D%27primary%27'").any());
  CHECK_FALSE(parse_hint("apgweir='primary'").any());
  CHECK_FALSE(parse_hint("pgweir='unknown%20words'").any());
}

TEST_CASE("a hint that can't be read asks for the primary") {
  CHECK(target("pgweir='replica%2'") == Hint::primary);
  CHECK(target("pgweir='replica%zz'") == Hint::primary);
  CHECK(target("controller: x, pgweir='replica'") == Hint::primary);
  CHECK(target("pgweir='replica' action='x'") == Hint::primary);
  CHECK(target(" pgweir: replica /* primary */ ") == Hint::primary);
  CHECK(target(" pgweir: key=a /* level=eventual */ ") == Hint::primary);
  CHECK(target(" pgweir: replica" + std::string(2000, ' ')) == Hint::primary);
  CHECK(target(" pgweir: " + std::string(1010, 'x') + " key=user:4711") == Hint::primary);
  CHECK(target("pgweir='" + std::string(2000, 'x') + "'") == Hint::primary);
  CHECK(target("a='" + std::string(5000, 'x') + "',pgweir='replica'") == Hint::replica);
}

TEST_CASE("names are read from hints alone, each once") {
  CHECK(read("SELECT '/* pgweir: key=a */', $$/* pgweir: key=b */$$, \"/* pgweir: key=c */\" -- pgweir: key=d\n FROM t") == "");
  CHECK(read("SELECT 1 -- /* pgweir: key=a */") == "");
  CHECK(read("/* x /* pgweir: key=a */ */ SELECT 1") == "");
  CHECK(read("/* pgweir: key=a */ SELECT 1 /* pgweir: key=a level=table */ /* pgweir: key=b, level=latest */") == "key=a;key=b;level=table;level=latest;");
  CHECK(read("/* pgweir: key=\xff\xfe\x01 */ SELECT 1") == "key=\xff\xfe\x01;");
  std::string many = "SELECT 1";
  for (int i = 0; i < 100; ++i) many += " /* pgweir: key=" + std::to_string(i) + " */";
  const NamedHints hints = read_hints(many, {});
  CHECK(hints.keys.size() == NamedHints::kNamesMax);
  CHECK(hints.cut);
  // A byte that looks like a quote is part of a character here.
  CHECK(read("SELECT '\x95\x5c' /* pgweir: key=a */", {.standard_conforming_strings = false, .encoding = Encoding::sjis}) == "key=a;");
}

TEST_CASE("no hint makes a write a read") {
  for (const char* hint : {"/* pgweir: replica */", "/* pgweir: level=eventual replica */", "/*pgweir='replica'*/", "/* pgweir: key=a */"}) {
    INFO(hint);
    for (const char* sql : {"DELETE FROM t ", "SELECT nextval('s') ", "SELECT 1 FOR UPDATE ", "BEGIN ", "SELECT 1; DELETE FROM t "}) {
      CHECK(classify(std::string(sql) + hint)->target == Target::primary);
      CHECK(classify(hint + std::string(sql))->target == Target::primary);
    }
  }
}
