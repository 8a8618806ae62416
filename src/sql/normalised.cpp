#include "sql/normalised.h"

#include <algorithm>
#include <vector>

#include "sql/scanner.h"

namespace pgweir::sql {
namespace {

constexpr Bytes kCutMark = "...";

/// Follows ShapeSink in what it leaves out.
class WritingSink {
 public:
  explicit WritingSink(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void token(TokenType type, const char* begin, const char* end) {
    const bool gap = last_end_ != nullptr && last_end_ != begin;
    last_end_ = end;
    if (full()) return;
    switch (type) {
      case TokenType::literal:
      case TokenType::number:
      case TokenType::parameter:
        if (list_ == List::comma) {
          list_ = List::value;
          return;
        }
        write(gap, type == TokenType::parameter ? Bytes(begin, static_cast<std::size_t>(end - begin)) : Bytes("?"));
        list_ = list_ == List::open ? List::value : List::no;
        return;
      case TokenType::comma:
        if (list_ == List::value) {
          list_ = List::comma;
          return;
        }
        break;
      case TokenType::name:
      case TokenType::quoted_name:
      case TokenType::unicode_name:
      case TokenType::op:
      case TokenType::left_paren:
      case TokenType::right_paren:
      case TokenType::left_bracket:
      case TokenType::right_bracket:
      case TokenType::dot:
      case TokenType::semicolon:
      case TokenType::cast:
      case TokenType::other:
        break;
    }
    const bool after_in = list_ == List::in;
    const bool after_dot = list_ == List::dot;
    if (list_ == List::comma) out_ += ',';
    const Bytes word(begin, static_cast<std::size_t>(end - begin));
    write(gap, word);
    list_ = List::no;
    if (type == TokenType::dot) list_ = List::dot;
    if (type == TokenType::left_paren && after_in) list_ = List::open;
    const bool is_in = type == TokenType::name && word.size() == 2 && (word[0] | 0x20) == 'i' && (word[1] | 0x20) == 'n';
    if (is_in && !after_dot) list_ = List::in;
  }
  void comment(Bytes) noexcept {}
  bool full() const noexcept { return out_.size() > bytes_max_; }
  std::string take() { return std::move(out_); }

 private:
  enum class List : std::uint8_t { no, dot, in, open, value, comma };

  void write(bool gap, Bytes word) {
    if (gap) out_ += ' ';
    // A name may be as long as the text.
    out_ += word.substr(0, bytes_max_ + 1);
  }

  std::size_t bytes_max_;
  const char* last_end_ = nullptr;
  List list_ = List::no;
  std::string out_;
};

/// How many bytes the valid UTF-8 character at `at` has; 0 when there is none.
std::size_t character_size(Bytes text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  // Too long a form, a surrogate, or past the last character.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return size;
}

std::string printable(Bytes text, std::size_t bytes_max) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text, at);
    const bool control = size == 1 && (static_cast<unsigned char>(text[at]) < 0x20 || text[at] == 0x7F);
    const Bytes piece = size == 0 ? Bytes("?") : control ? Bytes(" ") : text.substr(at, size);
    if (out.size() + piece.size() > bytes_max) {
      while (out.size() + kCutMark.size() > bytes_max && !out.empty()) {
        // The whole last character.
        do {
          const bool inner = (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U;
          out.pop_back();
          if (!inner) break;
        } while (!out.empty());
      }
      return out.append(kCutMark);
    }
    out += piece;
    at += std::max<std::size_t>(size, 1);
  }
  return out;
}

}  // namespace

std::string normalised(Bytes text, Dialect dialect, std::size_t bytes_max) {
  std::vector<char> converted;
  if (dialect.encoding != Encoding::ascii_safe) {
    if (!without_hidden_ascii(dialect.encoding, text, converted)) return {};
    text = Bytes(converted.data(), converted.size());
  }
  WritingSink sink(bytes_max);
  // What a broken text began with is as good as the whole.
  (void)Scanner<WritingSink>(text, dialect, sink).run();
  return printable(sink.take(), bytes_max);
}

}  // namespace pgweir::sql
