// tokens: which WAL position a reader's replica must have replayed, and how that is learnt. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

namespace pgweir::tokens {

/// A position in the WAL. 0 is before everything.
struct Lsn {
  std::uint64_t value = 0;
  auto operator<=>(const Lsn&) const noexcept = default;
};

/// "16/B374D848", as PostgreSQL prints pg_lsn; nullopt when it is not one.
std::optional<Lsn> parse_lsn(Bytes text) noexcept;
std::string to_string(Lsn lsn);

/// How the primary lays out its WAL, needed for the page-boundary rule.
struct WalGeometry {
  std::uint32_t block_bytes = 8192;
  std::uint64_t segment_bytes = 16U << 20;
};

/// An insert LSN that lies exactly behind a page header (24 bytes, 40 at a segment's start) taken
/// back to the page's start: a replica that has replayed all reports the latter
/// (docs/internals/decisions.md).
Lsn before_page_header(Lsn insert, WalGeometry geometry) noexcept;

/// A position on a timeline.
struct Token {
  std::uint32_t timeline = 0;
  Lsn lsn;
  auto operator<=>(const Token&) const noexcept = default;
};

}  // namespace pgweir::tokens
