#include "protocol/framer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

struct Message {
  char type;
  std::string body;

  bool operator==(const Message&) const = default;
};

std::string header(char type, std::uint32_t length) {
  std::string bytes(5, type);
  store_u32(bytes.data() + 1, length);
  return bytes;
}

/// Feeds one read and gathers messages and all wire bytes, checking each slice on the way.
struct Feed {
  Framer framer;
  Collector collector;
  std::vector<Message> messages;
  std::string wire;
  std::uint32_t body_so_far = 0;

  void operator()(Bytes input) {
    while (const std::optional<Slice> slice = framer.next(input)) {
      if (slice->first) body_so_far = 0;
      body_so_far += static_cast<std::uint32_t>(slice->body().size());
      CHECK(slice->last == (body_so_far == slice->size));
      CHECK(framer.remaining() == slice->size - body_so_far);
      CHECK_FALSE(slice->bytes.empty());
      wire += slice->bytes;
      if (const std::optional<Bytes> body = collector.add(*slice))
        messages.push_back({slice->type, std::string(*body)});
    }
    CHECK(input.empty());
  }
};

std::string three_messages() {
  std::string stream;
  append_query(stream, "select 1");
  append_sync(stream);
  append_command_complete(stream, "SELECT 1");
  return stream;
}
const std::vector<Message> kThree = {
    {'Q', std::string("select 1\0", 9)}, {'S', ""}, {'C', std::string("SELECT 1\0", 9)}};

}  // namespace

TEST_CASE("a framer gives the same messages wherever two cuts split the stream", "[protocol]") {
  const std::string stream = three_messages();
  for (std::size_t a = 0; a <= stream.size(); ++a) {
    for (std::size_t b = a; b <= stream.size(); ++b) {
      Feed feed;
      feed(Bytes(stream).substr(0, a));
      feed(Bytes(stream).substr(a, b - a));
      feed(Bytes(stream).substr(b));
      REQUIRE(feed.messages == kThree);
      REQUIRE(feed.wire == stream);
      REQUIRE_FALSE(feed.framer.in_message());
    }
  }
}

TEST_CASE("a framer gives the same messages when the stream comes byte by byte", "[protocol]") {
  const std::string stream = three_messages();
  Feed feed;
  for (char c : stream) feed(Bytes(&c, 1));
  CHECK(feed.messages == kThree);
  CHECK(feed.wire == stream);
}

TEST_CASE("a whole message is one slice of the input, not a copy", "[protocol]") {
  const std::string stream = three_messages();
  Bytes input = stream;
  Framer framer;
  const std::optional<Slice> slice = framer.next(input);
  REQUIRE(slice);
  CHECK(slice->whole());
  CHECK(slice->bytes.data() == stream.data());
  CHECK(slice->size == 9);
  CHECK(slice->body() == Bytes("select 1\0", 9));
}

TEST_CASE("a header that two reads share becomes a slice of its own five bytes", "[protocol]") {
  const std::string stream = three_messages();
  Framer framer;
  Bytes input = Bytes(stream).substr(0, 3);
  CHECK_FALSE(framer.next(input));
  CHECK(framer.in_message());
  input = Bytes(stream).substr(3, 11);
  std::optional<Slice> slice = framer.next(input);
  REQUIRE(slice);
  CHECK(slice->bytes == Bytes(stream).substr(0, 5));
  CHECK((slice->first && !slice->last));
  CHECK(slice->body().empty());
  slice = framer.next(input);
  REQUIRE(slice);
  CHECK((!slice->first && slice->last));
}

TEST_CASE("a message longer than memory passes through in parts", "[protocol]") {
  Framer framer;
  const std::string begin = header('D', 0x7fffffff);
  Bytes input = begin;
  std::optional<Slice> slice = framer.next(input);
  REQUIRE(slice);
  CHECK(slice->size == 0x7ffffffb);
  CHECK_FALSE(slice->last);
  const std::string megabyte(1 << 20, 'x');
  for (int i = 0; i < 2047; ++i) {
    input = megabyte;
    slice = framer.next(input);
    REQUIRE((slice && !slice->last && slice->bytes.size() == megabyte.size()));
  }
  input = megabyte;
  slice = framer.next(input);
  REQUIRE(slice);
  CHECK(slice->last);
  CHECK(slice->bytes.size() == megabyte.size() - 5);
  CHECK(input.size() == 5);
}

TEST_CASE("a length below four or above the maximum breaks the stream for good", "[protocol]") {
  for (const std::uint32_t length : {0u, 3u, 101u, 0x80000000u, 0xffffffffu}) {
    for (const std::size_t cut : {std::size_t{5}, std::size_t{2}}) {
      Framer framer(100);
      const std::string bad = header('Q', length);
      Bytes input = Bytes(bad).substr(0, cut);
      CHECK_FALSE(framer.next(input));
      input = Bytes(bad).substr(cut);
      if (cut < 5) CHECK_FALSE(framer.next(input));
      CHECK(framer.broken());
      std::string good;
      append_sync(good);
      input = good;
      CHECK_FALSE(framer.next(input));
    }
  }
}

TEST_CASE("a length at the maximum passes, and the maximum can be raised later", "[protocol]") {
  Framer framer(100);
  const std::string message = header('Q', 100) + std::string(96, 'x');
  Bytes input = message;
  REQUIRE(framer.next(input));
  framer.limit(200);
  const std::string longer = header('Q', 200) + std::string(196, 'x');
  input = longer;
  REQUIRE(framer.next(input));
  CHECK_FALSE(framer.broken());
}

TEST_CASE("the wire size of a message can be seen before it has come", "[protocol]") {
  const std::string stream = three_messages();
  CHECK_FALSE(peek_wire_size(Bytes(stream).substr(0, 4)));
  CHECK(peek_wire_size(Bytes(stream).substr(0, 5)) == 14u);
}
