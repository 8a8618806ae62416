// The fast way to a class, held against the slow one: what an outline is, is written down here once more, token by token, and
// must come out the same for the corpus and for texts put together from what hurts.
// PGWEIR_PROPERTY_ROUNDS=50 looks fifty times as long, PGWEIR_PROPERTY_SEED elsewhere.
#include "sql/outline.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sql/byte_block.h"
#include "sql/scanner.h"
#include "sql/tokens.h"
#include "sql_hostile_texts.h"
#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

using scan_detail::is;
using scan_detail::kDigit;
using scan_detail::kNamePart;
using scan_detail::kSpace;

std::optional<std::string> outline(Bytes text) {
  std::vector<char> scratch;
  const std::optional<Bytes> fast = write_outline(text, scratch);
  std::vector<char> other_scratch;
  const std::optional<Bytes> portable = write_outline_portably(text, other_scratch);
  REQUIRE(fast == portable);
  if (!fast) return std::nullopt;
  return std::string(*fast);
}

/// What an outline is, said slowly.
class SlowOutline {
 public:
  explicit SlowOutline(Bytes text) : text_(text), sink_(text, tokens_) {
    complete_ = Scanner<TokenSink>(text, {}, sink_).run() == ScanEnd::complete;
    if (!complete_) return;
    left_to_scanner_ = sink_.seen_hint().any();
    std::size_t at = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      gap(at, tokens_[i].begin);
      at = token(i);
    }
    gap(at, text.size());
  }
  bool complete() const { return complete_; }
  bool left_to_scanner() const { return left_to_scanner_; }
  const std::string& written() const { return written_; }

 private:
  char at(std::size_t place) const { return place < text_.size() ? text_[place] : '\0'; }
  std::size_t end_of(std::size_t i) const { return tokens_[i].begin + tokens_[i].size; }
  bool is_value(std::size_t i) const {
    const TokenType type = tokens_[i].type;
    return type == TokenType::number || type == TokenType::literal || type == TokenType::parameter;
  }

  /// White space stays, comments lose what they say.
  void gap(std::size_t from, std::size_t to) {
    while (from < to) {
      if (at(from) == '-') {
        written_ += "--";
        while (from < to && at(from) != '\n' && at(from) != '\r') ++from;
        commented_ = true;
      } else if (at(from) == '/') {
        written_ += std::string("/*\0", 3);
        int depth = 0;
        do {
          const Bytes two = text_.substr(from, 2);
          if (two == "/*") ++depth;
          if (two == "*/") --depth;
          from += two == "/*" || two == "*/" ? 2 : 1;
        } while (depth > 0);
        commented_ = true;
      } else {
        written_ += at(from++);
      }
    }
  }

  /// Writes the token and says where reading goes on.
  std::size_t token(std::size_t i) {
    const Token& token = tokens_[i];
    const Bytes word = text_of(text_, token);
    // A byte 0 is no part of a token but of a name between quotes.
    if (token.type != TokenType::literal && word.find('\0') != Bytes::npos) left_to_scanner_ = true;
    switch (token.type) {
      case TokenType::number: {
        const bool dotted = word.front() == '.';
        const std::size_t begin = token.begin + (dotted ? 1 : 0);
        if (begin >= 2 && at(begin - 1) == '.' && at(begin - 2) == '.') left_to_scanner_ = true;
        written_ += dotted ? std::string(".\0", 2) : std::string(1, '\0');
        return dotted ? end_of(i) : end_of_list(i);
      }
      case TokenType::parameter:
        written_ += word;
        return end_of_list(i);
      case TokenType::literal: {
        if (word.front() != '\'') {
          left_to_scanner_ = true;
          return end_of(i);
        }
        if (token.begin > 0 && at(token.begin - 1) == '&') left_to_scanner_ = true;
        if (token.begin > 0 && is(at(token.begin - 1), kNamePart) && i > 0 && tokens_[i - 1].type == TokenType::name)
          left_to_scanner_ = true;
        std::size_t from = token.begin;
        for (;;) {
          written_ += std::string("'\0", 2);
          const std::size_t end = end_of_piece(from);
          if (end >= end_of(i)) break;
          from = end;
          while (at(from) != '\'') {  // a comment may have quotes in it
            if (at(from) == '-')
              while (at(from) != '\n' && at(from) != '\r') ++from;
            else
              ++from;
          }
          gap(end, from);
        }
        return end_of_list(i);
      }
      case TokenType::name:
      case TokenType::quoted_name:
      case TokenType::unicode_name:
      case TokenType::op:
      case TokenType::left_paren:
      case TokenType::right_paren:
      case TokenType::left_bracket:
      case TokenType::right_bracket:
      case TokenType::comma:
      case TokenType::dot:
      case TokenType::semicolon:
      case TokenType::cast:
      case TokenType::other:
        break;
    }
    written_ += word;
    return end_of(i);
  }

  /// Of the first of the strings that are one because only white space with a line end stands between them.
  std::size_t end_of_piece(std::size_t quote) const {
    for (std::size_t place = quote + 1;; ++place) {
      if (place >= text_.size()) return place;
      if (at(place) != '\'') continue;
      if (at(place + 1) != '\'') return place + 1;
      ++place;
    }
  }

  /// The end of value `i`, or of the list that it begins: the tokens in between are struck out.
  std::size_t end_of_list(std::size_t i) {
    const bool whole = end_of_first(i) == end_of(i);
    bool after_in = i >= 2 && !commented_ && whole && tokens_[i - 1].type == TokenType::left_paren &&
                    end_of(i - 1) == tokens_[i].begin && tokens_[i - 2].type == TokenType::name &&
                    tokens_[i - 2].size == 2 && (at(tokens_[i - 2].begin) | 0x20) == 'i' &&
                    (at(tokens_[i - 2].begin + 1) | 0x20) == 'n';
    if (after_in && i >= 3) {
      const Token& before = tokens_[i - 3];
      if (before.type == TokenType::dot || text_of(text_, before) == "..") after_in = false;
    }
    std::size_t last = i;
    while (after_in && last + 2 < tokens_.size() && tokens_[last + 1].type == TokenType::comma &&
           tokens_[last + 1].begin == end_of(last) && is_value(last + 2)) {
      const Token& value = tokens_[last + 2];
      for (std::size_t place = end_of(last + 1); place < value.begin; ++place) after_in = after_in && is(at(place), kSpace);
      const char first = at(value.begin);
      const std::size_t end = end_of(last + 2);
      const bool plain = (first == '\'' && end_of_first(last + 2) == end) || first == '$' || is(first, kDigit);
      const bool parameter = value.type == TokenType::parameter;
      if (!after_in || !plain || (first == '$' && !parameter) || (at(end) != ',' && at(end) != ')')) break;
      last += 2;
    }
    const std::size_t end = end_of(last);
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(i) + 1, tokens_.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    return end;
  }
  std::size_t end_of_first(std::size_t i) const {
    return at(tokens_[i].begin) == '\'' ? end_of_piece(tokens_[i].begin) : end_of(i);
  }

  Bytes text_;
  std::vector<Token> tokens_;
  TokenSink sink_;
  std::string written_;
  bool complete_ = false;
  bool commented_ = false;
  bool left_to_scanner_ = false;
};

