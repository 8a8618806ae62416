#include "sql/normalised.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using sql::Dialect;
using sql::Encoding;

namespace {

std::string of(std::string_view text, std::size_t bytes_max = 500, Dialect dialect = {}) {
  return sql::normalised(text, dialect, bytes_max);
}

}  // namespace

TEST_CASE("literals, comments and white space are taken out of a text") {
  CHECK(of("SELECT  f(1,\n'it''s', E'\\'', $tag$ ; $tag$, 0xFF) -- secret\n FROM \"T x\"/* 'no' */WHERE a = $1 AND b=-2.5") ==
        "SELECT f(?, ?, ?, ?, ?) FROM \"T x\" WHERE a = $1 AND b=-?");
  CHECK(of("select U&'d\\0061t' from U&\"d\\0061t\"; select b'101'") == "select ? from U&\"d\\0061t\"; select ?");
  CHECK(of("") == "");
  CHECK(of("SELECT '\\' OR 1", 500, {.standard_conforming_strings = false}) == "SELECT");
}

TEST_CASE("a list of values behind IN is one value, as in the shape") {
  CHECK(of("WHERE a IN (1, 2,3 , 'x') AND b in ($1,$2)") == "WHERE a IN (?) AND b in ($1)");
  CHECK(of("WHERE a IN (1, b, 2)") == "WHERE a IN (?, b, ?)");
  CHECK(of("SELECT s.in(1, 2), (3, 4)") == "SELECT s.in(?, ?), (?, ?)");
}

TEST_CASE("a long text is cut at a character's end, and what is no character is replaced") {
  CHECK(of("SELECT abcdefghij FROM t", 12) == "SELECT ab...");
  CHECK(of("SELECT \"äöü€\" FROM t", 14) == "SELECT \"ä...");
  CHECK(of(std::string(1 << 20, 'x'), 20) == std::string(17, 'x') + "...");
  CHECK(of("SELECT \"\xff\xc3(\xed\xa0\x80\x01\"") == "SELECT \"?" "?(?" "?" "? \"");
  CHECK(of("SELECT \"\xf0\x9f\x98\x80\"") == "SELECT \"\xf0\x9f\x98\x80\"");
  // The second byte is a backslash; what is shown is no character of UTF-8.
  CHECK(of("SELECT '\x95\x5c' , \"a\x95\x5c\"", 500, {.encoding = Encoding::sjis}) == "SELECT ? , \"a?" "?" "?" "?\"");
}
