#include "sql/outline.h"

#include <bit>
#include <cstring>

#include "sql/byte_block.h"
#include "sql/hint.h"
#include "sql/scanner.h"

namespace pgweir::sql {
namespace {

using namespace scan_detail;

/// Sixteen bytes are copied at once and looked at for one that may begin something (byte_block.h). Names, operators and white
/// space in between are never looked at singly. What does begin is what Scanner finds there, or the text is left to it.
template <class Block>
class OutlineWriter {
 public:
  /// kBlockBytes bytes 0 stand behind `end`, so that reading ahead needs no look at it; `out` has room for the text and two
  /// blocks more.
  OutlineWriter(const char* begin, const char* end, char* out) noexcept : begin_(begin), end_(end), out_(out) {}

  /// Where what was written ends; null when the text is left to the scanner.
  char* write() noexcept {
    const char* at = begin_;
    char* out = out_;
    // Where the last thing that was found has ended: no name reaches from before it to behind it.
    const char* floor = at;
    for (;;) {
      const Block block = Block::load(at);
      block.store(out);
      std::uint32_t stops = block.stops();
      while (stops != 0) {
        const char* const here = at + std::countr_zero(stops);
        const bool behind_name = here != floor && is(here[-1], kNamePart);
        // It is copied up to `kept_end`, marked as a value or not, and left behind at `next`.
        const char* kept_end = here;
        const char* next = nullptr;
        bool marked = true;
        switch (*here) {
          case '\0':
            return here == end_ ? out + (here - at) : nullptr;
          case '"':
            kept_end = next = quoted_name_end(here);
            marked = false;
            break;
          case '$':
            if (behind_name) {
              stops &= stops - 1;
              continue;
            }
            if (!is_digit(here[1])) return nullptr;  // a string between dollars
            kept_end = parameter_end(here);
            next = list_end(here, kept_end, floor);
            marked = false;
            break;
          case '\'':
            // With a prefix, E'…' or U&'…', other things end it.
            if (behind_name || (here != floor && here[-1] == '&')) return nullptr;
            kept_end = here + 1;
            next = string_end(here);
            if (next != nullptr) next = list_end(here, next, floor);
            break;
          case '-':
            if (here[1] != '-') {
              stops &= stops - 1;
              continue;
            }
            kept_end = here + 2;
            next = line_comment_end(here);
            marked = false;
            commented_ = true;
            break;
          case '/':
            if (here[1] != '*') {
              stops &= stops - 1;
              continue;
            }
            kept_end = here + 2;
            next = block_comment_end(here);
            commented_ = true;
            break;
          case '#':
          case '%':
          case '&':
            stops &= stops - 1;
            continue;
          default:  // a digit
            if (behind_name) {
              stops &= stops - 1;
              continue;
            }
            if (here != floor && here[-1] == '.') {
              // The dot is the number's, unless it is the second of a range's.
              if (here - floor > 1 && here[-2] == '.') return nullptr;
              next = exponent_end(digits_end(here, end_), end_);
            } else {
              next = list_end(here, past_number(here), floor);
            }
            break;
        }
        if (next == nullptr) return nullptr;
        floor = next;
        const std::ptrdiff_t kept = kept_end - at;
        constexpr auto kBlock = static_cast<std::ptrdiff_t>(kBlockBytes);
        if (kept_end == next && kept <= kBlock) {
          stops &= ~std::uint32_t{0} << kept;
          continue;
        }
        if (kept > kBlock) std::memcpy(out, at, static_cast<std::size_t>(kept));
        out += kept;
        if (marked) *out++ = '\0';
        at = next;
        break;
      }
      if (stops == 0) {
        at += kBlockBytes;
        out += kBlockBytes;
      }
    }
  }

 private:
  /// Behind the name whose opening quote is at `at`; null when it is not closed, or a byte 0 is in it. Two quotes in it end one
  /// name and begin another: nothing is taken out of either.
  static const char* quoted_name_end(const char* at) noexcept {
    for (++at;; at += kBlockBytes) {
      const Block block = Block::load(at);
      const std::uint32_t found = block.equal('"') | block.equal('\0');
      if (found == 0) continue;
      at += std::countr_zero(found);
      return *at == '"' ? at + 1 : nullptr;
    }
  }

  /// Behind the string whose opening quote is at `at`; null when it is not closed.
  const char* string_end(const char* at) const noexcept {
    for (++at; at < end_;) {
      const std::uint32_t found = Block::load(at).equal('\'');
      if (found == 0) {
        at += kBlockBytes;
        continue;
      }
      at += std::countr_zero(found) + 1;
      if (*at != '\'') return at;
      ++at;
    }
    return nullptr;
  }

  /// Behind the number whose first digit is at `at`.
  const char* past_number(const char* at) const noexcept {
    const char* next = at + 1;
    while (is_digit(*next)) ++next;
    // Most are digits and no more.
    return is(*next, kNamePart) || *next == '.' ? number_end(at, end_) : next;
  }
  static bool is_digit(char c) noexcept { return static_cast<unsigned char>(c - '0') < 10; }

