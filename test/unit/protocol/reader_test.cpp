#include "protocol/reader.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;
using namespace pgweir::protocol;

TEST_CASE("a reader reads numbers big-endian, strings and the rest", "[protocol]") {
  const std::string body("\x01\xff\xfe\x80\x00\x00\x01name\0abcdef", 18);
  Reader reader(body);
  CHECK(reader.u8() == 1);
  CHECK(reader.i16() == -2);
  CHECK(reader.u32() == 0x80000001u);
  CHECK(reader.cstring() == "name");
  CHECK(reader.bytes(2) == "ab");
  CHECK_FALSE(reader.at_end());
  CHECK(reader.left() == 4);
  CHECK(reader.rest() == "cdef");
  CHECK(reader.at_end());
  CHECK_FALSE(reader.failed());
}

TEST_CASE("a reader that ran out stays failed and gives zero and nothing", "[protocol]") {
  Reader reader(Bytes("\x01\x02\x03", 3));
  CHECK(reader.u32() == 0);
  CHECK(reader.failed());
  CHECK(reader.u8() == 0);
  CHECK(reader.rest().empty());
  CHECK(reader.at_end());
}

TEST_CASE("a string without its zero byte fails", "[protocol]") {
  Reader reader("abc");
  CHECK(reader.cstring().empty());
  CHECK(reader.failed());
}

TEST_CASE("empty strings and empty bytes at the end are no failure", "[protocol]") {
  Reader reader(Bytes("\0", 1));
  CHECK(reader.cstring().empty());
  CHECK(reader.bytes(0).empty());
  CHECK(reader.rest().empty());
  CHECK_FALSE(reader.failed());
}
