#include "tokens/lsn.h"

#include <catch2/catch.hpp>

namespace pgweir::tokens {

TEST_CASE("an LSN is read and printed as PostgreSQL writes it", "[tokens]") {
  CHECK(parse_lsn("16/B374D848") == Lsn{0x16'B374D848});
  CHECK(parse_lsn("0/0") == Lsn{0});
  CHECK(parse_lsn("ffffffff/ffffffff") == Lsn{0xFFFFFFFF'FFFFFFFF});
  CHECK(to_string(Lsn{0x16'B374D848}) == "16/B374D848");
  CHECK(to_string(Lsn{0x1'00000000}) == "1/0");
}

TEST_CASE("what is not an LSN is refused", "[tokens]") {
  for (const char* text : {"", "/", "16", "16/", "/16", "16/B374D8481", "123456789/0", "1/2/3",
                           "g/0", "0x1/0", " 1/0", "1/0 ", "-1/0"}) {
    INFO(text);
    CHECK_FALSE(parse_lsn(text));
  }
}

TEST_CASE("pitfall 26: an insert LSN behind a page header is taken back to the page start",
          "[tokens]") {
  const WalGeometry geometry;
  CHECK(before_page_header(Lsn{0x1002018}, geometry) == Lsn{0x1002000});
  CHECK(before_page_header(Lsn{0x2000028}, geometry) ==
        Lsn{0x2000000});  // A segment begins: 40 bytes.
}

TEST_CASE("other insert LSNs stay as they are", "[tokens]") {
  const WalGeometry geometry;
  for (std::uint64_t value :
       {0x1002000ULL, 0x1002028ULL, 0x1002020ULL, 0x2000018ULL, 0x2000000ULL, 0x1003010ULL}) {
    CHECK(before_page_header(Lsn{value}, geometry) == Lsn{value});
  }
  CHECK(before_page_header(Lsn{24}, WalGeometry{.block_bytes = 0, .segment_bytes = 0}) == Lsn{24});
  // Segments and pages of another size.
  const WalGeometry large{.block_bytes = 32768, .segment_bytes = 64U << 20};
  CHECK(before_page_header(Lsn{0x1002018}, large) == Lsn{0x1002018});
  CHECK(before_page_header(Lsn{0x1008018}, large) == Lsn{0x1008000});
}

}  // namespace pgweir::tokens