struct Count {
  std::size_t looked_at = 0;
  std::size_t outlined = 0;
};

void compare(Bytes text, Count& count) {
  INFO(std::string(text));
  const std::optional<std::string> fast = outline(text);
  const SlowOutline slow(text);
  ++count.looked_at;
  if (!slow.complete()) return;  // Never cached, whatever its outline.
  if (fast) {
    ++count.outlined;
    REQUIRE(*fast == slow.written());
  }
  REQUIRE(fast.has_value() == !slow.left_to_scanner());
}

std::string random_text(std::mt19937& random) {
  const std::vector<std::string>& pieces = hostile_pieces();
  std::string text = random() % 2 == 0 ? "select * from t where a " : "";
  const std::size_t length = 1 + random() % 12;
  for (std::size_t i = 0; i < length; ++i) text += pieces[random() % pieces.size()];
  return text;
}

/// Two pages, of which the second can't be read.
class LastPage {
 public:
  LastPage() : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* pages = mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    REQUIRE(mprotect(static_cast<char*>(pages) + size_, size_, PROT_NONE) == 0);
    begin_ = static_cast<char*>(pages);
  }
  LastPage(const LastPage&) = delete;
  LastPage& operator=(const LastPage&) = delete;
  ~LastPage() { munmap(begin_, 2 * size_); }
  /// `text` so that its last byte is the page's.
  Bytes at_end(Bytes text) {
    REQUIRE(text.size() <= size_);
    char* const to = begin_ + size_ - text.size();
    text.copy(to, text.size());
    return {to, text.size()};
  }
  /// `text` so that it begins with the page's `offset`th byte.
  Bytes at_beginning(Bytes text, std::size_t offset) {
    text.copy(begin_ + offset, text.size());
    return {begin_ + offset, text.size()};
  }

 private:
  std::size_t size_;
  char* begin_ = nullptr;
};

}  // namespace

