#include "protocol/extended.h"

#include <catch2/catch.hpp>
#include <string>

#include "protocol/framer.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

Bytes body_of(const std::string& message) { return Bytes(message).substr(kHeaderSize); }

std::string sample_parse(Bytes name) {
  std::string out;
  const std::uint32_t types[] = {23, 0xffffffff};
  append_parse(out, name, "select $1, $2", types);
  return out;
}

std::string sample_bind(Bytes statement) {
  std::string out;
  const std::optional<Bytes> values[] = {Bytes("a\0b", 3), std::nullopt};
  append_bind(out, "portal", statement, values);
  return out;
}

}  // namespace

TEST_CASE("a Parse is read in place", "[protocol]") {
  const std::string message = sample_parse("client's name");
  const std::optional<Parse> parse = parse_parse(body_of(message));
  REQUIRE(parse);
  CHECK(parse->name == "client's name");
  CHECK(parse->query == "select $1, $2");
  REQUIRE(parse->types.size() == 2);
  CHECK(parse->types[0] == 23);
  CHECK(parse->types[1] == 0xffffffff);
}

TEST_CASE("messages get another statement name and stay what they were otherwise", "[protocol]") {
  const std::string parse = sample_parse("old"), bind = sample_bind("old");
  std::string out;
  append_renamed(out, *parse_parse(body_of(parse)), "a longer new name");
  CHECK(out == sample_parse("a longer new name"));
  out.clear();
  append_renamed(out, *parse_bind(body_of(bind)), "");
  CHECK(out == sample_bind(""));

  std::string describe, wanted;
  append_describe(describe, 'S', "old");
  append_describe(wanted, 'S', "new");
  out.clear();
  append_renamed_describe(out, *parse_describe(body_of(describe)), "new");
  CHECK(out == wanted);

  std::string close;
  wanted.clear();
  append_close(close, 'S', "old");
  append_close(wanted, 'S', "new");
  out.clear();
  append_renamed_close(out, *parse_close(body_of(close)), "new");
  CHECK(out == wanted);
}

TEST_CASE("Bind, Describe and Execute are read in place", "[protocol]") {
  const std::string message = sample_bind("s");
  const std::optional<Bind> bind = parse_bind(body_of(message));
  REQUIRE(bind);
  CHECK(bind->portal == "portal");
  CHECK(bind->statement == "s");
  std::string out;
  append_describe(out, 'P', "p");
  const std::optional<Target> target = parse_describe(body_of(out));
  REQUIRE(target);
  CHECK_FALSE(target->is_statement());
  CHECK(target->name == "p");
  out.clear();
  append_execute(out, "p", 5);
  const std::optional<Execute> execute = parse_execute(body_of(out));
  REQUIRE(execute);
  CHECK(execute->portal == "p");
  CHECK(execute->max_rows == 5);
}

TEST_CASE("no message that lacks a byte or has one too many is taken for a whole one",
          "[protocol]") {
  const std::string parse = sample_parse("n");
  std::string describe, execute;
  append_describe(describe, 'S', "n");
  append_execute(execute, "p", 5);
  for (std::size_t i = 0; i < body_of(parse).size(); ++i)
    CHECK_FALSE(parse_parse(body_of(parse).substr(0, i)));
  for (std::size_t i = 0; i < body_of(describe).size(); ++i) {
    CHECK_FALSE(parse_describe(body_of(describe).substr(0, i)));
  }
  for (std::size_t i = 0; i < body_of(execute).size(); ++i)
    CHECK_FALSE(parse_execute(body_of(execute).substr(0, i)));
  CHECK_FALSE(parse_parse(body_of(parse + "x")));
  CHECK_FALSE(parse_close(body_of(describe + "x")));
  CHECK_FALSE(parse_execute(body_of(execute + "x")));
  CHECK_FALSE(parse_bind(Bytes("p\0s\0\0\0\0\0\0", 9)));
}

TEST_CASE("a Parse that claims more types than it has is refused", "[protocol]") {
  CHECK_FALSE(parse_parse(Bytes("\0\0\xff\xff\0\0\0\x17", 8)));
}

TEST_CASE("Describe and Close know statements and portals only", "[protocol]") {
  CHECK_FALSE(parse_describe(Bytes("Xn\0", 3)));
  CHECK_FALSE(parse_close(Bytes("\0n\0", 3)));
}
