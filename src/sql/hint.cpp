#include "sql/hint.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "sql/scanner.h"

namespace pgweir::sql {
namespace {

using scan_detail::is;
using scan_detail::kHexDigit;
using scan_detail::kNamePart;
using scan_detail::kSpace;

constexpr std::size_t kHintBytesMax = 1024;  ///< of one comment's words
constexpr Bytes kMark = "pgweir:";
constexpr Bytes kTag = "pgweir";
constexpr Bytes kTagBegin = "pgweir='";

Bytes without_blanks(Bytes text) noexcept {
  while (!text.empty() && is(text.front(), kSpace)) text.remove_prefix(1);
  while (!text.empty() && is(text.back(), kSpace)) text.remove_suffix(1);
  return text;
}

/// False when they can't be read as what they were meant.
template <class Take>
bool each_word(Bytes words, Take& take) noexcept {
  if (words.size() > kHintBytesMax || words.find("/*") != Bytes::npos) return false;
  const auto separates = [](char c) { return c == ',' || is(c, kSpace); };
  while (!words.empty()) {
    const auto end = std::find_if(words.begin(), words.end(), separates);
    const Bytes word = words.substr(0, static_cast<std::size_t>(end - words.begin()));
    if (!word.empty()) take(word);
    words.remove_prefix(std::min(words.size(), word.size() + 1));
  }
  return true;
}

unsigned hex_value(char c) noexcept { return c <= '9' ? static_cast<unsigned>(c - '0') : (static_cast<unsigned>(c) | 0x20U) - 'a' + 10; }

/// The value of a tag, whose quotes are escaped by backslashes, once it is not url-encoded any more.
template <class Take>
bool each_encoded_word(Bytes value, Take& take) noexcept {
  std::array<char, kHintBytesMax> words;
  std::size_t size = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (size == words.size()) return false;
    char c = value[i];
    if (c == '%') {
      if (value.size() - i < 3 || !is(value[i + 1], kHexDigit) || !is(value[i + 2], kHexDigit)) return false;
      c = static_cast<char>(hex_value(value[i + 1]) << 4 | hex_value(value[i + 2]));
      i += 2;
    } else if (c == '\\' && i + 1 < value.size()) {
      c = value[++i];
    }
    words[size++] = c;
  }
  return each_word(Bytes(words.data(), size), take);
}

/// key='value',key='value': the whole of it, or false.
template <class Take>
bool each_tag(Bytes comment, Take& take) noexcept {
  for (;;) {
    comment = without_blanks(comment);
    std::size_t name = 0;
    while (name < comment.size() && (is(comment[name], kNamePart) || comment[name] == '%' || comment[name] == '.' || comment[name] == '-')) ++name;
    if (name == 0 || comment.substr(name, 2) != "='") return false;
    std::size_t end = name + 2;
    while (end < comment.size() && comment[end] != '\'') end += comment[end] == '\\' ? 2 : 1;
    if (end >= comment.size()) return false;
    if (comment.substr(0, name) == kTag && !each_encoded_word(comment.substr(name + 2, end - name - 2), take)) return false;
    comment = without_blanks(comment.substr(end + 1));
    if (comment.empty()) return true;
    if (comment.front() != ',') return false;
    comment.remove_prefix(1);
  }
}

/// Each word of a comment's hints; false when there is a hint and it can't be read.
template <class Take>
bool each_hint_word(Bytes comment, Take&& take) noexcept {
  while (!comment.empty() && is(comment.front(), kSpace)) comment.remove_prefix(1);
  if (comment.starts_with(kMark)) return each_word(comment.substr(kMark.size()), take);
  // Nearly all comments are done with here.
  while (!comment.empty() && is(comment.back(), kSpace)) comment.remove_suffix(1);
  if (comment.empty() || comment.back() != '\'' || comment.find(kTagBegin) == Bytes::npos) return true;
  return each_tag(comment, take);
}

/// What stands behind `name` and =; empty when the word is another one.
Bytes value_of(Bytes word, Bytes name) noexcept {
  if (word.size() <= name.size() || word[name.size()] != '=' || !equals_ignoring_case(word.substr(0, name.size()), name)) return {};
  return word.substr(name.size() + 1);
}

struct NamesSink {
  NamedHints& found;

  void token(TokenType, const char*, const char*) noexcept {}
  void comment(Bytes comment) {
    (void)each_hint_word(comment, [this](Bytes word) {
      note(found.keys, value_of(word, "key"));
      note(found.levels, value_of(word, "level"));
    });
  }
  void note(std::vector<std::string>& names, Bytes name) {
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
    if (names.size() == NamedHints::kNamesMax) {
      found.cut = true;
    } else {
      names.emplace_back(name);
    }
  }
};

}  // namespace

CommentHint parse_hint(Bytes comment) noexcept {
  CommentHint hint;
  const bool readable = each_hint_word(comment, [&hint](Bytes word) noexcept {
    const Bytes level = value_of(word, "level");
    if (equals_ignoring_case(word, "primary") || equals_ignoring_case(level, "primary")) {
      hint.target = Hint::primary;
    } else if (equals_ignoring_case(word, "replica")) {
      if (hint.target == Hint::none) hint.target = Hint::replica;
    } else if (!level.empty() || !value_of(word, "key").empty()) {
      hint.named = true;
    }
  });
  if (!readable) hint.target = Hint::primary;
  return hint;
}

NamedHints read_hints(Bytes text, Dialect dialect) {
  NamedHints found;
  NamesSink sink{found};
  std::vector<char> converted;
  if (dialect.encoding != Encoding::ascii_safe) {
    if (!without_hidden_ascii(dialect.encoding, text, converted)) return found;
    text = Bytes(converted.data(), converted.size());
  }
  (void)Scanner<NamesSink>(text, dialect, sink).run();
  return found;
}

}  // namespace pgweir::sql
