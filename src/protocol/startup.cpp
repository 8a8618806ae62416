#include "protocol/startup.h"

#include "base/pooler_error.h"
#include "base/text.h"
#include "protocol/reader.h"

namespace pgweir::protocol {
namespace {

constexpr std::uint32_t kStartupSizeMin = 8;
constexpr std::string_view kProtocolOption = "_pq_.";
/// Requests put this where the major version would stand, and which one it is where the minor
/// would.
constexpr std::uint16_t kRequestMajor = 1234;
constexpr std::uint16_t kCancelMinor = 5678;
constexpr std::uint16_t kSslMinor = 5679;
constexpr std::uint16_t kGssMinor = 5680;

Error violation(std::string text) { return Error("08P01", std::move(text)); }

Result<StartupPacket> parse_request(std::uint16_t minor, Reader reader) {
  switch (minor) {
    case kSslMinor:
      return StartupPacket(SslRequest{});
    case kGssMinor:
      return StartupPacket(GssRequest{});
    case kCancelMinor: {
      const CancelRequest cancel{reader.u32(), reader.u32()};
      if (reader.failed() || !reader.at_end())
        return violation("invalid cancel request: expected 16 bytes");
      return StartupPacket(cancel);
    }
    default:
      return violation(concat({"unknown startup request: ", std::to_string(minor)}));
  }
}

Result<StartupPacket> parse_parameters(Startup startup, Reader reader) {
  const auto no_terminator = [] {
    return error_of(PoolerError::no_terminator);
  };
  for (;;) {
    const Bytes name = reader.cstring();
    if (reader.failed()) return no_terminator();
    if (name.empty()) break;
    const Bytes value = reader.cstring();
    if (reader.failed()) return no_terminator();
    if (name.substr(0, kProtocolOption.size()) == kProtocolOption) {
      startup.protocol_options.emplace_back(name);
    } else {
      startup.parameters.emplace_back(name, value);
    }
  }
  // The empty name is the terminator, and it has to be the last byte.
  if (!reader.at_end()) return no_terminator();
  return StartupPacket(std::move(startup));
}

bool is_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r';
}

/// The words of `value`: blanks part them, a backslash takes the next byte as it is.
std::vector<std::string> words_of(Bytes value) {
  std::vector<std::string> words;
  bool in_word = false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (is_blank(value[i])) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (value[i] == '\\' && ++i == value.size()) break;
    words.back() += value[i];
  }
  return words;
}

Error unsupported_options() { return error_of(PoolerError::unsupported_options); }

}  // namespace

const std::string* Startup::find(std::string_view name) const noexcept {
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) {
    if (it->first == name) return &it->second;
  }
  return nullptr;
}

Result<std::optional<std::uint32_t>> startup_size(Bytes bytes) {
  if (bytes.size() < 4) return std::optional<std::uint32_t>();
  const std::uint32_t size = load_u32(bytes.data());
  if (size < kStartupSizeMin || size > kStartupSizeMax) {
    return violation(concat({"invalid length of startup packet: ", std::to_string(size),
                             " bytes, expected 8 to ", std::to_string(kStartupSizeMax)}));
  }
  return std::optional(size);
}

Result<StartupPacket> parse_startup(Bytes packet) {
  const Result<std::optional<std::uint32_t>> size = startup_size(packet);
  if (!size) return size.error();
  if (*size != packet.size()) return violation("incomplete startup packet");
  Reader reader(packet.substr(4));
  Startup startup;
  startup.major = reader.u16();
  startup.minor = reader.u16();
  if (startup.major == kRequestMajor) return parse_request(startup.minor, reader);
  if (startup.major == 2) return error_of(PoolerError::protocol_2);
  if (startup.major != 3) {
    return Error("0A000",
                 concat({"unsupported frontend protocol ", std::to_string(startup.major), ".",
                         std::to_string(startup.minor), ": server supports 3.0 to 3.0"}));
  }
  return parse_parameters(std::move(startup), reader);
}

Result<std::vector<Parameter>> parse_options(Bytes value) {
  const std::vector<std::string> words = words_of(value);
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view setting = words[i];
    const std::string_view dash = setting.substr(0, 2);
    if (dash != "-c" && dash != "--") return unsupported_options();
    setting.remove_prefix(2);
    if (dash == "-c" && setting.empty()) {
      if (++i == words.size()) return unsupported_options();
      setting = words[i];
    }
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos || equals == 0) return unsupported_options();
    std::string name(setting.substr(0, equals));
    for (char& c : name) {
      if (c == '-') c = '_';
    }
    parameters.emplace_back(std::move(name), setting.substr(equals + 1));
  }
  return parameters;
}

}  // namespace pgweir::protocol
