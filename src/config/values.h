// One parser and one printer for each type a setting can have. Errors say what was expected; the
// caller puts the name and the value in front.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "config/settings.h"

namespace pgweir::config {

/// What a number may be.
struct Limits {
  std::int64_t lowest = 0;
  std::int64_t highest = std::numeric_limits<int>::max();
};

template <class T>
Result<T> parse_value(std::string_view text, const Limits& limits);

template <>
Result<bool> parse_value(std::string_view text, const Limits& limits);
template <>
Result<int> parse_value(std::string_view text, const Limits& limits);
template <>
Result<std::int64_t> parse_value(std::string_view text, const Limits& limits);
template <>
Result<Duration> parse_value(std::string_view text, const Limits& limits);
template <>
Result<TableWindow> parse_value(std::string_view text, const Limits& limits);
template <>
Result<NetworkList> parse_value(std::string_view text, const Limits& limits);
template <>
Result<std::string> parse_value(std::string_view text, const Limits& limits);
template <>
Result<PoolMode> parse_value(std::string_view text, const Limits& limits);
template <>
Result<ConsistencyLevel> parse_value(std::string_view text, const Limits& limits);
template <>
Result<ReadSplit> parse_value(std::string_view text, const Limits& limits);
template <>
Result<LsnCheck> parse_value(std::string_view text, const Limits& limits);
template <>
Result<BlockReads> parse_value(std::string_view text, const Limits& limits);
template <>
Result<OnSessionState> parse_value(std::string_view text, const Limits& limits);
template <>
Result<AuthType> parse_value(std::string_view text, const Limits& limits);
template <>
Result<TlsMode> parse_value(std::string_view text, const Limits& limits);
template <>
Result<TargetSessionAttrs> parse_value(std::string_view text, const Limits& limits);
template <>
Result<SslNegotiation> parse_value(std::string_view text, const Limits& limits);
template <>
Result<LoadBalanceHosts> parse_value(std::string_view text, const Limits& limits);
template <>
Result<UnknownStartupParameters> parse_value(std::string_view text, const Limits& limits);
template <>
Result<SqlstateStyle> parse_value(std::string_view text, const Limits& limits);

inline std::string print_value(bool value) { return value ? "1" : "0"; }
inline std::string print_value(int value) { return std::to_string(value); }
inline std::string print_value(std::int64_t value) { return std::to_string(value); }
inline std::string print_value(Duration value) { return duration_text(value); }
inline std::string print_value(const TableWindow& value) {
  return value.measured ? "p99.9" : duration_text(value.time);
}
inline std::string print_value(const NetworkList& value) { return value.text; }
inline std::string print_value(const std::string& value) { return value; }
template <class Enum>
requires std::is_enum_v<Enum> std::string print_value(Enum value) {
  return std::string(to_string(value));
}

}  // namespace pgweir::config
