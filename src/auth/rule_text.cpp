#include "auth/rule_text.h"

#include <optional>

#include "base/text.h"

namespace pgweir::auth {
namespace {

constexpr std::size_t kLineBytesMax = 64U << 10;

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

/// Takes one word off the front. Quotes may open and close within it; doubled they are a quote.
Result<Word> take_word(std::string_view& text) {
  Word word;
  word.quoted = text.front() == '"';
  bool within = false;
  while (!text.empty()) {
    const char c = text.front();
    if (c == '"') {
      if (within && text.size() > 1 && text[1] == '"') {
        word.text += '"';
        text.remove_prefix(2);
        continue;
      }
      within = !within;
    } else if (!within && (is_blank(c) || c == ',' || c == '#')) {
      break;
    } else if (c == '\0') {
      return Error("a zero byte");
    } else {
      word.text += c;
    }
    text.remove_prefix(1);
  }
  if (within) return Error("a closing quote is missing");
  return word;
}

}  // namespace

Result<std::vector<Field>> read_fields(std::string_view line) {
  std::vector<Field> fields;
  if (line.size() > kLineBytesMax) return Error("the line is longer than 65536 bytes");
  bool joins = false;  // A comma stands before what comes next.
  for (;;) {
    while (!line.empty() && (is_blank(line.front()) || line.front() == ',')) {
      joins = joins || line.front() == ',';
      line.remove_prefix(1);
    }
    if (line.empty() || line.front() == '#') return fields;
    Result<Word> word = take_word(line);
    if (!word) return word.error();
    if (!joins || fields.empty()) fields.emplace_back();
    fields.back().push_back(std::move(*word));
    joins = false;
  }
}

Result<std::vector<RuleLine>> read_rule_lines(std::string_view text, std::string_view file) {
  std::vector<RuleLine> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    Result<std::vector<Field>> fields = read_fields(text.substr(0, end));
    if (!fields)
      return std::move(fields).error().at(concat({file, ":", std::to_string(number)}));
    if (!fields->empty()) lines.push_back({number, std::move(*fields)});
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string path_beside(std::string_view file, std::string_view name) {
  const std::size_t slash = file.rfind('/');
  if (name.empty() || name.front() == '/' || slash == std::string_view::npos)
    return std::string(name);
  return concat({file.substr(0, slash + 1), name});
}

}  // namespace pgweir::auth