TEST_CASE("an outline has everything but values and comments") {
  using namespace std::string_literals;
  CHECK(outline("SELECT a FROM t WHERE b = 'x' AND c > 10 /* web 7 */") == "SELECT a FROM t WHERE b = '\0 AND c > \0 /*\0"s);
  CHECK(outline("") == ""s);
  CHECK(outline("SELECT 1.5e-3, .5, 0xFF, 1_000, t1.c2") == "SELECT \0, .\0, \0, \0, t1.c2"s);
  CHECK(outline("a 'it''s' b") == "a '\0 b"s);
  CHECK(outline("\"it's 1 /* $$\" 1") == "\"it's 1 /* $$\" \0"s);
  CHECK(outline("a -- it's\nb") == "a --\nb"s);
  CHECK(outline("a /* /* 'x */ */ b") == "a /*\0 b"s);
  CHECK(outline("$1, $22") == "$1, $22"s);
  CHECK(outline("1 IN (1, 2,'x',  $4)") == "\0 IN (\0)"s);
  CHECK(outline("a in ($1, $2)") == "a in ($1)"s);
  CHECK(outline("x.in (1,2)") == "x.in (\0,\0)"s);
  CHECK(outline("in (1,2, b, 3)") == "in (\0, b, \0)"s);
  CHECK(outline("a$1 b") == "a$1 b"s);
}

TEST_CASE("what an outline can't tell is left to the scanner") {
  for (Bytes text : {Bytes("E'a'"), Bytes("select e'\\''"), Bytes("U&'a'"), Bytes("x'ff'"), Bytes("N'a'"), Bytes("$$a$$"),
                     Bytes("$a$ $a$"), Bytes("$1$$ ' $$"), Bytes("1$$ ' $$"), Bytes("/* pgweir: primary */ a"), Bytes("'a"),
                     Bytes("\"a"), Bytes("/* a"), Bytes("1..2"), Bytes("a\0b", 3), Bytes("\"a\0b\"", 5)}) {
    INFO(text);
    CHECK_FALSE(outline(text));
  }
}

TEST_CASE("texts that are cut differently have different outlines") {
  const std::pair<Bytes, Bytes> pairs[] = {
      {"f(.5.6)", "f(.5)"},
      {"a IN ('x', $2abc)", "a IN ('x'abc)"},
      {"a IN (1, 'b'\n'c')", "a IN (1\n'c')"},
      {"a IN (1, 2)", "a IN (1, (2))"},
      {"a IN (1, 2)", "a IN (1, -2)"},
      {"f(1, 2)", "f(1)"},
      {"x. -- n\n in (1,2)", "x. -- n\n in (1)"},
      {"x./* */in (1,2)", "x./* */in (1)"},
      {"a -- b\n, c", "a -- b, c"},
      {"'a' 'b'", "'a''b'"},
      {"'a'\n'b'", "'a' 'b'"},
      {"a/**/b", "a/* */ /**/b"},
      {"\"a\"\"b\"", "\"a\" \"b\""},
      {"a1", "a 1"},
      {"1 a", "1a"},
      {"$1", "$2"},
      {"$1", "1"},
      {"-1", "--1"},
      {Bytes("a\0", 2), "a1"},
      {Bytes("'\0", 2), "''"},
      {Bytes("/*\0", 3), "/**/"},
  };
  for (const auto& [a, b] : pairs) {
    INFO(a << " | " << b);
    const auto first = outline(a);
    const auto second = outline(b);
    CHECK((!first || !second || *first != *second));
  }
}

