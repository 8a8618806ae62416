#include "session/search_path.h"

#include "base/text.h"

namespace pgweir::session {
namespace {

constexpr std::string_view kTracked[] = {"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings",
                                         "application_name", "IntervalStyle", "search_path"};

}  // namespace

std::string_view tracked_name(std::string_view name) noexcept {
  for (std::string_view tracked : kTracked) {
    if (equals_ignoring_case(tracked, name)) return tracked;
  }
  return {};
}

std::optional<std::string> search_path_value(std::string_view as_written) {
  const std::string_view text = trimmed(as_written);
  if (text.empty() || equals_ignoring_case(text, "default")) return std::nullopt;
  std::string value;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {  // A quoted name stays as it is.
      const std::size_t end = std::min(text.find('"', i + 1), text.size() - 1);
      value += text.substr(i, end - i + 1);
      i = end;
    } else if (text[i] == '\'') {
      std::string element;
      for (++i; i < text.size(); ++i) {
        if (text[i] == '\'' && (i + 1 >= text.size() || text[i + 1] != '\'')) break;
        if (text[i] == '\'') ++i;
        element += text[i];
      }
      value += quote_identifier(element);
    } else {
      value += text[i];
    }
  }
  return value;
}

}  // namespace pgweir::session
