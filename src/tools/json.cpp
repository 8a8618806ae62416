#include "tools/json.h"

#include <cstdint>

#include "base/text.h"

namespace pgweir::tools {
namespace {

constexpr int kDepthMax = 100;

/// The length of the UTF-8 character that `text` begins with; 0 when it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  std::size_t length = 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF)
    length = 2;
  else if (first >= 0xE0 && first <= 0xEF)
    length = 3;
  else if (first >= 0xF0 && first <= 0xF4)
    length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool not_a_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || not_a_character ? 0 : length;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | (code >> 6));
  } else {
    if (code < 0x10000) {
      add(0xE0 | (code >> 12));
    } else {
      add(0xF0 | (code >> 18));
      add(0x80 | ((code >> 12) & 0x3F));
    }
    add(0x80 | ((code >> 6) & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text), size_(text.size()) {}

  Result<std::optional<std::string>> find(std::string_view name) {
    std::optional<std::string> found;
    skip_space();
    if (!take('{')) return fail("an object");
    skip_space();
    if (!take('}')) {
      do {
        skip_space();
        std::string key;
        if (!string(key)) return fail("a field's name");
        skip_space();
        if (!take(':')) return fail("a colon");
        skip_space();
        if (key == name) {
          std::string value;
          if (!string(value)) return fail(concat({"a string in field \"", name, "\""}));
          found = std::move(value);
        } else if (!value(0)) {
          return fail("a value");
        }
        skip_space();
      } while (take(','));
      if (!take('}')) return fail("a comma or the object's end");
    }
    skip_space();
    if (!rest_.empty()) return fail("nothing behind the object");
    return found;
  }

 private:
  Error fail(std::string_view expected) const {
    return Error(
        concat({"byte ", std::to_string(size_ - rest_.size() + 1), ": expected ", expected}));
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_space() {
    while (!rest_.empty() &&
           (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r' || rest_[0] == '\n')) {
      rest_.remove_prefix(1);
    }
  }

  bool value(int depth) {
    if (depth > kDepthMax || rest_.empty()) return false;
    std::string ignored;
    switch (rest_.front()) {
      case '"':
        return string(ignored);
      case '{':
        return list('}', depth);
      case '[':
        return list(']', depth);
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }
  bool word(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool list(char end, int depth) {
    rest_.remove_prefix(1);
    skip_space();
    if (take(end)) return true;
    do {
      skip_space();
      if (end == '}') {
        std::string key;
        if (!string(key)) return false;
        skip_space();
        if (!take(':')) return false;
        skip_space();
      }
      if (!value(depth + 1)) return false;
      skip_space();
    } while (take(','));
    return take(end);
  }
  bool digits() {
    std::size_t count = 0;
    while (count < rest_.size() && rest_[count] >= '0' && rest_[count] <= '9') ++count;
    rest_.remove_prefix(count);
    return count > 0;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }

  bool string(std::string& out) {
    if (!take('"')) return false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '"') return take('"');
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\') {
        rest_.remove_prefix(1);
        if (!escape(out)) return false;
        continue;
      }
      const std::size_t length = utf8_length(rest_);
      if (length == 0) return false;
      out += rest_.substr(0, length);
      rest_.remove_prefix(length);
    }
    return false;
  }
  bool escape(std::string& out) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out += c;
        return true;
      case 'b':
        out += '\b';
        return true;
      case 'f':
        out += '\f';
        return true;
      case 'n':
        out += '\n';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 't':
        out += '\t';
        return true;
      case 'u':
        break;
      default:
        return false;
    }
    std::uint32_t code = 0;
    if (!hex4(code) || (code >= 0xDC00 && code < 0xE000)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      std::uint32_t low = 0;
      if (!take('\\') || !take('u') || !hex4(low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
    return true;
  }
  bool hex4(std::uint32_t& code) {
    if (rest_.size() < 4) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = rest_[static_cast<std::size_t>(i)];
      const char low = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9')
        code = code * 16 + static_cast<std::uint32_t>(c - '0');
      else if (low >= 'a' && low <= 'f')
        code = code * 16 + static_cast<std::uint32_t>(low - 'a' + 10);
      else
        return false;
    }
    rest_.remove_prefix(4);
    return true;
  }

  std::string_view rest_;
  std::size_t size_;
};

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[c & 0x0F];
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

Result<std::optional<std::string>> find_json_string(std::string_view line, std::string_view name) {
  return Reader(line).find(name);
}

}  // namespace pgweir::tools
