#include "protocol/proxy_header.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace pgweir::protocol {
namespace {

constexpr std::string_view kSignature1 = "PROXY ";
constexpr std::string_view kSignature2("\r\n\r\n\0\r\nQUIT\n", 12);
/// A line of version 1 is no longer, its end included.
constexpr std::size_t kLineBytesMax = 107;
constexpr std::size_t kHead2Bytes = 16;
/// Behind the addresses version 2 may carry anything; nobody sends this much.
constexpr std::size_t kBody2BytesMax = 4096;

using Parsed = Result<std::optional<ProxyHeader>>;

Error violation(std::string_view what) {
  return Error("08P01", concat({"invalid PROXY protocol header: ", what}));
}

bool begins_like(Bytes bytes, std::string_view signature) noexcept {
  const std::size_t size = std::min(bytes.size(), signature.size());
  return bytes.substr(0, size) == signature.substr(0, size);
}

/// Decimal, and without zeros in front, which others might take for octal.
std::optional<std::uint16_t> port_in(std::string_view text) noexcept {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  return port;
}

std::string address_text(int family, const void* bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, bytes, text.data(), text.size()) ? std::string(text.data()) : std::string();
}

/// The address as we write addresses, however the proxy does; empty when it is none.
std::string address_in(int family, std::string_view word) {
  const std::string terminated(word);
  std::array<unsigned char, 16> bytes{};
  if (word.find('\0') != std::string_view::npos || inet_pton(family, terminated.c_str(), bytes.data()) != 1) return {};
  return address_text(family, bytes.data());
}

constexpr std::size_t kWordsMax = 6;
struct Words {
  std::array<std::string_view, kWordsMax> word;
  std::size_t count = 0;
};
/// One blank parts them, and two are not one. What is too much makes the count kWordsMax + 1.
Words words_of(std::string_view line) noexcept {
  Words words;
  for (;;) {
    if (words.count == kWordsMax) return ++words.count, words;
    const std::size_t end = line.find(' ');
    words.word[words.count++] = line.substr(0, end);
    if (end == std::string_view::npos) return words;
    line.remove_prefix(end + 1);
  }
}

/// "PROXY TCP4 10.1.2.3 10.0.0.1 56324 5432\r\n"
Parsed parse_1(Bytes bytes) {
  const std::size_t end = bytes.substr(0, kLineBytesMax).find("\r\n");
  if (end == Bytes::npos) {
    if (bytes.size() >= kLineBytesMax) return violation("its line does not end");
    return std::optional<ProxyHeader>();
  }
  ProxyHeader header;
  header.size = end + 2;
  const auto [words, count] = words_of(bytes.substr(0, end));
  if (words[1] == "UNKNOWN") return std::optional(std::move(header));
  if (count != kWordsMax || (words[1] != "TCP4" && words[1] != "TCP6"))
    return violation("expected PROXY, TCP4 or TCP6, two addresses and two ports");
  const int family = words[1] == "TCP4" ? AF_INET : AF_INET6;
  const std::optional<std::uint16_t> port = port_in(words[4]);
  header.host = address_in(family, words[2]);
  if (header.host.empty() || address_in(family, words[3]).empty() || !port || !port_in(words[5]))
    return violation("an address or port in it is none");
  header.port = *port;
  return std::optional(std::move(header));
}

//  signature (12) | version, command | family, transport | size of the rest (2) | addresses …
Parsed parse_2(Bytes bytes) {
  if (bytes.size() < kHead2Bytes) return std::optional<ProxyHeader>();
  const unsigned version_and_command = static_cast<unsigned char>(bytes[12]);
  const unsigned family = static_cast<unsigned char>(bytes[13]) >> 4;
  const unsigned transport = static_cast<unsigned char>(bytes[13]) & 15U;
  const std::size_t rest = load_u16(bytes.data() + 14);
  if (version_and_command >> 4 != 2) return violation("expected version 1 or 2");
  const unsigned command = version_and_command & 15U;
  if (command > 1) return violation("unknown command");
  if (rest > kBody2BytesMax) return violation("it is too long");
  if (bytes.size() < kHead2Bytes + rest) return std::optional<ProxyHeader>();
  ProxyHeader header;
  header.size = kHead2Bytes + rest;
  if (command == 0) return std::optional(std::move(header));
  if (family > 3 || transport > 2) return violation("unknown kind of address");
  const bool v4 = family == 1;
  const bool v6 = family == 2;
  if (transport != 1 || (!v4 && !v6)) return std::optional(std::move(header));
  const Bytes body = bytes.substr(kHead2Bytes, rest);
  const std::size_t address_bytes = v4 ? 4 : 16;
  if (body.size() < 2 * address_bytes + 4) return violation("it is too short for its addresses");
  header.host = address_text(v4 ? AF_INET : AF_INET6, body.data());
  header.port = load_u16(body.data() + 2 * address_bytes);
  return std::optional(std::move(header));
}

}  // namespace

Result<std::optional<ProxyHeader>> parse_proxy_header(Bytes bytes) {
  if (begins_like(bytes, kSignature2)) return parse_2(bytes);
  if (begins_like(bytes, kSignature1)) return parse_1(bytes);
  return violation("expected one, as the connection comes from proxy_protocol_networks");
}

void append_proxy_local(std::string& out) {
  out += kSignature2;
  out.append("\x20\0\0\0", 4);  // Version 2, LOCAL; no kind of address, and nothing behind it.
}

}  // namespace pgweir::protocol
