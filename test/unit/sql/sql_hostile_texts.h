// What the tests that look for counter-examples share: the corpus, pieces to put hostile texts together from, and a class in
// words. PGWEIR_PROPERTY_ROUNDS and PGWEIR_PROPERTY_SEED let them look longer and elsewhere.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sql_test_support.h"
#include "tools/json.h"

namespace pgweir::sql::test {

inline unsigned number_from(const char* variable, unsigned otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(value, nullptr, 10));
}
inline unsigned rounds() { return number_from("PGWEIR_PROPERTY_ROUNDS", 1); }
inline std::mt19937 dice(unsigned salt) {
  return std::mt19937(number_from("PGWEIR_PROPERTY_SEED", 20261130) * 31 + salt);
}
inline std::size_t below(std::mt19937& random, std::size_t n) { return random() % n; }

/// The statements of the corpus; those that need standard_conforming_strings = off read well enough without.
inline std::vector<std::string> corpus() {
  std::ifstream file(PGWEIR_TEST_DATA "/corpus/routing.jsonl");
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);) {
    const auto text = tools::find_json_string(line, "sql");
    REQUIRE(text);
    REQUIRE(*text);
    texts.push_back(**text);
  }
  REQUIRE(texts.size() == 528);
  return texts;
}

/// All of a class on which anything depends, in words; nothing of it from a cache.
class Judge {
 public:
  std::shared_ptr<const StatementClass> judge(Bytes text, Dialect dialect) {
    classifier_.use_rules({});  // forgets
    return classifier_.classify(text, dialect);
  }
  void use_catalog(std::shared_ptr<const Catalog> catalog) {
    classifier_.use_catalog(std::move(catalog));
  }

 private:
  FixedRandom random_;
  Classifier classifier_{random_, 4};
};

inline std::string numbers(const TableSet& set) {
  std::string out = set.all ? "all" : "";
  for (TableKey key : set.keys) out += " " + std::to_string(key);
  return out;
}
inline std::string in_words(const StatementClass& c) {
  std::string out;
  const auto add = [&out](auto value) { out += std::to_string(static_cast<int>(value)) + " "; };
  add(c.target), add(c.cause), add(c.kind), add(c.hint), add(c.certain), add(c.may_hide_write);
  add(c.depends_on_literal), add(c.has_session_step), add(c.has_transaction_step);
  add(c.may_commit), add(c.is_ddl);
  for (const Statement& s : c.statements) {
    add(s.kind), add(s.cause), add(s.transaction), add(s.chain), add(s.session), add(s.may_commit);
    add(s.is_ddl), add(s.copy_in), add(s.pg_temp), add(s.show);
    out += c.depends_on_literal ? "" : "\"" + s.object + "\"" + s.value;
    out += '|';
  }
  out += "reads " + numbers(c.reads) + " " + listed(c.tables_read) + " writes " +
         numbers(c.writes) + " " + listed(c.tables_written) + " calls";
  for (const FunctionName& f : c.functions) {
    out += " " + f.schema + "." + f.name + "/" + std::to_string(f.arguments);
  }
  return out;
}

/// Pieces of texts that are one thing in one place and another in the next.
inline const std::vector<std::string>& hostile_pieces() {
  static const std::vector<std::string> pieces = {
      "'", "''", "\\", "'a'", "'a\\'", "'\\\\'", "E'", "e'\\''", "E'\\\\'", "U&'", "U&'\\0041'", "u&",
      "U&\"", "U&\"\\0061\"", "\"", "\"\"", "\"a\"", "\"A\"\"b\"", "$$", "$a$", "$a", "$1", "$", "--", "-- '\n",
      "\n", "\r", "/*", "*/", "/**/", "/*/", "/", "*", "-", "+", "+-", "@", "@-", "~", "<", ">", "=", "<=", "->",
      "->>", "|", "#", "?", "(", ")", ",", ".", "..", ";", ":", "::", ":=", "1", "1.", ".5", "1e5", "1e", "0x1F",
      "1_0", "12", "in", "IN (", "in(1,2)", ",3", "in (1,(2))", "in($1,$2)", ".in(", "select ", "delete ", "from ",
      "t", "T", "update ", "insert into t ", "into ", "for ", "for update", "u", "e", "b", "x", "n", "N'a'", "B'0'",
      "X'f'", std::string(1, '\0'), "\x01", "\x02", "\x7f", "\x80", "\xff", "\xc3\xb6", "\xc3", "\t", "\v", " ", " ",
      " ", " ", "[", "]", "{", "}", "/* pgweir: primary */", "/* pgweir: replica */", "-- pgweir: primary\n",
      "nextval(", "nextval('s')", "f(", "f(1)", "now()", "lower", "begin", "commit", "set x = ", "explain ",
      "analyze ", "false", "off", "with a as (", "as ", "values ", "table ", "uescape", "copy ", "to stdout", "a.b",
      "a . b", "operator(", "union ", "abcdefgh", "abcdefghi", "prepare ", "'\n'", "'--'", "'/*'", "join ", "null",
      "a ", "!", "%", "^", "&", "`", "case ", "end "};
  return pieces;
}

}  // namespace pgweir::sql::test
