// protocol: PostgreSQL's wire format, bytes to messages and messages to bytes. It keeps no
// connection and knows no session: the Framer cuts, Reader and the views of extended.h,
// error_fields.h and startup.h read, Writer and the append_ functions of writer.h write.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

namespace pgweir::protocol {

/// Type letter and length.
inline constexpr std::size_t kHeaderSize = 5;

/// A message, or the part of a long one that has arrived. `bytes` is what is passed on as it is.
struct Slice {
  char type = 0;
  std::uint32_t size = 0;  ///< Of the whole message's body: the length field less its own four.
  Bytes bytes;             ///< As on the wire; with the header when `first`.
  bool first = false;
  bool last = false;

  /// What `bytes` holds of the body.
  Bytes body() const noexcept { return first ? bytes.substr(kHeaderSize) : bytes; }
  bool whole() const noexcept { return first && last; }
};

/// Cuts a stream of bytes into messages without a buffer. Only a header that two reads share is
/// kept, in five bytes; the slice that it then begins consists of these five bytes alone:
///
///   reads     |Q....select 1 Z.|...I|          slices   |Q....select 1 |Z....|I|
///                                                                         first  last
class Framer {
 public:
  /// A length field above `size_max` (it counts itself: at least 4) breaks the stream.
  explicit Framer(std::uint32_t size_max = 0x7fffffff) noexcept : size_max_(size_max) {}

  /// Takes the next message, or as much of it as there is, off the front of `input`. nullopt:
  /// `input` is used up, or the stream is broken(). The slice is valid until the next call and as
  /// long as the input's bytes.
  std::optional<Slice> next(Bytes& input) noexcept {
    if (remaining_ > 0) [[unlikely]]
      return next_of_body(input);
    if (header_size_ > 0 || input.size() < kHeaderSize) [[unlikely]]
      return finish_header(input);
    if (!take_header(input.data())) [[unlikely]]
      return std::nullopt;
    const std::size_t here = std::min<std::size_t>(input.size(), kHeaderSize + size_);
    remaining_ = static_cast<std::uint32_t>(kHeaderSize + size_ - here);
    const Slice slice{type_, size_, input.substr(0, here), true, remaining_ == 0};
    input.remove_prefix(here);
    return slice;
  }

  /// A length below 4 or above the maximum was read: nothing behind it can be understood.
  bool broken() const noexcept { return broken_; }
  /// Body bytes of the current message that have not come yet.
  std::uint32_t remaining() const noexcept { return remaining_; }
  /// Whether a message, or its header, has come in part: a peer that closes now broke off.
  bool in_message() const noexcept { return remaining_ > 0 || header_size_ > 0; }
  /// `slice` is a header that two reads shared: it is gone with the next call.
  bool keeps(const Slice& slice) const noexcept { return slice.bytes.data() == header_.data(); }
  /// For another maximum once the peer has logged in.
  void limit(std::uint32_t size_max) noexcept { size_max_ = size_max; }

 private:
  bool take_header(const char* header) noexcept {
    if (broken_) return false;
    const std::uint32_t length = load_u32(header + 1);
    if (length < 4 || length > size_max_) {
      broken_ = true;
      return false;
    }
    type_ = header[0];
    size_ = length - 4;
    return true;
  }

  std::optional<Slice> next_of_body(Bytes& input) noexcept {
    if (input.empty()) return std::nullopt;
    const std::size_t here = std::min<std::size_t>(input.size(), remaining_);
    remaining_ -= static_cast<std::uint32_t>(here);
    const Slice slice{type_, size_, input.substr(0, here), false, remaining_ == 0};
    input.remove_prefix(here);
    return slice;
  }

  std::optional<Slice> finish_header(Bytes& input) noexcept {
    const std::size_t here = std::min(input.size(), kHeaderSize - header_size_);
    std::copy_n(input.data(), here, header_.data() + header_size_);
    header_size_ = static_cast<std::uint8_t>(header_size_ + here);
    input.remove_prefix(here);
    if (header_size_ < kHeaderSize) return std::nullopt;
    header_size_ = 0;
    if (!take_header(header_.data())) return std::nullopt;
    remaining_ = size_;
    return Slice{type_, size_, Bytes(header_.data(), kHeaderSize), true, remaining_ == 0};
  }

  std::uint32_t size_max_;
  std::uint32_t size_ = 0;
  std::uint32_t remaining_ = 0;
  std::array<char, kHeaderSize> header_{};
  std::uint8_t header_size_ = 0;  ///< Of header_, while a header has come in part.
  char type_ = 0;
  bool broken_ = false;
};

/// The size on the wire, header included, of the message at the front of `input`; nullopt until its
/// header is there. Says nothing about whether the length makes sense.
inline std::optional<std::uint64_t> peek_wire_size(Bytes input) noexcept {
  if (input.size() < kHeaderSize) return std::nullopt;
  return std::uint64_t{load_u32(input.data() + 1)} + 1;
}

/// Puts the slices of a message that must be read as a whole together again; a whole slice costs no
/// copy. The caller bounds what it collects by looking at Slice::size first.
class Collector {
 public:
  /// The body once `slice` completes it, valid until the next call; nullopt while parts are
  /// missing.
  std::optional<Bytes> add(const Slice& slice) {
    if (slice.whole()) return slice.body();
    if (slice.first) body_.clear();
    body_ += slice.body();
    if (!slice.last) return std::nullopt;
    done_.swap(body_);
    body_.clear();
    return Bytes(done_);
  }

 private:
  std::string body_;
  std::string done_;
};

}  // namespace pgweir::protocol
