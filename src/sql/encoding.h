// Client encodings in which a byte that looks like ASCII may be part of a character: the second byte of an ideograph may be a
// quote's or a backslash's. PostgreSQL converts a text before it reads it; so do we, as far as reading it needs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace pgweir::sql {

enum class Encoding : std::uint8_t {
  ascii_safe,   ///< ASCII bytes are ASCII: UTF8, all server encodings, and the single-byte ones
  sjis,         ///< SJIS, SHIFT_JIS_2004
  double_byte,  ///< BIG5, GBK, UHC
  gb18030,
  johab,
};

/// By the value of client_encoding: PostgreSQL looks at letters and digits alone, in any case.
Encoding encoding_named(Bytes name) noexcept;

/// Copies `text` to `out`. Each byte of what is not ASCII becomes two bytes from 0xF0 to 0xFF: never ASCII, never UTF-8, and
/// different characters stay different. False when a character is broken, which PostgreSQL reports.
bool without_hidden_ascii(Encoding encoding, Bytes text, std::vector<char>& out);

}  // namespace pgweir::sql
