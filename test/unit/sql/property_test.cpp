// What must hold for any text, tried on the corpus and on texts put together at random from what hurts: the way a statement
// is written never changes where it goes, and two texts of one shape are of one class, because the cache relies on it.
// PGWEIR_PROPERTY_ROUNDS=50 looks fifty times as long, PGWEIR_PROPERTY_SEED elsewhere.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "sql/scanner.h"
#include "sql/tokens.h"
#include "sql_hostile_texts.h"
#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

std::vector<Token> tokens_of(Bytes text) {
  std::vector<Token> tokens;
  TokenSink sink(text, tokens);
  REQUIRE(Scanner<TokenSink>(text, {}, sink).run() == ScanEnd::complete);
  return tokens;
}

bool glues(const Token& token) {
  return is_any_name(token) || token.type == TokenType::number ||
         token.type == TokenType::parameter || token.type == TokenType::literal;
}

/// What may stand between any two tokens and means nothing.
std::string gap(std::mt19937& random, bool may_have_line_end) {
  static const char* const kGaps[] = {" ",
                                      "  ",
                                      "\t",
                                      "\f \v",
                                      "/**/",
                                      "/* ; */",
                                      " /* /* ' */ DELETE FROM t; -- */ ",
                                      "/*/ */",
                                      "/* \" $a$ */",
                                      "/***/",
                                      "/* * /* / */*/",
                                      "\n",
                                      "\r\n",
                                      "--\n",
                                      "-- ' /* ; \n",
                                      "--- \"\r",
                                      "\n--x\n/*y*/\n"};
  return kGaps[below(random, may_have_line_end ? std::size(kGaps) : 11)];
}

std::string other_case(Bytes word, std::mt19937& random) {
  std::string out(word);
  for (char& c : out) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter && below(random, 2) == 0) c = static_cast<char>(c ^ 0x20);
  }
  return out;
}

/// The same name between quotes, plain or with some of its letters as escapes.
std::string quoted(Bytes name, std::mt19937& random) {
  const std::string folded = to_lower(name);
  if (below(random, 2) == 0) return '"' + folded + '"';
  std::string out = "U&\"";
  for (char c : folded) {
    static constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    const bool escapes = byte < 0x80 && below(random, 3) == 0;
    if (!escapes) {
      out += c;
      continue;
    }
    out += below(random, 2) == 0 ? "\\00" : "\\+0000";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out + '"';
}

struct Habits {
  bool gaps, cases, quotes, parens;
};

std::string rewritten(Bytes text, const std::vector<Token>& tokens, Habits habits,
                      std::mt19937& random) {
  std::string out;
  const bool explains = !tokens.empty() && tokens.front().word == Word::explain;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const Bytes word = text_of(text, token);
    const bool apart = i > 0 && tokens[i - 1].begin + tokens[i - 1].size < token.begin;
    // A line end between two strings would make them one.
    const bool strings = i > 0 && token.type == TokenType::literal &&
                         tokens[i - 1].type == TokenType::literal;
    if (i > 0 && habits.gaps && below(random, 3) != 0) {
      out += gap(random, !strings);
      if (apart && !strings && below(random, 4) == 0) out += gap(random, true);
    } else if (apart) {
      const bool needed = glues(token) || glues(tokens[i - 1]) ||
                          (token.type == TokenType::op && tokens[i - 1].type == TokenType::op);
      // Two tokens that stay two without anything between them.
      const bool punctuation =
          token.type == TokenType::comma || token.type == TokenType::right_paren ||
          tokens[i - 1].type == TokenType::comma || tokens[i - 1].type == TokenType::left_paren;
      out += habits.gaps && (punctuation || !needed) && below(random, 2) == 0 ? "" : " ";
    }
    const bool is_name = token.type == TokenType::name;
    const bool free_name = is_name && token.kind == WordKind::name && token.word == Word::none;
    // Words that mean something without being key words: options of EXPLAIN, EVENT TRIGGER.
    const bool event = free_name && equals_ignoring_case(word, "event");
    if (free_name && habits.quotes && !explains && !event && below(random, 2) == 0)
      out += quoted(word, random);
    else if (is_name && habits.cases)
      out += other_case(word, random);
    else
      out += word;
    // x = 1 and x = (1) are the same.
    const bool value = token.type == TokenType::number || token.type == TokenType::parameter;
    const bool compared = value && i > 0 && tokens[i - 1].type == TokenType::op &&
                          text_of(text, tokens[i - 1]) == "=";
    const bool in_query = !tokens.empty() && (tokens.front().word == Word::select ||
                                              tokens.front().word == Word::with);
    if (habits.parens && compared && in_query) {
      out.resize(out.size() - word.size());
      out += "(" + std::string(word) + ")";
    }
  }
  const Word first = tokens.empty() ? Word::none : tokens.front().word;
  const bool query = first == Word::select || first == Word::values || first == Word::table;
  bool single = true;
  for (const Token& token : tokens) single = single && token.type != TokenType::semicolon;
  if (habits.parens && query && single) return "((" + out + "))";
  return out;
}