TEST_CASE("the outline is what it is said to be, of any text") {
  Count count;
  for (const std::string& text : corpus()) compare(text, count);
  std::mt19937 random = dice(11);
  for (unsigned round = 0; round < 20'000 * rounds(); ++round) compare(random_text(random), count);
  for (const char* first : {"in (", "x.in (", " in ( ", "\"a\" in (", "--\nin (", "1 in ("}) {
    for (const char* second : {"1", "'a'", "$1", "'a'\n'b'", ".5", "1e5", "b", "'a'--x\n'b'", ""}) {
      for (const char* third : {",2", ", 'c'", ",$3", ",'d'\n'e'", ",2.", ", .5", ",e", " , 4", ",/**/5", ",0x", ",5f", ",6.7.8", "1"}) {
        for (const char* fourth : {")", ",7)", ", '8')", " )", "::int)", "..9)", "", "$", "'x'"}) {
          compare(std::string("a ") + first + second + third + fourth, count);
        }
      }
    }
  }
  // The comparison is worth something only if many texts have one.
  CHECK(count.outlined > count.looked_at / 8);
}

TEST_CASE("texts of one outline have one shape, or are all broken") {
  std::mt19937 random = dice(12);
  std::map<std::string, std::pair<Shape, std::string>> seen;
  std::size_t shared = 0;
  const auto shape_of = [](Bytes text) {
    std::vector<char> written;
    ShapeSink sink({1, 2}, {}, text, written);
    return Scanner<ShapeSink>(text, {}, sink).run() == ScanEnd::broken ? Shape() : sink.finish();
  };
  const auto look = [&](const std::string& text) {
    const auto written = outline(text);
    if (!written) return;
    const Shape shape = shape_of(text);
    const auto [at, fresh] = seen.try_emplace(*written, shape, text);
    shared += fresh ? 0 : 1;
    INFO(at->second.second << "\nand\n" << text);
    REQUIRE(at->second.first == shape);
  };
  for (unsigned round = 0; round < 30'000 * rounds(); ++round) look(random_text(random));
  // Short texts of the few bytes that begin something, all of them.
  const std::string bytes = "1a.$'\"-/*(, \nin";
  for (std::size_t n = 0; n < 15 * 15 * 15 * 15; ++n) {
    std::string text;
    for (std::size_t rest = n, i = 0; i < 4; ++i, rest /= 15) text += bytes[rest % 15];
    look(text);
    look("'x' in (1" + text);
    look("a in ('" + text + "')");
  }
  CHECK(shared > 10'000);
}

TEST_CASE("a classifier that has seen much answers as one that has seen nothing, whatever the client's encoding") {
  std::mt19937 random = dice(13);
  FixedRandom secret;
  Classifier warm(secret, 4096);
  std::vector<Dialect> dialects;
  for (const bool standard : {true, false}) {
    for (Encoding encoding : {Encoding::ascii_safe, Encoding::sjis, Encoding::double_byte, Encoding::gb18030, Encoding::johab})
      dialects.push_back({.standard_conforming_strings = standard, .encoding = encoding});
  }
  const auto look = [&](const std::string& text) {
    for (const Dialect& dialect : dialects) {
      Judge fresh;
      const std::string expected = in_words(*fresh.judge(text, dialect));
      INFO(text);
      // By the rules, by the shape, by the outline.
      for (int i = 0; i < 3; ++i) REQUIRE(in_words(*warm.classify(text, dialect)) == expected);
    }
  };
  for (const std::string& text : corpus()) look(text);
  for (unsigned round = 0; round < 400 * rounds(); ++round) look(random_text(random));
  for (const char* text : {"SELECT '\x83\x5C'", "SELECT '\x83\x5C'; DELETE FROM t; --'", "SELECT 'a\\'; DELETE FROM t; --'",
                           "SELECT \"\x83\x22 FROM t", "SELECT '\x81\x30\x81\x30'"}) {
    look(text);
  }
}

TEST_CASE("texts that differ in values share the class, also when only the outline is looked at") {
  FixedRandom random;
  Classifier classifier(random, 16);
  const auto first = classifier.classify("SELECT * FROM t WHERE id = 1 AND n = 'x'", {});
  for (const char* text : {"SELECT * FROM t WHERE id = 2 AND n = 'x''y'", "SELECT * FROM t WHERE id = 3.5 AND n = ''",
                           "SELECT * FROM t WHERE id = 4 AND n = '--'", "select * from t where id = 5 and n = 'z'"}) {
    CHECK(classifier.classify(text, {}) == first);
  }
  CHECK(classifier.cached() == 1);
  classifier.use_rules({});
  CHECK(classifier.classify("SELECT * FROM t WHERE id = 2 AND n = 'y'", {}) != first);
}

TEST_CASE("a text is read to its end and not a byte further, wherever it lies") {
  const std::string sample =
      "SELECT \"a\", b1, 'it''s', $12 FROM t -- x\nWHERE c IN (1, 22, 'x') AND d > 1.5e3 /* z */ AND eeeeeeeeeeeeeeeeeeeeeee = 7";
  LastPage page;
  for (std::size_t from = 0; from < sample.size(); ++from) {
    for (std::size_t size = 0; size <= 64 && from + size <= sample.size(); ++size) {
      const std::string text = sample.substr(from, size);
      const auto expected = outline(text);
      REQUIRE(outline(page.at_end(text)) == expected);
    }
  }
  for (std::size_t offset = 0; offset < 64; ++offset) {
    REQUIRE(outline(page.at_beginning(sample, offset)) == outline(sample));
  }
}

TEST_CASE("a block finds the same bytes with and without instructions of the machine's own") {
  for (int c = 0; c < 256; ++c) {
    for (std::size_t place = 0; place < kBlockBytes; ++place) {
      std::string bytes(kBlockBytes, place % 2 == 0 ? 'a' : '\xFF');
      bytes[place] = static_cast<char>(c);
      const auto portable = PortableBlock::load(bytes.data());
      const auto block = ByteBlock::load(bytes.data());
      REQUIRE(block.stops() == portable.stops());
      REQUIRE(block.equal(static_cast<char>(c)) == portable.equal(static_cast<char>(c)));
      REQUIRE((portable.stops() >> place & 1) == (block_detail::is_stop(static_cast<unsigned char>(c)) ? 1 : 0));
      std::string copied(kBlockBytes, ' ');
      block.store(copied.data());
      REQUIRE(copied == bytes);
    }
  }
}
