#include "sql/classifier.h"

#include <catch2/catch.hpp>

#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

Shape shape(Bytes text, Dialect dialect = {}) { return classify(text, nullptr, dialect)->shape; }

}  // namespace

TEST_CASE("texts that differ in literals, comments and white space share a shape") {
  CHECK(shape("SELECT * FROM t WHERE id = 1") ==
        shape("select  *\nfrom T /* x */ where ID=2 -- y"));
  CHECK(shape("SELECT 'a'") == shape("SELECT E'b\\'c'"));
  CHECK(shape("SELECT 'a'") == shape("SELECT $$b$$"));
  CHECK(shape("SELECT $1") == shape("SELECT $2"));
  CHECK(shape("SELECT * FROM t WHERE id IN (1, 2, 3)") == shape("SELECT * FROM t WHERE id IN (4)"));
  CHECK(shape("SELECT * FROM t WHERE id IN ($1, $2)") == shape("SELECT * FROM t WHERE id IN ($1)"));
}

TEST_CASE("texts that differ in anything else have another shape") {
  const Bytes texts[] = {"SELECT a FROM t",
                         "SELECT b FROM t",
                         "SELECT a FROM u",
                         "SELECT ab FROM t",
                         "SELECT a, b FROM t",
                         "SELECT a b FROM t",
                         "SELECT \"a\" FROM t",
                         "SELECT 1 FROM t",
                         "SELECT 'x' FROM t",
                         "SELECT $1 FROM t",
                         "SELECT f(1) FROM t",
                         "SELECT f(1, 2) FROM t",
                         "SELECT f(1, 2, 3) FROM t",
                         "SELECT a FROM t FOR UPDATE",
                         "SELECT a FROM t; SELECT a FROM t",
                         "SELECT a.b FROM t",
                         "SELECT a + b FROM t",
                         "SELECT a - b FROM t",
                         "SELECT x.in(1) FROM t",
                         "SELECT x.in(1, 2) FROM t",
                         "SELECT a FROM t WHERE a IN (1, (2))",
                         "SELECT a FROM t WHERE a IN (1)",
                         "SELECT a FROM t WHERE a IN (1, b)",
                         "SELECT a FROM t WHERE a IN (1, 2, f(1))",
                         "SELECT a FROM t WHERE a IN (1, 2, f(1, 2))",
                         "SELECT abcdefghijklmn FROM t",
                         "SELECT abcdefg, hijklmn FROM t",
                         "SELECT abcdefg hijklmn FROM t",
                         "/* pgweir: primary */ SELECT a FROM t",
                         "/* pgweir: replica */ SELECT a FROM t",
                         "",
                         ";"};
  for (Bytes a : texts) {
    for (Bytes b : texts) {
      if (a == b) continue;
      INFO(a << " | " << b);
      CHECK(shape(a) != shape(b));
    }
  }
  CHECK(shape("SELECT a", {}) != shape("SELECT a", {.standard_conforming_strings = false}));
}

TEST_CASE("the shape depends on the secret") {
  FixedRandom one(1);
  FixedRandom two(2);
  Classifier first(one, 4);
  Classifier second(two, 4);
  CHECK(first.classify("SELECT 1", {})->shape != second.classify("SELECT 1", {})->shape);
}

TEST_CASE("a known shape is answered with the same class object") {
  FixedRandom random;
  Classifier classifier(random, 16);
  const auto first = classifier.classify("SELECT * FROM t WHERE id = 1", {});
  CHECK(classifier.classify("SELECT * FROM t WHERE id = 22", {}) == first);
  CHECK(classifier.cached() == 1);
}

TEST_CASE("the cache never outgrows its bound, and still answers right") {
  for (std::size_t bound : {1U, 2U, 3U, 7U, 64U}) {
    FixedRandom random;
    Classifier classifier(random, bound);
    for (int i = 0; i < 500; ++i) {
      const std::string name = "t" + std::to_string(i % 90);
      CHECK(listed(classifier.classify("SELECT * FROM " + name, {})->tables_read) == name);
      CHECK(classifier.cached() <= bound);
    }
  }
}

