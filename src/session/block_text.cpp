#include "session/block_text.h"

#include <array>
#include <algorithm>

#include "base/text.h"

namespace pgweir::session {
namespace {

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// What can be a part of a name; all of what is not ASCII is.
bool is_name(char c) noexcept {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

/// The words of a short statement, one after the other.
class Words {
 public:
  explicit Words(Bytes sql) noexcept : rest_(sql) { find(); }

  bool at_end() const noexcept { return word_.empty() && !broken_ && rest_.empty(); }
  /// Takes the next word if it is this one.
  bool accept(std::string_view word) noexcept {
    if (broken_ || !equals_ignoring_case(word_, word)) return false;
    find();
    return true;
  }
  bool accept(std::string_view first, std::string_view second) noexcept {
    Words ahead = *this;
    if (!ahead.accept(first) || !ahead.accept(second)) return false;
    *this = ahead;
    return true;
  }
  /// Nothing but semicolons is left.
  bool ends() noexcept {
    while (word_ == ";") find();
    return at_end();
  }

 private:
  /// Goes on to the next word, comma or semicolon.
  void find() noexcept {
    word_ = {};
    skip_blanks();
    if (rest_.empty() || broken_) return;
    std::size_t size = 0;
    while (size < rest_.size() && is_name(rest_[size])) ++size;
    if (size == 0 && (rest_[0] == ',' || rest_[0] == ';')) size = 1;
    if (size == 0) broken_ = true;
    word_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  void skip_blanks() noexcept {
    for (;;) {
      rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n\f\v"), rest_.size()));
      if (rest_.starts_with("--")) {
        rest_.remove_prefix(std::min(rest_.find_first_of("\r\n"), rest_.size()));
      } else if (rest_.starts_with("/*")) {
        skip_comment();
      } else {
        return;
      }
      if (broken_) return;
    }
  }
  void skip_comment() noexcept {
    std::size_t depth = 0;
    std::size_t at = 0;
    while (at + 1 < rest_.size()) {
      const Bytes two = rest_.substr(at, 2);
      if (two == "/*") ++depth;
      if (two == "*/") --depth;
      at += two == "/*" || two == "*/" ? 2 : 1;
      if (depth == 0) return rest_.remove_prefix(at);
    }
    broken_ = true;
  }

  Bytes rest_;
  Bytes word_;
  bool broken_ = false;
};

/// One of the options; false when it is none.
bool take_option(Words& words, BlockStart& start) noexcept {
  if (words.accept("read", "only")) {
    start.read_only = true;
  } else if (words.accept("read", "write")) {
    start.read_only = false;
  } else if (words.accept("deferrable") || words.accept("not", "deferrable")) {
    // It means something to serializable transactions only.
  } else if (words.accept("isolation", "level")) {
    if (words.accept("serializable")) {
      start.isolation = Isolation::serializable;
    } else if (words.accept("repeatable", "read")) {
      start.isolation = Isolation::repeatable_read;
    } else if (words.accept("read", "committed") || words.accept("read", "uncommitted")) {
      start.isolation = Isolation::read_committed;
    } else {
      return false;
    }
  } else {
    return false;
  }
  return true;
}

constexpr std::array<std::string_view, 10> kTimeWords = {
    "now",       "today",          "tomorrow",              "yesterday",        "current_date", "current_time",
    "localtime", "localtimestamp", "transaction_timestamp", "current_timestamp"};

}  // namespace

std::optional<BlockStart> read_block_start(Bytes sql) noexcept {
  Words words(sql);
  BlockStart start;
  if (words.accept("begin")) {
    if (!words.accept("work")) words.accept("transaction");
  } else if (words.accept("start", "transaction")) {
    start.begin = false;
  } else {
    return std::nullopt;
  }
  for (bool first = true; !words.ends(); first = false) {
    if (!first) words.accept(",");
    if (!take_option(words, start)) return std::nullopt;
  }
  return start;
}

std::optional<BlockEnd> read_block_end(Bytes sql) noexcept {
  Words words(sql);
  BlockEnd end;
  if (words.accept("commit") || words.accept("end")) {
    end.commit = true;
  } else if (!words.accept("rollback") && !words.accept("abort")) {
    return std::nullopt;
  }
  if (!words.accept("work")) words.accept("transaction");
  if (words.accept("and", "chain")) {
    end.chain = true;
  } else if (words.accept("and", "no")) {
    if (!words.accept("chain")) return std::nullopt;
  }
  return words.ends() ? std::optional(end) : std::nullopt;
}

bool asks_for_the_time(Bytes bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size();) {
    if (!is_letter(bytes[at])) {
      ++at;
      continue;
    }
    // A value that is bound has its length in front of it, which may look like anything: a word begins at any letter behind what
    // is none, whatever that is.
    std::size_t end = at;
    while (end < bytes.size() && (is_letter(bytes[end]) || bytes[end] == '_')) ++end;
    const Bytes word = bytes.substr(at, end - at);
    for (const std::string_view time : kTimeWords) {
      if (equals_ignoring_case(word, time)) return true;
    }
    // age(x) is up to today; a column may have that name too.
    const std::size_t behind = std::min(bytes.find_first_not_of(" \t\r\n\f\v\"", end), bytes.size());
    if (equals_ignoring_case(word, "age") && behind < bytes.size() && Bytes("(/-").find(bytes[behind]) != Bytes::npos) return true;
    at = end;
  }
  return false;
}

}  // namespace pgweir::session
