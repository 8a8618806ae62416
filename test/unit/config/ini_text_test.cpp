#include "config/ini_text.h"

#include <catch2/catch.hpp>

#include "memory_files.h"

using namespace pgweir;
using namespace pgweir::config;

namespace {

/// "section|key|value" of each line, or "error: …".
std::vector<std::string> lines_of(const MemoryFiles& files) {
  Result<std::vector<IniLine>> lines = read_ini(files, "a.ini");
  if (!lines) return {"error: " + lines.error().text()};
  std::vector<std::string> out;
  for (const IniLine& line : *lines)
    out.push_back(line.section + "|" + line.key + "|" + line.value);
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  return lines_of(MemoryFiles{{"a.ini", text}});
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the INI text is read by PgBouncer's rules", "[config]") {
  struct Case {
    const char* why;
    std::string text;
    Lines lines;
  };
  const std::string longest(65530, 'x');
  const Case cases[] = {
      {"plain", "[a]\nk = v\n", {"a|k|v"}},
      {"no line end at the end", "[a]\nk=v", {"a|k|v"}},
      {"CRLF", "[a]\r\nk = v\r\n", {"a|k|v"}},
      {"indented section and key", "  [a]\n\t k = v\n  l = w\n", {"a|k|v", "a|l|w"}},
      {"comments at the start of a line", "; x\n # [b]\n[a]\n;k=v\nk=w\n", {"a|k|w"}},
      {"comment signs later are data", "[a]\nk = v ; w # x\n", {"a|k|v ; w # x"}},
      {"colons are data", "[a]\nk = a:b\n", {"a|k|a:b"}},
      {"a colon does not end a key",
       "[a]\nk: v\n",
       {"error: a.ini:2: expected [section], name = value or %include file"}},
      {"empty value", "[a]\nk =\nl = \n", {"a|k|", "a|l|"}},
      {"no quoting of values", "[a]\nk = 'v' \"w\"\n", {"a|k|'v' \"w\""}},
      {"value with equals signs", "[a]\nk = host=x port=1\n", {"a|k|host=x port=1"}},
      {"quoted key", "[a]\n'a b=c''d' = v\n", {"a|a b=c'd|v"}},
      {"key characters", "[a]\nA_.*-9 = v\n", {"a|A_.*-9|v"}},
      {"repeated key stays", "[a]\nk=1\nk=2\n", {"a|k|1", "a|k|2"}},
      {"repeated section", "[a]\nk=1\n[b]\nk=2\n[a]\nl=3\n", {"a|k|1", "b|k|2", "a|l|3"}},
      {"a very long value", "[a]\nk = " + longest + "\nl = 2\n", {"a|k|" + longest, "a|l|2"}},
      {"a long key",
       "[a]\n" + std::string(120, 'k') + " = 1\n",
       {"a|" + std::string(120, 'k') + "|1"}},
      {"percent signs and tildes in values", "[a]\nk = ~20%25%include\n", {"a|k|~20%25%include"}},
      {"bytes beyond ASCII", "[a]\n'\xc3\xa9' = \xc3\xa9\xff\n", {"a|\xc3\xa9|\xc3\xa9\xff"}},
      {"something behind a section's name", "[a] ; remark\n[b] k = v\n", {"b|k|v"}},
      {"white space only", " \n\t\n[a]\n \nk=v\n", {"a|k|v"}},
      {"nothing", "", {}},
      {"key before a section", "k = v\n", {"error: a.ini:1: k stands before the first [section]"}},
      {"open section", "[a\n", {"error: a.ini:1: a section's name must end with ]"}},
      {"open quote", "[a]\n'k = v\n", {"error: a.ini:2: a quoted name must end with '"}},
      {"word alone",
       "[a]\n\nk\n",
       {"error: a.ini:3: expected [section], name = value or %include file"}},
      {"zero byte",
       std::string("[a]\nk = v\0w\n", 12),
       {"error: a.ini:2: the line holds a zero byte"}},
  };
  for (const Case& c : cases) {
    INFO(c.why);
    CHECK(lines_of(c.text) == c.lines);
  }
}

TEST_CASE("%include goes on with the section, and errors name the file and the line", "[config]") {
  CHECK(lines_of(MemoryFiles{{"a.ini", "[a]\nk=1\n%include b.ini\nm=3\n"},
                             {"b.ini", "l=2\n[b]\n"}}) == Lines{"a|k|1", "a|l|2", "b|m|3"});
  CHECK(lines_of(MemoryFiles{{"a.ini", "[a]\n  %include b.ini  \nk\n"}, {"b.ini", "l=2\n"}}) ==
        Lines{"error: a.ini:3: expected [section], name = value or %include file"});
  CHECK(lines_of(MemoryFiles{{"a.ini", "[a]\n%include b.ini\n"}, {"b.ini", "\nl\n"}}) ==
        Lines{"error: b.ini:2: expected [section], name = value or %include file"});
  CHECK(lines_of(std::string("[a]\n%include nowhere.ini\n")) ==
        Lines{"error: a.ini:2: nowhere.ini: no such file"});
  CHECK(lines_of(std::string("%include a.ini\n")) ==
        Lines{"error: a.ini:1: too many %include inside each other"});
  CHECK(lines_of(std::string("%includes a.ini\n")) ==
        Lines{"error: a.ini:1: expected %include and a file name"});
  CHECK(lines_of(std::string("%include\n")) ==
        Lines{"error: a.ini:1: expected %include and a file name"});
  CHECK(lines_of(MemoryFiles{}) == Lines{"error: a.ini: no such file"});
}

TEST_CASE("lines know where they stand", "[config]") {
  const MemoryFiles files{{"a.ini", "[a]\n%include b.ini\n\nk=1\n"}, {"b.ini", "; x\nl=2\n"}};
  Result<std::vector<IniLine>> lines = read_ini(files, "a.ini");
  REQUIRE(lines);
  REQUIRE(lines->size() == 2);
  CHECK((*lines)[0].where == "b.ini:2");
  CHECK((*lines)[1].where == "a.ini:4");
}

TEST_CASE("connection strings are read by PgBouncer's rules", "[config]") {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  auto pairs_of = [](std::string_view text) {
    Result<Pairs> pairs = parse_connection_string(text);
    return pairs ? *pairs : Pairs{{"error", pairs.error().text()}};
  };
  CHECK(pairs_of("") == Pairs{});
  CHECK(pairs_of("host=a port=1") == Pairs{{"host", "a"}, {"port", "1"}});
  CHECK(pairs_of(" host = a  port= 1 ") == Pairs{{"host", "a"}, {"port", "1"}});
  CHECK(pairs_of("password='it''s = here' user=x") ==
        Pairs{{"password", "it's = here"}, {"user", "x"}});
  CHECK(pairs_of("q='a'b=c") == Pairs{{"q", "a"}, {"b", "c"}});
  CHECK(pairs_of("host=") == Pairs{{"error", "host: the value is empty"}});
  CHECK(pairs_of("password=''") == Pairs{{"error", "password: the value is empty"}});
  CHECK(pairs_of("password='x") == Pairs{{"error", "password: a quoted value must end with '"}});
  CHECK(pairs_of("host") == Pairs{{"error", "expected key=value, not host"}});
  CHECK(pairs_of("=a") == Pairs{{"error", "expected key=value"}});
}
