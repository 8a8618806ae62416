#include "config/values.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace pgweir::config {
namespace {

/// A word of a setting. One with a `why_not` is known, and refused with that reason.
template <class Enum>
struct Word {
  std::string_view word;
  Enum value{};
  std::string_view why_not = {};
};

constexpr std::string_view kNotYet = "this version can't do that";

// The words of each setting.
// clang-format off
constexpr Word<PoolMode> kPoolModes[] = {
    {"session", PoolMode::session}, {"transaction", PoolMode::transaction}, {"statement", PoolMode::statement}};
constexpr Word<ConsistencyLevel> kConsistencyLevels[] = {
    {"eventual", ConsistencyLevel::eventual}, {"session", ConsistencyLevel::session},
    {"table", ConsistencyLevel::table},       {"primary", ConsistencyLevel::primary},
    {"latest", ConsistencyLevel::latest},     {"window", ConsistencyLevel::window},
    {"pin", ConsistencyLevel::pin}};
constexpr Word<ReadSplit> kReadSplits[] = {
    {"on", ReadSplit::on}, {"off", ReadSplit::off}, {"observe", ReadSplit::off, kNotYet}};
constexpr Word<LsnCheck> kLsnChecks[] = {{"cached", LsnCheck::cached}, {"inline", LsnCheck::inline_}, {"wait", LsnCheck::wait}};
constexpr Word<BlockReads> kBlockReads[] = {{"primary", BlockReads::primary}, {"replica", BlockReads::replica}};
constexpr Word<OnSessionState> kOnSessionStates[] = {
    {"pin", OnSessionState::pin}, {"ignore", OnSessionState::ignore}, {"error", OnSessionState::pin, kNotYet}};
constexpr Word<AuthType> kAuthTypes[] = {
    {"any", AuthType::any},   {"trust", AuthType::trust}, {"plain", AuthType::plain},
    {"md5", AuthType::md5},   {"scram-sha-256", AuthType::scram_sha_256},
    {"cert", AuthType::cert}, {"peer", AuthType::peer},   {"hba", AuthType::hba},
    {"pam", AuthType::pam},   {"ldap", AuthType::ldap}};
constexpr Word<TlsMode> kTlsModes[] = {
    {"disable", TlsMode::disable}, {"allow", TlsMode::allow}, {"prefer", TlsMode::prefer}, {"require", TlsMode::require},
    {"verify-ca", TlsMode::verify_ca}, {"verify-full", TlsMode::verify_full}};
constexpr Word<SslNegotiation> kSslNegotiations[] = {
    {"postgres", SslNegotiation::postgres}, {"direct", SslNegotiation::direct}};
constexpr Word<TargetSessionAttrs> kTargetSessionAttrs[] = {
    {"any", TargetSessionAttrs::any},         {"read-write", TargetSessionAttrs::read_write},
    {"read-only", TargetSessionAttrs::read_only}, {"primary", TargetSessionAttrs::primary},
    {"standby", TargetSessionAttrs::standby}, {"prefer-standby", TargetSessionAttrs::prefer_standby}};
constexpr Word<LoadBalanceHosts> kLoadBalanceHosts[] = {
    {"round-robin", LoadBalanceHosts::round_robin}, {"disable", LoadBalanceHosts::disable}};
constexpr Word<UnknownStartupParameters> kUnknownStartupParameters[] = {
    {"apply", UnknownStartupParameters::apply}, {"refuse", UnknownStartupParameters::refuse}};
constexpr Word<SqlstateStyle> kSqlstateStyles[] = {
    {"postgres", SqlstateStyle::postgres}, {"pgbouncer", SqlstateStyle::pgbouncer}};
// clang-format on

template <class Enum, std::size_t N>
Result<Enum> parse_word(std::string_view text, const Word<Enum> (&words)[N]) {
  std::vector<std::string_view> allowed;
  for (const Word<Enum>& word : words) {
    if (equals_ignoring_case(text, word.word)) {
      if (!word.why_not.empty()) return Error(std::string(word.why_not));
      return word.value;
    }
    if (word.why_not.empty()) allowed.push_back(word.word);
  }
  std::string expected = "expected ";
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (i > 0) expected += i + 1 == allowed.size() ? " or " : ", ";
    expected += allowed[i];
  }
  return Error(std::move(expected));
}

template <class Enum, std::size_t N>
std::string_view word_of(Enum value, const Word<Enum> (&words)[N]) noexcept {
  for (const Word<Enum>& word : words) {
    if (word.value == value) return word.word;
  }
  return "?";
}

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr Unit kTimeUnits[] = {{"", 1e6},     {"us", 1},     {"ms", 1e3},   {"s", 1e6},
                               {"min", 60e6}, {"h", 3600e6}, {"d", 86400e6}};