  static const char* parameter_end(const char* at) noexcept {
    for (at += 2; is_digit(*at);) ++at;
    return at;
  }

  [[gnu::noinline]] const char* line_comment_end(const char* at) const noexcept {
    while (at < end_) {
      const Block block = Block::load(at);
      const std::uint32_t found = block.equal('\n') | block.equal('\r');
      if (found != 0) return at + std::countr_zero(found);
      at += kBlockBytes;
    }
    return end_;
  }

  /// Null when it is not closed, and for a hint, which is part of the class.
  [[gnu::noinline]] const char* block_comment_end(const char* at) const noexcept {
    const char* const begin = at + 2;
    std::size_t depth = 0;
    std::uint32_t hint_letters = 0;
    while (at < end_) {
      const Block block = Block::load(at);
      hint_letters |= block.equal('p') & Block::load(at + 1).equal('g');
      const std::uint32_t found = block.equal('*') | block.equal('/');
      if (found == 0) {
        at += kBlockBytes;
        continue;
      }
      at += std::countr_zero(found);
      if (at[0] == '/' && at[1] == '*') {
        ++depth;
        at += 2;
      } else if (at[0] == '*' && at[1] == '/') {
        at += 2;
        if (--depth > 0) continue;
        // Every hint has the name of pgweir in it, and hardly any other comment has even its first two letters.
        if (hint_letters == 0) return at;
        return parse_hint(Bytes(begin, static_cast<std::size_t>(at - 2 - begin))).any() ? nullptr : at;
      } else {
        ++at;
      }
    }
    return nullptr;
  }

  /// A list of values behind IN counts as its first, as it does in the shape: where it ends, given where its first value
  /// begins and ends; the latter when this is no list. In doubt it isn't one, which costs no more than a second outline.
  const char* list_end(const char* value, const char* value_end, const char* floor) const noexcept {
    if (*value_end != ',' || value == floor || value[-1] != '(' || !behind_in(value - 1, floor)) return value_end;
    const char* end = value_end;
    for (const char* next = more_end(end); next != nullptr; next = more_end(end)) end = next;
    return end;
  }

  /// Whether IN is in front of the parenthesis at `at`, and is not the name of a function in a schema.
  [[gnu::noinline]] bool behind_in(const char* at, const char* floor) const noexcept {
    // A comment could hide the dot.
    if (commented_) return false;
    while (at != floor && is(at[-1], kSpace)) --at;
    if (at - floor < 2 || (at[-1] | 0x20) != 'n' || (at[-2] | 0x20) != 'i') return false;
    at -= 2;
    if (at != floor && is(at[-1], kNamePart)) return false;
    while (at != floor && is(at[-1], kSpace)) --at;
    return at == floor || at[-1] != '.';
  }

  /// Behind the next value of a list that goes on at `at`; null when it does not, or not so that the value ends there for sure.
  const char* more_end(const char* at) const noexcept {
    if (*at != ',') return nullptr;
    do {
      ++at;
    } while (is(*at, kSpace));
    if (is_digit(*at)) {
      at = past_number(at);
    } else if (*at == '\'') {
      at = string_end(at);
    } else if (*at == '$' && is_digit(at[1])) {
      at = parameter_end(at);
    } else {
      return nullptr;
    }
    return at != nullptr && (*at == ',' || *at == ')') ? at : nullptr;
  }

  const char* begin_;
  const char* end_;
  char* out_;
  bool commented_ = false;
};

template <class Block>
std::optional<Bytes> write(Bytes text, std::vector<char>& scratch) {
  constexpr std::size_t kSlack = 4 * kBlockBytes;
  if (scratch.size() < 2 * text.size() + kSlack) scratch.resize(2 * text.size() + kSlack);
  // The text is read in a copy: reading whole blocks where it lies could reach past the end of what may be read.
  char* const copy = scratch.data();
  char* const copy_end = copy + text.size();
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  std::memset(copy_end, 0, kBlockBytes);
  char* const outline = copy_end + kBlockBytes;
  const char* const end = OutlineWriter<Block>(copy, copy_end, outline).write();
  if (end == nullptr) return std::nullopt;
  return Bytes(outline, static_cast<std::size_t>(end - outline));
}

}  // namespace

std::optional<Shape> outline_of(Bytes text, ShapeKey key, std::vector<char>& scratch) {
  const std::optional<Bytes> outline = write<ByteBlock>(text, scratch);
  if (!outline) return std::nullopt;
  return keyed_hash(key, scratch.data() + (outline->data() - scratch.data()), outline->size());
}

std::optional<Bytes> write_outline(Bytes text, std::vector<char>& scratch) { return write<ByteBlock>(text, scratch); }

std::optional<Bytes> write_outline_portably(Bytes text, std::vector<char>& scratch) {
  return write<PortableBlock>(text, scratch);
}

}  // namespace pgweir::sql
