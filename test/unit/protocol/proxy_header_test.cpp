#include "protocol/proxy_header.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);

std::string version_2(char command, char family, const std::string& body) {
  std::string out = kSignature;
  out += command;
  out += family;
  out += static_cast<char>(body.size() >> 8);
  out += static_cast<char>(body.size() & 255);
  return out + body;
}

ProxyHeader whole(const std::string& bytes) {
  const Result<std::optional<ProxyHeader>> header = parse_proxy_header(bytes);
  INFO((header ? std::string() : header.error().text()));
  REQUIRE(header);
  REQUIRE(header->has_value());
  return **header;
}

std::string refusal(const std::string& bytes) {
  const Result<std::optional<ProxyHeader>> header = parse_proxy_header(bytes);
  return header ? std::string() : header.error().text();
}

const std::string kTcp4 = version_2('\x21', '\x11', std::string("\x0a\x01\x02\x03\x0a\0\0\1\xdc\x04\x15\x38", 12));
const std::string kTcp6 = version_2(
    '\x21', '\x21',
    std::string("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x05", 16) + std::string(16, '\1') + std::string("\x00\x50\x15\x38", 4));

}  // namespace

TEST_CASE("both versions of the PROXY header name the client", "[protocol]") {
  ProxyHeader header = whole("PROXY TCP4 10.1.2.3 10.0.0.1 56324 5432\r\nrest");
  CHECK(header.size == 41);
  CHECK(header.host == "10.1.2.3");
  CHECK(header.port == 56324);
  header = whole("PROXY TCP6 2001:db8::5 ::1 80 5432\r\n");
  CHECK(header.host == "2001:db8::5");
  CHECK(whole("PROXY TCP6 2001:DB8:0::0005 ::1 80 5432\r\n").host == "2001:db8::5");
  header = whole(kTcp4 + "rest");
  CHECK(header.size == 28);
  CHECK(header.host == "10.1.2.3");
  CHECK(header.port == 56324);
  header = whole(kTcp6);
  CHECK(header.host == "2001:db8::5");
  CHECK(header.port == 80);
  // What else it carries (ALPN, an id, a checksum) is passed over.
  header = whole(version_2('\x21', '\x11', std::string("\x0a\x01\x02\x03\x0a\0\0\1\xdc\x04\x15\x38\x03\0\4abcd", 19)));
  CHECK(header.host == "10.1.2.3");
  CHECK(header.size == 16 + 12 + 7);
}

TEST_CASE("a proxy that speaks for itself names nobody", "[protocol]") {
  for (const std::string& bytes : {std::string("PROXY UNKNOWN\r\n"), std::string("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"),
                                   version_2('\x20', '\0', ""), version_2('\x21', '\x31', std::string(216, 'u')),
                                   version_2('\x21', '\0', "")}) {
    const ProxyHeader header = whole(bytes);
    CHECK(header.host.empty());
    CHECK(header.size == bytes.size());
  }
}

TEST_CASE("part of a PROXY header is waited for, byte by byte", "[protocol]") {
  for (const std::string& bytes : {std::string("PROXY TCP4 10.1.2.3 10.0.0.1 56324 5432\r\n"), kTcp4, kTcp6}) {
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      const Result<std::optional<ProxyHeader>> header = parse_proxy_header(Bytes(bytes).substr(0, cut));
      REQUIRE(header);
      REQUIRE_FALSE(header->has_value());
    }
  }
}

TEST_CASE("what is no PROXY header is refused at once", "[protocol]") {
  const std::string startup("\0\0\0\x08\x04\xd2\x16\x2f", 8);
  CHECK(refusal(startup) ==
        "invalid PROXY protocol header: expected one, as the connection comes from proxy_protocol_networks");
  CHECK(refusal("\x16\x03\x01") == refusal(startup));
  CHECK(refusal("PROXY TCP4 10.1.2.300 10.0.0.1 1 2\r\n") == "invalid PROXY protocol header: an address or port in it is none");
  CHECK(refusal("PROXY TCP4 10.1.2.3 10.0.0.1 1 65536\r\n") == "invalid PROXY protocol header: an address or port in it is none");
  CHECK(refusal("PROXY TCP4 ::1 ::1 1 2\r\n") == "invalid PROXY protocol header: an address or port in it is none");
  CHECK(refusal("PROXY TCP4 10.1.2.3 10.0.0.1 1\r\n") ==
        "invalid PROXY protocol header: expected PROXY, TCP4 or TCP6, two addresses and two ports");
  // Whoever reads this loosely may read another address than we do.
  for (const char* loose : {"PROXY TCP4  10.1.2.3 10.0.0.1 1 2\r\n", "PROXY TCP4 10.1.2.3 10.0.0.1 1 2 \r\n", "PROXY TCP4 10.1.2.3 10.0.0.1 1 2 3 4\r\n",
                            "PROXY TCP4 10.1.2.3 10.0.0.1 01 2\r\n", "PROXY TCP4 010.1.2.3 10.0.0.1 1 2\r\n", "PROXY TCP4 10.1.2.3 10.0.0.1 1 -2\r\n",
                            "PROXY tcp4 10.1.2.3 10.0.0.1 1 2\r\n", "PROXY \r\n", "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"}) {
    INFO(loose);
    CHECK(refusal(loose).find("invalid PROXY protocol header: ") == 0);
  }
  CHECK_FALSE(refusal(std::string("PROXY TCP4 10.1.2.3\0x 10.0.0.1 1 2\r\n", 38)).empty());
  CHECK(refusal("PROXY " + std::string(101, 'x')) == "invalid PROXY protocol header: its line does not end");
  CHECK(refusal(version_2('\x11', '\x11', std::string(12, 'a'))) == "invalid PROXY protocol header: expected version 1 or 2");
  CHECK(refusal(version_2('\x25', '\x11', std::string(12, 'a'))) == "invalid PROXY protocol header: unknown command");
  for (const char family : {'\x41', '\x13', '\xff'})
    CHECK(refusal(version_2('\x21', family, std::string(12, 'a'))) == "invalid PROXY protocol header: unknown kind of address");
  CHECK(refusal(version_2('\x21', '\x11', std::string(11, 'a'))) == "invalid PROXY protocol header: it is too short for its addresses");
  CHECK(refusal(version_2('\x21', '\x11', std::string(5000, 'a'))) == "invalid PROXY protocol header: it is too long");
}

TEST_CASE("who speaks for himself says so in a header that names nobody", "[proxy]") {
  std::string out;
  append_proxy_local(out);
  CHECK(out == version_2('\x20', '\0', ""));
  const ProxyHeader header = whole(out);
  CHECK(header.size == 16);
  CHECK(header.host.empty());
}