/// What must be the same however a statement is written.
std::string route_of(const StatementClass& c) {
  std::string out = std::string(to_string(c.target)) + " " + std::string(to_string(c.cause)) + " " +
                    std::string(to_string(c.kind)) + " " + std::to_string(c.statements.size());
  for (const Statement& s : c.statements) {
    out += " " + std::to_string(static_cast<int>(s.transaction)) + "/" +
           std::to_string(static_cast<int>(s.session));
  }
  out += " reads " + listed(c.tables_read) + " " + numbers(c.reads) + " writes " +
         listed(c.tables_written) + " " + numbers(c.writes);
  for (const FunctionName& f : c.functions)
    out += " " + f.schema + "." + f.name + "/" + std::to_string(f.arguments);
  return out;
}

struct Seen {
  std::string text;
  std::string words;
};

/// Remembers what each shape was, and tells when a text of a known shape is something else.
class Collisions {
 public:
  void look(const std::string& text, Dialect dialect) {
    const auto c = judge_.judge(text, dialect);
    if (c->shape == Shape()) return;  // Not scanned to its end: never cached.
    ++looked_at;
    std::string words = in_words(*c);
    const auto [at, fresh] = shapes_.try_emplace(c->shape, Seen{text, words});
    if (fresh) return;
    ++shared;
    if (at->second.words == words) return;
    INFO(at->second.text << "\n" << at->second.words << "\nand\n" << text << "\n" << words);
    CHECK(at->second.words == words);
  }
  std::size_t looked_at = 0;
  std::size_t shared = 0;

 private:
  Judge judge_;
  std::map<Shape, Seen> shapes_;
};

}  // namespace

TEST_CASE("comments, white space, case, quoting and parentheses never change where a statement goes") {
  const std::vector<std::string> texts = corpus();
  auto catalog = std::make_shared<HandCatalog>();
  for (const char* name : {"users", "orders", "products", "settings"}) catalog->table(name);
  std::mt19937 random = dice(1);
  for (const bool with_catalog : {false, true}) {
    Judge judge;
    if (with_catalog) judge.use_catalog(catalog);
    for (const std::string& text : texts) {
      const auto plain = judge.judge(text, {});
      if (plain->shape == Shape()) continue;  // broken: no tokens to play with
      const std::vector<Token> tokens = tokens_of(text);
      const std::string expected = route_of(*plain);
      for (unsigned i = 0; i < 4 * rounds(); ++i) {
        const unsigned which = i % 4 == 3 ? 15 : 1 + static_cast<unsigned>(below(random, 15));
        const Habits habits{(which & 1) != 0, (which & 2) != 0, (which & 4) != 0, (which & 8) != 0};
        const std::string other = rewritten(text, tokens, habits, random);
        INFO(text << "\nwritten as\n" << other);
        REQUIRE(route_of(*judge.judge(other, {})) == expected);
      }
    }
  }
}

TEST_CASE("two texts of one shape are of one class") {
  std::mt19937 random = dice(2);
  const std::vector<std::string>& pieces = hostile_pieces();
  for (const bool standard : {true, false}) {
    Collisions collisions;
    const Dialect dialect{.standard_conforming_strings = standard};
    for (const std::string& text : corpus()) collisions.look(text, dialect);
    for (unsigned round = 0; round < 8'000 * rounds(); ++round) {
      std::vector<std::size_t> chosen;
      if (below(random, 2) == 0) {
        static const char* const kBeginnings[] = {"select ", "select * from t where a ", "with a as (", "insert into t "};
        chosen.push_back(pieces.size() + below(random, std::size(kBeginnings)));
      }
      const std::size_t length = 1 + below(random, 9);
      for (std::size_t i = 0; i < length; ++i) chosen.push_back(below(random, pieces.size()));
      const auto put_together = [&] {
        static const std::string kBeginnings[] = {"select ", "select * from t where a ", "with a as (", "insert into t "};
        std::string text;
        for (std::size_t piece : chosen)
          text += piece < pieces.size() ? pieces[piece] : kBeginnings[piece - pieces.size()];
        return text;
      };
      collisions.look(put_together(), dialect);
      // Its neighbours: one piece more, one less, one other, two exchanged.
      for (int neighbour = 0; neighbour < 4; ++neighbour) {
        const std::vector<std::size_t> kept = chosen;
        const std::size_t at = below(random, chosen.size());
        switch (neighbour) {
          case 0:
            chosen.insert(chosen.begin() + static_cast<std::ptrdiff_t>(at), below(random, pieces.size()));
            break;
          case 1:
            chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(at));
            break;
          case 2:
            chosen[at] = below(random, pieces.size());
            break;
          default:
            std::swap(chosen[at], chosen[below(random, chosen.size())]);
            break;
        }
        collisions.look(put_together(), dialect);
        chosen = kept;
      }
    }
    // The search is worth something only if many texts do share shapes.
    CHECK(collisions.looked_at > 5'000 * rounds());
    CHECK(collisions.shared > 500 * rounds());
  }
}

TEST_CASE("tokens that differ never have one shape") {
  // All pairs of short lists of pieces: what is between them decides.
  const char* const small[] = {"a", "1", "'s'", "$1", "+", "-", "*", "/", "@", ".", ",", ":", "(", ")", "[", ";", "\"q\"",
                               "in", "e", "u", "&", "=", "<", " ", "/**/", "\n"};
  Collisions collisions;
  for (const char* first : small) {
    for (const char* second : small) {
      for (const char* third : small) {
        for (const char* fourth : {"a", "1", "'s'", " 2", "-", ">", "\"q\"", "&'x'"}) {
          collisions.look(std::string("select ") + first + second + third + fourth, {});
        }
      }
    }
  }
  CHECK(collisions.looked_at > 50'000);
}
