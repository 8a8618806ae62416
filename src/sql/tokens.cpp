#include "sql/tokens.h"

#include "base/text.h"

namespace pgweir::sql {

Hint parse_hint(Bytes comment) noexcept {
  constexpr Bytes kMark = "pgweir:";
  constexpr std::size_t kHintBytesMax = 1024;
  while (!comment.empty() && scan_detail::is(comment.front(), scan_detail::kSpace))
    comment.remove_prefix(1);
  if (!comment.starts_with(kMark)) return Hint::none;
  comment = comment.substr(kMark.size(), kHintBytesMax);
  Hint hint = Hint::none;
  while (!comment.empty()) {
    std::size_t end = 0;
    const auto is_separator = [](char c) {
      return c == ',' || scan_detail::is(c, scan_detail::kSpace);
    };
    while (end < comment.size() && !is_separator(comment[end])) ++end;
    const Bytes word = comment.substr(0, end);
    if (equals_ignoring_case(word, "primary")) return Hint::primary;
    if (equals_ignoring_case(word, "replica")) hint = Hint::replica;
    comment.remove_prefix(end == comment.size() ? end : end + 1);
  }
  return hint;
}

}  // namespace pgweir::sql