TEST_CASE("a new catalog or new rules forget what was cached") {
  FixedRandom random;
  Classifier classifier(random, 16);
  CHECK(classifier.classify("SELECT f(1)", {})->target == Target::primary);
  auto catalog = std::make_shared<HandCatalog>();
  catalog->functions["f"] = Volatility::stable;
  classifier.use_catalog(catalog);
  CHECK(classifier.cached() == 0);
  CHECK(classifier.classify("SELECT f(1)", {})->target == Target::replica);
  classifier.use_rules({.replica = {}, .primary = {"f"}});
  CHECK(classifier.classify("SELECT f(1)", {})->target == Target::primary);
}

TEST_CASE("a class that depends on a literal is not taken from the cache") {
  FixedRandom random;
  Classifier classifier(random, 16);
  CHECK(classifier.classify("SET search_path = 'a'", {})->statements[0].value == "'a'");
  CHECK(classifier.classify("SET search_path = 'b'", {})->statements[0].value == "'b'");
  CHECK(classifier.cached() == 0);
  CHECK(classifier.classify("SELECT 1; SET app.x = 1", {})->statements[1].value == "1");
  CHECK(classifier.classify("SELECT 1; SET app.x = 2", {})->statements[1].value == "2");
}

TEST_CASE("hints are seen, and primary wins over replica") {
  CHECK(classify("/* pgweir: primary */ SELECT 1")->hint == Hint::primary);
  CHECK(classify("SELECT 1 /*pgweir: replica*/")->hint == Hint::replica);
  CHECK(classify("/* pgweir: primary */ SELECT 1 /* pgweir: replica */")->hint == Hint::primary);
  CHECK(classify("SELECT '/* pgweir: primary */'")->hint == Hint::none);
  CHECK(classify("-- pgweir: primary\nSELECT 1")->hint == Hint::none);
  // A hint never makes a write a read.
  CHECK(classify("/* pgweir: replica */ DELETE FROM t")->target == Target::primary);
}

TEST_CASE("strings are read as standard_conforming_strings says") {
  const Dialect off{.standard_conforming_strings = false};
  CHECK(classify("SELECT 'a\\'; DELETE FROM t; --'", nullptr, off)->statements.size() == 1);
  CHECK(classify("SELECT 'a\\'; DELETE FROM t; --'")->statements.size() == 2);
  CHECK(classify("SELECT 'a\\'; DELETE FROM t; --'")->target == Target::primary);
}

TEST_CASE("the second byte of a character is no quote and no backslash, whatever it looks like") {
  const Dialect sjis{.encoding = Encoding::sjis};
  const Dialect sjis_off{.standard_conforming_strings = false, .encoding = Encoding::sjis};
  const Dialect gbk{.encoding = Encoding::double_byte};
  const Dialect gb18030{.encoding = Encoding::gb18030};
  // 0x5C, a backslash, is the second byte.
  CHECK(classify("SELECT '\x83\x5C'", nullptr, sjis)->target == Target::replica);
  CHECK(classify("SELECT '\x83\x5C'; DELETE FROM t; --'", nullptr, sjis_off)->statements.size() == 2);
  CHECK(classify("SELECT '\x83\x5C'; DELETE FROM t; --'", nullptr, sjis_off)->target == Target::primary);
  CHECK(classify("SELECT E'\x95\x5C'; DELETE FROM t; --'", nullptr, gbk)->statements.size() == 2);
  CHECK(classify("SELECT E'\x95\x5C'; DELETE FROM t; --'")->statements.size() == 1);  // as UTF-8 it is escaped
  // A double quote can't be, and neither can a single one: PostgreSQL reports a broken character.
  for (Bytes text : {"SELECT '\x83\x27; DELETE FROM t; --'", "SELECT \"\x83\x22 FROM t", "SELECT '\x83"}) {
    for (const Dialect dialect : {sjis, gbk, gb18030, Dialect{.encoding = Encoding::johab}}) {
      CHECK(classify(text, nullptr, dialect)->cause == Cause::unparsed);
    }
  }
  // Letters, brackets and operators as second bytes are none.
  CHECK(listed(classify("SELECT a FROM t WHERE n = '\x83\x7C\x83\x5B\x83\x7E'", nullptr, sjis)->tables_read) == "t");
  CHECK(classify("SELECT \x83\x7Cx FROM t FOR UPDATE", nullptr, sjis)->cause == Cause::write);
  CHECK(classify("SELECT '\xB1\xB2'", nullptr, sjis)->target == Target::replica);  // one byte each
  CHECK(classify("SELECT '\x81\x30\x81\x30'", nullptr, gb18030)->target == Target::replica);
  CHECK(classify("SELECT '\x81\x30'", nullptr, gb18030)->cause == Cause::unparsed);
  CHECK(classify("SELECT '\xA1\xA1'", nullptr, {.encoding = Encoding::johab})->target == Target::replica);
  CHECK(classify("SELECT '\xC3\xB6'")->target == Target::replica);
}

