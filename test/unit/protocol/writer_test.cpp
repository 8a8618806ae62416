#include "protocol/writer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "protocol/framer.h"
#include "protocol/message.h"
#include "protocol/reader.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

/// The body of the one message that `out` holds.
std::string only_body(const std::string& out, char type) {
  Framer framer;
  Bytes input = out;
  const std::optional<Slice> slice = framer.next(input);
  REQUIRE(slice);
  CHECK(slice->whole());
  CHECK(slice->type == type);
  CHECK(input.empty());
  return std::string(slice->body());
}

std::string zeroed(std::initializer_list<Bytes> parts) {
  std::string out;
  for (Bytes part : parts) {
    out += part;
    out += '\0';
  }
  return out;
}

}  // namespace

TEST_CASE("messages are appended behind what is there", "[protocol]") {
  std::string out = "before";
  append_query(out, "select 1");
  append_ready(out, transaction_status::kIdle);
  CHECK(out == "before" + std::string("Q\0\0\0\x0dselect 1\0", 14) + std::string("Z\0\0\0\5I", 6));
}

TEST_CASE("text with a zero byte is cut there and can't smuggle in further fields", "[protocol]") {
  std::string out;
  append_parameter_status(out, Bytes("name\0x", 6), "value");
  CHECK(only_body(out, 'S') == zeroed({"name", "value"}));
}

TEST_CASE("an error holds severity, SQLSTATE and message, and detail and hint when given",
          "[protocol]") {
  std::string out;
  append_error(out, "FATAL", "08P01", "no such user");
  CHECK(only_body(out, 'E') == zeroed({"SFATAL", "C08P01", "Mno such user", ""}));
  out.clear();
  append_notice(out, "NOTICE", "00000", "text", "more", "do that");
  CHECK(only_body(out, 'N') == zeroed({"SNOTICE", "C00000", "Mtext", "Dmore", "Hdo that", ""}));
}

TEST_CASE("Parse, Bind, Describe, Execute, Close have the fields a server reads", "[protocol]") {
  std::string out;
  const std::uint32_t types[] = {23, 25};
  append_parse(out, "s1", "select $1", types);
  CHECK(only_body(out, 'P') ==
        zeroed({"s1", "select $1"}) + std::string("\0\2\0\0\0\x17\0\0\0\x19", 10));
  out.clear();
  const std::optional<Bytes> values[] = {"42", std::nullopt};
  append_bind(out, "", "s1", values);
  CHECK(only_body(out, 'B') == zeroed({"", "s1"}) + std::string("\0\0\0\2\0\0\0\2", 8) + "42" +
                                   std::string("\xff\xff\xff\xff\0\0", 6));
  out.clear();
  append_describe(out, 'P', "p");
  CHECK(only_body(out, 'D') == zeroed({"Pp"}));
  out.clear();
  append_close(out, 'S', "s1");
  CHECK(only_body(out, 'C') == zeroed({"Ss1"}));
  out.clear();
  append_execute(out, "p", 7);
  CHECK(only_body(out, 'E') == zeroed({"p"}) + std::string("\0\0\0\7", 4));
}

TEST_CASE("messages without a body are a letter and the length four", "[protocol]") {
  const std::vector<std::pair<void (*)(std::string&), char>> kinds = {
      {append_sync, 'S'},           {append_flush, 'H'},
      {append_terminate, 'X'},      {append_copy_done, 'c'},
      {append_parse_complete, '1'}, {append_bind_complete, '2'},
      {append_close_complete, '3'}, {append_no_data, 'n'},
      {append_empty_query, 'I'},    {append_portal_suspended, 's'}};
  for (const auto& [append, type] : kinds) {
    std::string out;
    append(out);
    CHECK(out == type + std::string("\0\0\0\4", 4));
  }
}

TEST_CASE("authentication requests carry their number and data", "[protocol]") {
  std::string out;
  append_auth_ok(out);
  CHECK(only_body(out, 'R') == std::string(4, '\0'));
  out.clear();
  append_auth_cleartext(out);
  CHECK(only_body(out, 'R') == std::string("\0\0\0\3", 4));
  out.clear();
  append_auth_md5(out, "salt");
  CHECK(only_body(out, 'R') == std::string("\0\0\0\5salt", 8));
  out.clear();
  const Bytes mechanisms[] = {"SCRAM-SHA-256"};
  append_auth_sasl(out, mechanisms);
  CHECK(only_body(out, 'R') == std::string("\0\0\0\x0a", 4) + zeroed({"SCRAM-SHA-256", ""}));
  out.clear();
  append_auth_sasl_continue(out, "r=x");
  CHECK(only_body(out, 'R') == std::string("\0\0\0\x0br=x", 7));
  out.clear();
  append_auth_sasl_final(out, "v=x");
  CHECK(only_body(out, 'R') == std::string("\0\0\0\x0cv=x", 7));
}

TEST_CASE("SASL and password answers", "[protocol]") {
  std::string out;
  append_password(out, "secret");
  CHECK(only_body(out, 'p') == zeroed({"secret"}));
  out.clear();
  append_sasl_initial(out, "SCRAM-SHA-256", "n,,");
  CHECK(only_body(out, 'p') == zeroed({"SCRAM-SHA-256"}) + std::string("\0\0\0\3n,,", 7));
  out.clear();
  append_sasl_response(out, "c=biws");
  CHECK(only_body(out, 'p') == "c=biws");
}

TEST_CASE("the version offered is a whole version number, as libpq reads it", "[protocol]") {
  std::string out;
  const std::string options[] = {"_pq_.x"};
  append_negotiate_version(out, 0, options);
  CHECK(only_body(out, 'v') == std::string("\0\3\0\0\0\0\0\1", 8) + zeroed({"_pq_.x"}));
}

TEST_CASE("rows and their description", "[protocol]") {
  std::string out;
  const Column columns[] = {{.name = "a"}, {.name = "n", .type = 20, .type_size = 8}};
  append_row_description(out, columns);
  const std::string row_description = only_body(out, 'T');
  Reader reader(row_description);
  CHECK(reader.u16() == 2);
  CHECK(reader.cstring() == "a");
  CHECK(reader.bytes(6) == std::string(6, '\0'));
  CHECK(reader.u32() == 25);
  CHECK(reader.i16() == -1);
  CHECK(reader.i32() == -1);
  CHECK(reader.u16() == 0);
  CHECK(reader.cstring() == "n");
  reader.bytes(6);
  CHECK(reader.u32() == 20);
  CHECK(reader.i16() == 8);
  CHECK(reader.rest().size() == 6);
  CHECK_FALSE(reader.failed());
  out.clear();
  const std::optional<Bytes> values[] = {"x", std::nullopt, ""};
  append_data_row(out, values);
  CHECK(only_body(out, 'D') == std::string("\0\3\0\0\0\1x\xff\xff\xff\xff\0\0\0\0", 15));
}

TEST_CASE("startup, cancel and SSL packets have no letter", "[protocol]") {
  std::string out;
  append_ssl_request(out);
  CHECK(out == std::string("\0\0\0\x08\x04\xd2\x16\x2f", 8));
  out.clear();
  append_cancel(out, 1, 2);
  CHECK(out == std::string("\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\1\0\0\0\2", 16));
}
