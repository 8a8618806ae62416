#include "protocol/startup.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

std::string packet(std::uint32_t code, Bytes body) {
  std::string out;
  Writer writer(out);
  writer.begin_untyped();
  writer.u32(code);
  writer.bytes(body);
  writer.end();
  return out;
}

Startup startup_of(const std::string& bytes) {
  Result<StartupPacket> parsed = parse_startup(bytes);
  REQUIRE(parsed.ok());
  REQUIRE(std::holds_alternative<Startup>(*parsed));
  return std::get<Startup>(*parsed);
}

std::string error_of(const std::string& bytes) {
  const Result<StartupPacket> parsed = parse_startup(bytes);
  return parsed ? "no error" : parsed.error().text();
}

const std::string kNoTerminator = "invalid startup packet layout: expected terminator as last byte";
const std::string kBadOptions =
    "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
constexpr std::uint32_t kVersion30 = 196608;

std::vector<Parameter> options_of(Bytes value) {
  Result<std::vector<Parameter>> parsed = parse_options(value);
  REQUIRE(parsed.ok());
  return *parsed;
}

}  // namespace

TEST_CASE("what is written as a startup is read as one, in order", "[protocol]") {
  const std::vector<Parameter> parameters = {
      {"user", "u"}, {"database", ""}, {"application_name", "x y"}, {"user", "v"}};
  std::string out;
  append_startup(out, parameters);
  const Startup startup = startup_of(out);
  CHECK(startup.major == 3);
  CHECK(startup.minor == 0);
  CHECK(startup.parameters == parameters);
  CHECK(*startup.find("user") == "v");
  CHECK(*startup.find("database") == "");
  CHECK(startup.find("options") == nullptr);
  CHECK_FALSE(startup.asks_for_more());
}

TEST_CASE("protocol options and later minor versions are told apart", "[protocol]") {
  const Startup startup = startup_of(packet(kVersion30 + 2, Bytes("user\0u\0_pq_.x\0y\0\0", 17)));
  CHECK(startup.minor == 2);
  CHECK(startup.protocol_options == std::vector<std::string>{"_pq_.x"});
  CHECK(startup.parameters.size() == 1);
  CHECK(startup.asks_for_more());
}

TEST_CASE("requests for TLS, GSS encryption and cancel are known by their code", "[protocol]") {
  std::string out;
  append_ssl_request(out);
  CHECK(std::holds_alternative<SslRequest>(*parse_startup(out)));
  CHECK(std::holds_alternative<GssRequest>(*parse_startup(packet(80877104, {}))));
  out.clear();
  append_cancel(out, 17, 0xdeadbeef);
  const Result<StartupPacket> parsed = parse_startup(out);
  REQUIRE(parsed.ok());
  const CancelRequest* cancel = std::get_if<CancelRequest>(&*parsed);
  REQUIRE(cancel);
  CHECK(cancel->pid == 17);
  CHECK(cancel->key == 0xdeadbeef);
  CHECK_FALSE(parse_startup(packet(80877102, "short")));
  CHECK_FALSE(parse_startup(packet(80877102, "too long for it")));
  CHECK_FALSE(parse_startup(packet(80877105, {})));
}

TEST_CASE("the size of a startup packet is known from its first four bytes", "[protocol]") {
  CHECK_FALSE(startup_size("abc")->has_value());
  CHECK(*startup_size(Bytes("\0\0\0\x08", 4)) == 8u);
  CHECK(*startup_size(Bytes("\0\0\x27\x10", 4)) == 10000u);
  CHECK_FALSE(startup_size(Bytes("\0\0\0\x07", 4)));
  CHECK_FALSE(startup_size(Bytes("\0\0\x27\x11", 4)));
  CHECK_FALSE(startup_size("GET / HTTP/1.1\r\n"));
}

TEST_CASE("a startup packet cut anywhere is refused", "[protocol]") {
  const std::string body("user\0u\0database\0d\0\0", 19);
  CHECK(error_of(packet(kVersion30, body)) == "no error");
  for (std::size_t i = 0; i < body.size(); ++i) {
    CHECK(error_of(packet(kVersion30, Bytes(body).substr(0, i))) == kNoTerminator);
  }
  CHECK(error_of(packet(kVersion30, body + "x")) == kNoTerminator);
  CHECK(error_of(packet(kVersion30, body + std::string(1, '\0'))) == kNoTerminator);
}

TEST_CASE("a packet that is not as long as it says is refused", "[protocol]") {
  const std::string whole = packet(kVersion30, Bytes("user\0u\0\0", 8));
  CHECK_FALSE(parse_startup(whole + "x"));
  CHECK_FALSE(parse_startup(Bytes(whole).substr(0, whole.size() - 1)));
  CHECK_FALSE(parse_startup({}));
}

TEST_CASE("other protocol versions are refused by name", "[protocol]") {
  CHECK(error_of(packet(0x00020000, {})) == "old V2 protocol not supported");
  const Result<StartupPacket> parsed = parse_startup(packet(0x00040001, {}));
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().text() == "unsupported frontend protocol 4.1: server supports 3.0 to 3.0");
  CHECK(parsed.error().sqlstate() == "0A000");
}

TEST_CASE("options are split as PostgreSQL splits them", "[protocol]") {
  const std::vector<Parameter> two = {{"geqo", "off"}, {"statement_timeout", "5min"}};
  CHECK(options_of("-c geqo=off -c statement_timeout=5min") == two);
  CHECK(options_of("  -cgeqo=off\t--statement-timeout=5min ") == two);
  CHECK(options_of("").empty());
  CHECK(options_of("   ").empty());
  CHECK(options_of("-c search_path=a\\ b,\\\\c=d") ==
        std::vector<Parameter>{{"search_path", "a b,\\c=d"}});
  CHECK(options_of("-c a=") == std::vector<Parameter>{{"a", ""}});
  CHECK(options_of("-c a=b\\") == std::vector<Parameter>{{"a", "b"}});
  CHECK(options_of("-c pgweir.causal_key=user:42") ==
        std::vector<Parameter>{{"pgweir.causal_key", "user:42"}});
}

TEST_CASE("options that are no settings are refused", "[protocol]") {
  for (const char* bad :
       {"-c", "-c geqo", "--geqo", "-d 5", "geqo=off", "-c =off", "--=off", "-", "-c\\ a=b x"}) {
    const Result<std::vector<Parameter>> parsed = parse_options(bad);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().text() == kBadOptions);
  }
}
