#include "sql/encoding.h"

#include <cstddef>

namespace pgweir::sql {
namespace {

using Byte = unsigned char;

bool within(Byte byte, int first, int last) noexcept { return byte >= first && byte <= last; }

/// Bytes of the character that begins `text`, whose first byte is not ASCII; 0 when it is broken.
std::size_t character_size(Encoding encoding, Bytes text) noexcept {
  const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<Byte>(text[i]) : Byte{0}; };
  const Byte first = byte(0);
  switch (encoding) {
    case Encoding::ascii_safe:
      return 1;
    case Encoding::sjis:
      if (within(first, 0xA1, 0xDF)) return 1;  // half-width katakana
      return (within(first, 0x81, 0x9F) || within(first, 0xE0, 0xFC)) &&
                     (within(byte(1), 0x40, 0x7E) || within(byte(1), 0x80, 0xFC))
                 ? 2
                 : 0;
    case Encoding::double_byte:
      return within(byte(1), 0x40, 0x7E) || within(byte(1), 0x80, 0xFE) ? 2 : 0;
    case Encoding::gb18030:
      if (!within(first, 0x81, 0xFE)) return 0;
      if (within(byte(1), 0x30, 0x39)) return within(byte(2), 0x81, 0xFE) && within(byte(3), 0x30, 0x39) ? 4 : 0;
      return within(byte(1), 0x40, 0x7E) || within(byte(1), 0x80, 0xFE) ? 2 : 0;
    case Encoding::johab: {
      // PostgreSQL takes it for an EUC: all bytes of a character are beyond ASCII.
      const std::size_t size = first == 0x8F ? 3 : 2;
      for (std::size_t i = 1; i < size; ++i) {
        if (!within(byte(i), 0xA1, 0xFE)) return 0;
      }
      return size;
    }
  }
  return 0;
}

}  // namespace

Encoding encoding_named(Bytes name) noexcept {
  struct Named {
    Bytes name;
    Encoding encoding;
  };
  static constexpr Named kNames[] = {
      {"big5", Encoding::double_byte},       {"gb18030", Encoding::gb18030},
      {"gbk", Encoding::double_byte},        {"johab", Encoding::johab},
      {"mskanji", Encoding::sjis},           {"shiftjis", Encoding::sjis},
      {"shiftjis2004", Encoding::sjis},      {"sjis", Encoding::sjis},
      {"uhc", Encoding::double_byte},        {"win932", Encoding::sjis},
      {"win936", Encoding::double_byte},     {"win949", Encoding::double_byte},
      {"win950", Encoding::double_byte},     {"windows932", Encoding::sjis},
      {"windows936", Encoding::double_byte}, {"windows949", Encoding::double_byte},
      {"windows950", Encoding::double_byte},
  };
  char clean[16];
  std::size_t size = 0;
  for (char c : name) {
    const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    const bool counts = (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9');
    if (!counts) continue;
    if (size == sizeof clean) return Encoding::ascii_safe;  // longer than any of them
    clean[size++] = low;
  }
  for (const Named& known : kNames) {
    if (known.name == Bytes(clean, size)) return known.encoding;
  }
  return Encoding::ascii_safe;
}

bool without_hidden_ascii(Encoding encoding, Bytes text, std::vector<char>& out) {
  out.clear();
  out.reserve(text.size() * 2);
  while (!text.empty()) {
    if ((static_cast<Byte>(text.front()) & 0x80) == 0) {
      out.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    const std::size_t size = character_size(encoding, text);
    if (size == 0) return false;
    for (char c : text.substr(0, size)) {
      out.push_back(static_cast<char>(0xF0 | static_cast<Byte>(c) >> 4));
      out.push_back(static_cast<char>(0xF0 | (static_cast<Byte>(c) & 0x0F)));
    }
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace pgweir::sql