constexpr Unit kSizeUnits[] = {{"", 1},          {"b", 1},           {"kb", 1024},
                               {"mb", 1048576},  {"gb", 1073741824}, {"kib", 1024},
                               {"mib", 1048576}, {"gib", 1073741824}};

/// A decimal number and a unit; nullopt when it is something else. Written by hand because strtod
/// takes "nan", "0x1p3" and the locale's comma.
template <std::size_t N>
std::optional<double> parse_with_unit(std::string_view text, const Unit (&units)[N]) {
  double number = 0;
  double scale = 1;
  bool digits = false;
  bool fraction = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c >= '0' && c <= '9') {
      digits = true;
      number = number * 10 + (c - '0');
      if (fraction) scale *= 10;
    } else if (c == '.' && !fraction) {
      fraction = true;
    } else {
      break;
    }
  }
  if (!digits) return std::nullopt;
  const std::string_view suffix = trimmed(text.substr(at));
  for (const Unit& unit : units) {
    if (equals_ignoring_case(suffix, unit.suffix)) return number / scale * unit.factor;
  }
  return std::nullopt;
}

/// As strtol with base 0: 10, 0777, 0x1ff.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(copy.c_str(), &end, 0);
  if (copy.empty() || errno != 0 || end != copy.c_str() + copy.size()) return std::nullopt;
  return value;
}

Error out_of_range(const Limits& limits) {
  return Error(concat({"expected a number from ", std::to_string(limits.lowest), " to ",
                       std::to_string(limits.highest)}));
}

}  // namespace

std::string_view to_string(PoolMode mode) noexcept { return word_of(mode, kPoolModes); }
std::string_view to_string(ConsistencyLevel level) noexcept {
  return word_of(level, kConsistencyLevels);
}
std::string_view to_string(ReadSplit split) noexcept { return word_of(split, kReadSplits); }
std::string_view to_string(LsnCheck how) noexcept { return word_of(how, kLsnChecks); }
std::string_view to_string(BlockReads where) noexcept { return word_of(where, kBlockReads); }
std::string_view to_string(OnSessionState what) noexcept { return word_of(what, kOnSessionStates); }
std::string_view to_string(AuthType type) noexcept { return word_of(type, kAuthTypes); }
std::string_view to_string(TlsMode mode) noexcept { return word_of(mode, kTlsModes); }
std::string_view to_string(TargetSessionAttrs attrs) noexcept {
  return word_of(attrs, kTargetSessionAttrs);
}
std::string_view to_string(SslNegotiation how) noexcept {
  return word_of(how, kSslNegotiations);
}
std::string_view to_string(LoadBalanceHosts how) noexcept {
  return word_of(how, kLoadBalanceHosts);
}
std::string_view to_string(UnknownStartupParameters what) noexcept {
  return word_of(what, kUnknownStartupParameters);
}
std::string_view to_string(SqlstateStyle style) noexcept { return word_of(style, kSqlstateStyles); }

template <>
Result<bool> parse_value(std::string_view text, const Limits&) {
  if (const std::optional<std::int64_t> number = parse_integer(text)) return *number != 0;
  for (std::string_view yes : {"on", "yes", "true"}) {
    if (equals_ignoring_case(text, yes)) return true;
  }
  for (std::string_view no : {"off", "no", "false"}) {
    if (equals_ignoring_case(text, no)) return false;
  }
  return Error("expected 0 or 1");
}

template <>
Result<int> parse_value(std::string_view text, const Limits& limits) {
  const std::optional<std::int64_t> number = parse_integer(text);
  if (!number || *number < limits.lowest || *number > limits.highest) return out_of_range(limits);
  return static_cast<int>(*number);
}

template <>
Result<std::int64_t> parse_value(std::string_view text, const Limits& limits) {
  std::optional<std::int64_t> number = parse_integer(text);
  if (!number) {
    const std::optional<double> size = parse_with_unit(text, kSizeUnits);
    if (size && *size <= 9e18) number = static_cast<std::int64_t>(std::llround(*size));
  }
  if (!number || *number < limits.lowest || *number > limits.highest) return out_of_range(limits);
  return *number;
}

