#include "tokens/carried_token.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace pgweir::tokens {
namespace {

constexpr std::size_t kDigitsMax = 20;  ///< of the largest 64 bit number

/// A decimal number as it is printed: no sign, no leading zero, no blank.
template <class Number>
bool read_number(Bytes text, Number& number) noexcept {
  if (text.empty() || text.size() > kDigitsMax || text.front() == '0') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_string(const CarriedToken& carried) {
  return concat({carried.system_id, ":", std::to_string(carried.token.timeline), ":", to_string(carried.token.lsn)});
}

Result<CarriedToken> parse_carried_token(Bytes text) {
  const Error malformed("22023", "expected what SHOW pgweir.token gave: system identifier:timeline:position, as in 7312345678901234567:1:16/B374D848");
  const std::size_t first = text.find(':');
  const std::size_t second = first == Bytes::npos ? first : text.find(':', first + 1);
  if (second == Bytes::npos) return malformed;
  CarriedToken carried;
  std::uint64_t system_id = 0;
  if (!read_number(text.substr(0, first), system_id)) return malformed;
  carried.system_id = text.substr(0, first);
  if (!read_number(text.substr(first + 1, second - first - 1), carried.token.timeline)) return malformed;
  const std::optional<Lsn> lsn = parse_lsn(text.substr(second + 1));
  if (!lsn || lsn->value == 0) return malformed;
  carried.token.lsn = *lsn;
  return carried;
}

TokenVerdict judge(const CarriedToken& carried, const KnownPrimary& primary) {
  using What = TokenVerdict::What;
  if (carried.system_id != primary.system_id) {
    return {What::refused, {}, concat({"it is of another cluster: expected system identifier ", primary.system_id})};
  }
  const Lsn lsn = before_page_header(carried.token.lsn, primary.geometry);
  if (carried.token.timeline < primary.timeline) return {What::taken, std::min(lsn, primary.first), {}};
  if (carried.token.timeline > primary.timeline) {
    return {What::ahead, {}, concat({"expected at most timeline ", std::to_string(primary.timeline), ", which the primary is on"})};
  }
  if (lsn <= primary.insert) return {What::taken, lsn, {}};
  return {What::ahead, {}, concat({"expected at most position ", to_string(primary.insert), ", which the primary has reached"})};
}

}  // namespace pgweir::tokens
