// The tokens of a text, kept for the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "sql/hint.h"
#include "sql/scanner.h"
#include "sql/words.h"

namespace pgweir::sql {

struct Token {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
  TokenType type = TokenType::other;
  Word word = Word::none;  ///< of an unquoted name
  WordKind kind = WordKind::name;
};

using Tokens = std::span<const Token>;

class TokenSink {
 public:
  /// `tokens` is emptied and filled; its memory is the caller's to keep.
  TokenSink(Bytes text, std::vector<Token>& tokens) : text_(text), tokens_(tokens) {
    tokens_.clear();
  }

  void token(TokenType type, const char* begin, const char* end) {
    Token token{static_cast<std::uint32_t>(begin - text_.data()),
                static_cast<std::uint32_t>(end - begin), type};
    if (type == TokenType::name) {
      const WordEntry& entry = find_word(Bytes(begin, token.size));
      token.word = entry.word;
      token.kind = entry.kind;
    }
    tokens_.push_back(token);
  }
  void comment(Bytes comment) noexcept {
    const CommentHint hint = parse_hint(comment);
    // Doubt means primary, also between hints that disagree.
    if (hint_.target != Hint::primary && hint.target != Hint::none) hint_.target = hint.target;
    hint_.named = hint_.named || hint.named;
  }
  CommentHint seen_hint() const noexcept { return hint_; }

 private:
  Bytes text_;
  std::vector<Token>& tokens_;
  CommentHint hint_;
};

inline Bytes text_of(Bytes text, const Token& token) noexcept {
  return text.substr(token.begin, token.size);
}
inline bool is_any_name(const Token& token) noexcept {
  return token.type == TokenType::name || token.type == TokenType::quoted_name ||
         token.type == TokenType::unicode_name;
}

}  // namespace pgweir::sql
