// Reads the fields of a message's body, one after another.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace pgweir::protocol {

/// A cursor over a body. What is not there reads as zero or empty, and failed() stays true from
/// then on, so a parser reads all its fields and asks once.
class Reader {
 public:
  explicit Reader(Bytes bytes) noexcept : left_(bytes) {}

  std::uint8_t u8() noexcept {
    return has(1) ? static_cast<std::uint8_t>(take(1)[0]) : std::uint8_t{0};
  }
  std::uint16_t u16() noexcept { return has(2) ? load_u16(take(2).data()) : std::uint16_t{0}; }
  std::int16_t i16() noexcept { return static_cast<std::int16_t>(u16()); }
  std::uint32_t u32() noexcept { return has(4) ? load_u32(take(4).data()) : 0; }
  std::int32_t i32() noexcept { return static_cast<std::int32_t>(u32()); }
  /// Up to the next zero byte, which is passed over and not part of the result.
  Bytes cstring() noexcept {
    const std::size_t end = left_.find('\0');
    if (end == Bytes::npos) return fail();
    const Bytes text = take(end);
    left_.remove_prefix(1);
    return text;
  }
  Bytes bytes(std::size_t size) noexcept { return has(size) ? take(size) : Bytes(); }
  /// All that is left.
  Bytes rest() noexcept { return take(left_.size()); }

  bool failed() const noexcept { return failed_; }
  bool at_end() const noexcept { return left_.empty(); }
  std::size_t left() const noexcept { return left_.size(); }

 private:
  Bytes fail() noexcept {
    failed_ = true;
    left_ = {};
    return {};
  }
  bool has(std::size_t size) noexcept {
    if (size <= left_.size()) return true;
    fail();
    return false;
  }
  Bytes take(std::size_t size) noexcept {
    const Bytes taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  Bytes left_;
  bool failed_ = false;
};

}  // namespace pgweir::protocol