template <>
Result<Duration> parse_value(std::string_view text, const Limits&) {
  return parse_duration(text);
}
template <>
Result<TableWindow> parse_value(std::string_view text, const Limits&) {
  if (equals_ignoring_case(text, "p99.9")) return TableWindow{};
  const Result<Duration> time = parse_duration(text);
  if (!time) return Error("expected p99.9 or a time: seconds, or a number with us, ms, s, min, h or d");
  return TableWindow{.measured = false, .time = *time};
}
template <>
Result<NetworkList> parse_value(std::string_view text, const Limits&) {
  NetworkList list{.text = std::string(text), .networks = {}};
  if (trimmed(text).empty()) return list;
  for (const std::string_view one : split(text, ',')) {
    const bool whole = parse_ip(one).has_value();
    const bool v6 = one.find(':') != std::string_view::npos;
    const std::optional<IpNetwork> network = parse_network(whole ? concat({one, v6 ? "/128" : "/32"}) : std::string(one));
    if (!network) return Error(concat({"expected addresses with /bits behind them, and commas between: \"", one, "\" is none"}));
    list.networks.push_back(*network);
  }
  return list;
}
template <>
Result<std::string> parse_value(std::string_view text, const Limits&) {
  return std::string(text);
}
template <>
Result<PoolMode> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kPoolModes);
}
template <>
Result<ConsistencyLevel> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kConsistencyLevels);
}
template <>
Result<ReadSplit> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kReadSplits);
}
template <>
Result<LsnCheck> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kLsnChecks);
}
template <>
Result<BlockReads> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kBlockReads);
}
template <>
Result<OnSessionState> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kOnSessionStates);
}
template <>
Result<AuthType> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kAuthTypes);
}
template <>
Result<TlsMode> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kTlsModes);
}
template <>
Result<TargetSessionAttrs> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kTargetSessionAttrs);
}
template <>
Result<SslNegotiation> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kSslNegotiations);
}
template <>
Result<LoadBalanceHosts> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kLoadBalanceHosts);
}
template <>
Result<UnknownStartupParameters> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kUnknownStartupParameters);
}
template <>
Result<SqlstateStyle> parse_value(std::string_view text, const Limits&) {
  return parse_word(text, kSqlstateStyles);
}

Result<ConsistencyLevel> parse_consistency(std::string_view text) {
  return parse_word(text, kConsistencyLevels);
}
Result<PoolMode> parse_pool_mode(std::string_view text) { return parse_word(text, kPoolModes); }

Result<Duration> parse_duration(std::string_view text) {
  // A hundred years: more is a mistake, and adding it to now() must not overflow.
  constexpr double kLongestUs = 100.0 * 366 * 86400e6;
  const std::optional<double> us = parse_with_unit(text, kTimeUnits);
  // Written so that not-a-number, which a long enough fraction makes, is refused too.
  if (!us || !(*us <= kLongestUs))
    return Error("expected a time: seconds, or a number with us, ms, s, min, h or d");
  return Duration(std::llround(*us));
}

std::string duration_text(Duration time) {
  const std::int64_t us = time.count();
  std::string text = std::to_string(us / 1'000'000);
  if (us % 1'000'000 != 0) {
    char fraction[16];
    std::snprintf(fraction, sizeof fraction, ".%06d", static_cast<int>(us % 1'000'000));
    text += fraction;
    while (text.back() == '0') text.pop_back();
  }
  return text;
}

std::string HostPort::text() const {
  const bool brackets = !is_unix() && host.find(':') != std::string::npos;
  return concat({brackets ? "[" : "", host.empty() ? "unix" : host, brackets ? "]" : "", ":",
                 std::to_string(port)});
}

Result<std::vector<HostPort>> parse_hosts(std::string_view text, int port) {
  std::vector<HostPort> hosts;
  for (std::string_view item : split(text, ',')) {
    HostPort host;
    std::string_view port_text;
    if (!item.empty() && item[0] == '[') {
      const std::size_t end = item.find(']');
      if (end == std::string_view::npos || (end + 1 < item.size() && item[end + 1] != ':')) {
        return Error(
            "expected hosts as name, name:port, [ipv6]:port or /directory, separated by commas");
      }
      host.host = item.substr(1, end - 1);
      if (end + 1 < item.size()) port_text = item.substr(end + 1);
    } else {
      // More than one colon without brackets is an IPv6 address without a port.
      const std::size_t colon = item.find(':');
      const bool has_port =
          colon != std::string_view::npos && item.find(':', colon + 1) == std::string_view::npos;
      host.host = item.substr(0, has_port ? colon : item.size());
      if (has_port) port_text = item.substr(colon);
    }
    if (host.host.empty()) return Error("expected a host between the commas");
    if (!host.is_unix() && host.host.find_first_of(" \t") != std::string::npos)
      return Error(concat({"a blank in \"", host.host, "\": expected hosts separated by commas"}));
    host.port = port;
    if (!port_text.empty()) {
      Result<int> parsed = parse_value<int>(port_text.substr(1), {1, 65535});
      if (!parsed) return Error(concat({"port of ", host.host, ": ", parsed.error().text()}));
      host.port = *parsed;
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace pgweir::config