TEST_CASE("what must be said again as it was written is not taken from a converted text") {
  const Dialect sjis{.encoding = Encoding::sjis};
  CHECK(classify("SET app.name = '\x83\x5C'", nullptr, sjis)->cause == Cause::unparsed);
  CHECK(classify("LISTEN \"\x83\x5C\"", nullptr, sjis)->cause == Cause::unparsed);
  FixedRandom random;
  Classifier classifier(random, 16);
  classifier.classify("SET app.name = '\x83\x5C'", sjis);
  CHECK(classifier.classify("SET app.name = 'a'", sjis)->cause == Cause::session_state);
  CHECK(classify("INSERT INTO t VALUES ('\x83\x5C')", nullptr, sjis)->cause == Cause::write);
}

TEST_CASE("different characters stay different, and none is a name of another encoding") {
  const Dialect sjis{.encoding = Encoding::sjis};
  CHECK(shape("SELECT \"\x83\x5C\"", sjis) != shape("SELECT \"\x83\xDC\"", sjis));
  // The bytes of a UTF-8 name that the catalog has are another name in SJIS.
  auto catalog = std::make_shared<HandCatalog>();
  catalog->functions["\xE3\x81\x82"] = Volatility::stable;
  CHECK(classify("SELECT \"\xE3\x81\x82\"(1)", catalog)->target == Target::replica);
  CHECK(classify("SELECT \"\xE3\x81\x82\x40\"(1)", catalog, sjis)->target == Target::primary);
}

TEST_CASE("names of encodings are read as PostgreSQL reads them") {
  CHECK(encoding_named("SJIS") == Encoding::sjis);
  CHECK(encoding_named("Shift-JIS") == Encoding::sjis);
  CHECK(encoding_named("SHIFT_JIS_2004") == Encoding::sjis);
  CHECK(encoding_named("big-5") == Encoding::double_byte);
  CHECK(encoding_named("windows-949") == Encoding::double_byte);
  CHECK(encoding_named("GB18030") == Encoding::gb18030);
  CHECK(encoding_named("UTF8") == Encoding::ascii_safe);
  CHECK(encoding_named("EUC_JIS_2004") == Encoding::ascii_safe);
  CHECK(encoding_named("") == Encoding::ascii_safe);
}

TEST_CASE("a text of more than 1 MiB is unparsed") {
  const std::string text = "SELECT '" + std::string(1 << 20, 'x') + "'";
  const auto result = classify(text);
  CHECK(result->cause == Cause::unparsed);
  CHECK(result->writes.all);
  CHECK(classify(text.substr(0, 1000) + "'")->target == Target::replica);
}

TEST_CASE("spellings of one name share a key, also where encodings differ") {
  CHECK(table_key("users") == table_key("users"));
  CHECK(table_key("users") != table_key("user"));
  CHECK(table_key("gr\xC3\xB6n") == table_key("gr\xF6n"));
}
