#include "sql/scanner.h"

#include <catch2/catch.hpp>
#include <string>

#include "sql/names.h"
#include "sql/split.h"

using namespace pgweir;
using namespace pgweir::sql;

namespace {

/// One letter and the text for each token: n name, q quoted, u U&"", s literal, d number, p
/// parameter, o operator.
struct Record {
  std::string out;
  void token(TokenType type, const char* begin, const char* end) {
    const char kLetters[] = {'n', 'q', 'u', 's', 'd', 'p', 'o', '(',
                             ')', '[', ']', ',', '.', ';', ':', '='};
    if (!out.empty()) out += ' ';
    out += kLetters[static_cast<int>(type)];
    if (type <= TokenType::op) out += std::string(begin, end);
  }
  void comment(Bytes) {}
};

std::string tokens(Bytes text, Dialect dialect = {}) {
  Record record;
  if (Scanner<Record>(text, dialect, record).run() == ScanEnd::broken) return "broken";
  return record.out;
}
constexpr Dialect kBackslashes{.standard_conforming_strings = false};

std::string folded(TokenType type, Bytes text) {
  std::string out;
  return fold_name(type, text, out) ? out : "wrong";
}

}  // namespace

TEST_CASE("names, numbers, parameters and operators are cut as PostgreSQL cuts them") {
  CHECK(tokens("SELECT a_1$ FROM t1") == "nSELECT na_1$ nFROM nt1");
  CHECK(tokens("1 1.5 .5 1. 1e10 1.5E-3 1_000 0xFF 0o17 0b101") ==
        "d1 d1.5 d.5 d1. d1e10 d1.5E-3 d1_000 d0xFF d0o17 d0b101");
  CHECK(tokens("a[1..2]") == "na [ d1 = d2 ]");
  CHECK(tokens("$1+$23") == "p$1 o+ p$23");
  CHECK(tokens("a->>'x' || b @> c") == "na o->> s'x' o|| nb o@> nc");
  CHECK(tokens("a=-1") == "na o= o- d1");
  CHECK(tokens("a @-1") == "na o@- d1");
  CHECK(tokens("a::int x:=1 f(y=>2)") == "na : nint nx = d1 nf ( ny o=> d2 )");
  CHECK(tokens("5 - -5") == "d5 o- o- d5");
  CHECK(tokens("gr\xC3\xB6\xC3\x9F"
               "e") ==
        "ngr\xC3\xB6\xC3\x9F"
        "e");
}

TEST_CASE("comments of both kinds are nothing, nested ones too") {
  CHECK(tokens("a /* b /* c */ d */ e -- f\ng") == "na ne ng");
  CHECK(tokens("5 --5\n+ 1") == "d5 o+ d1");
  CHECK(tokens("a+/* x */b") == "na o+ nb");
  CHECK(tokens("a+--b\nc") == "na o+ nc");
  CHECK(tokens("-- to the end") == "");
  CHECK(tokens("/* open") == "broken");
  CHECK(tokens("/* /* */") == "broken");
  CHECK(tokens("/*/") == "broken");
  CHECK(tokens("/**/") == "");
}

TEST_CASE("strings end where PostgreSQL ends them") {
  CHECK(tokens("'it''s; x'") == "s'it''s; x'");
  CHECK(tokens("'a\\' b") == "s'a\\' nb");
  CHECK(tokens("'a\\' b", kBackslashes) == "broken");
  CHECK(tokens("'a\\'' b", kBackslashes) == "s'a\\'' nb");
  CHECK(tokens("E'a\\'b' c") == "sE'a\\'b' nc");
  CHECK(tokens("e'\\\\' c") == "se'\\\\' nc");
  CHECK(tokens("b'01' X'ff' n'x' U&'\\0041'") == "sb'01' sX'ff' sn'x' sU&'\\0041'");
  CHECK(tokens("U&'x'", kBackslashes) == "broken");
  CHECK(tokens("E'\\") == "broken");
  CHECK(tokens("'open") == "broken");
}

