#include "tools/json.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::tools;

namespace {

std::string sql_of(std::string_view line) {
  const auto found = find_json_string(line, "sql");
  if (!found) return "error: " + found.error().text();
  return *found ? **found : "none";
}
std::string written(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

TEST_CASE("the field is found among others of any kind") {
  CHECK(sql_of(R"({"sql":"SELECT 1"})") == "SELECT 1");
  CHECK(
      sql_of(
          R"( { "a" : [1, -2.5e+3, {"sql": "no"}], "b": null, "c": true, "sql" : "x" , "d": {} } )") ==
      "x");
  CHECK(sql_of(R"({"a": 1})") == "none");
  CHECK(sql_of(R"({})") == "none");
}

TEST_CASE("escapes are decoded, surrogate pairs too") {
  CHECK(sql_of(R"({"sql":"a\"\\\/\b\f\n\r\t\u00e9\u0041\uD83D\uDE00"})") ==
        "a\"\\/\b\f\n\r\t\xC3\xA9"
        "A\xF0\x9F\x98\x80");
  CHECK(sql_of("{\"sql\":\"\xC3\xA9\"}") == "\xC3\xA9");
}

TEST_CASE("what is no JSON object is an error that says where") {
  for (const char* line :
       {"", "[]", "{", R"({"sql":1})", R"({"sql":"x"} y)", R"({"sql":"x)", R"({"sql":"\x"})",
        R"({"sql":"\ud83d"})", R"({"sql":"\udc00"})", R"({sql:"x"})", R"({"a":01,"sql":"x"})",
        R"({"a":1,})", R"({"a":.5})", R"({"a":tru})", "{\"sql\":\"a\nb\"}", "{\"sql\":\"\xC3\"}",
        "{\"sql\":\"\xED\xA0\x80\"}"}) {
    INFO(line);
    CHECK(sql_of(line).starts_with("error: byte "));
  }
  const std::string deep =
      "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + ",\"sql\":\"x\"}";
  CHECK(sql_of(deep).starts_with("error: "));
}

TEST_CASE("strings are written so that they read back as they were") {
  CHECK(written("a\"\\\n\t\x01\xC3\xA9") == "\"a\\\"\\\\\\n\\t\\u0001\xC3\xA9\"");
  CHECK(written("\xFFx") == "\"\xEF\xBF\xBDx\"");
  const std::string text = "SELECT '\"\\\r\x7F\xF0\x9F\x98\x80'";
  CHECK(sql_of("{\"sql\":" + written(text) + "}") == text);
}