TEST_CASE("a string goes on behind a line end, with the escapes it began with") {
  CHECK(tokens("'a'\n'b' c") == "s'a'\n'b' nc");
  CHECK(tokens("'a' 'b'") == "s'a' s'b'");
  CHECK(tokens("'a' -- x\n 'b' c") == "s'a' -- x\n 'b' nc");
  CHECK(tokens("'a' /* \n */ 'b'") == "s'a' s'b'");
  // The second part belongs to E'', so its backslash hides the quote.
  CHECK(tokens("E'a'\n'b\\' c") == "broken");
  CHECK(tokens("'a'\n'b\\' c") == "s'a'\n'b\\' nc");
}

TEST_CASE("dollar quotes end at their own mark only") {
  CHECK(tokens("$$a'b$$ c") == "s$$a'b$$ nc");
  CHECK(tokens("$a$ ; $b$ ; $a$; d") == "s$a$ ; $b$ ; $a$ ; nd");
  CHECK(tokens("$a$ $$ $a $a$") == "s$a$ $$ $a $a$");
  CHECK(tokens("x$a$ b") == "nx$a$ nb");
  CHECK(tokens("$a$ x") == "broken");
  CHECK(tokens("$ x") == "broken");
  CHECK(tokens("$1a") == "broken");
}

TEST_CASE("quoted names keep what they are, and empty ones are refused") {
  CHECK(tokens("\"a\"\"b\".\"FROM\"") == "q\"a\"\"b\" . q\"FROM\"");
  CHECK(tokens("U&\"n\\0065xtval\"('s')") == "uU&\"n\\0065xtval\" ( s's' )");
  CHECK(tokens("u & \"x\"") == "nu o& q\"x\"");
  CHECK(tokens("\"\"") == "broken");
  CHECK(tokens("\"open") == "broken");
}

TEST_CASE("what PostgreSQL's lexer refuses is broken") {
  CHECK(tokens("123abc") == "broken");
  CHECK(tokens("1e") == "broken");
  CHECK(tokens("a \\ b") == "broken");
  CHECK(tokens("a {b}") == "broken");
  CHECK(tokens(Bytes("a\0b", 3)) == "broken");
}

TEST_CASE("names are folded, unquoted, decoded and cut to 63 bytes") {
  CHECK(folded(TokenType::name, "UsErS") == "users");
  CHECK(folded(TokenType::quoted_name, "\"Us\"\"er\"") == "Us\"er");
  CHECK(folded(TokenType::unicode_name, "U&\"n\\0065xtval\"") == "nextval");
  CHECK(folded(TokenType::unicode_name, "U&\"\\+01F600\\D83D\\DE00\\\\\"") ==
        "\xF0\x9F\x98\x80\xF0\x9F\x98\x80\\");
  CHECK(folded(TokenType::unicode_name, "U&\"\\00\"") == "wrong");
  CHECK(folded(TokenType::unicode_name, "U&\"\\D83Dx\"") == "wrong");
  CHECK(folded(TokenType::name, std::string(70, 'A')) == std::string(63, 'a'));
  CHECK(folded(TokenType::name, std::string(62, 'a') + "\xC3\xB6") == std::string(62, 'a'));
}

TEST_CASE("a script is cut at the semicolons that separate statements") {
  const auto pieces = [](Bytes script) {
    std::string out;
    for (Bytes piece : split_statements(script, {})) out += std::string(piece) + "|";
    return out;
  };
  CHECK(pieces("SELECT 1; SELECT ';' ;; -- end\n") == "SELECT 1|SELECT ';'|");
  CHECK(pieces("/* pgweir: primary */ SELECT 1; x") == "/* pgweir: primary */ SELECT 1|x|");
  CHECK(pieces("CREATE RULE r AS ON DELETE TO t DO (SELECT 1; SELECT 2); SELECT 3") ==
        "CREATE RULE r AS ON DELETE TO t DO (SELECT 1; SELECT 2)|SELECT 3|");
  CHECK(pieces("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; "
               "SELECT 2; END; SELECT 3") ==
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; "
        "END|SELECT 3|");
  CHECK(pieces("SELECT 1; SELECT 'open; SELECT 2") == "SELECT 1|SELECT 'open; SELECT 2|");
  CHECK(pieces("SELECT 'a'; -- x") == "SELECT 'a'|");
  CHECK(pieces("").empty());
}
