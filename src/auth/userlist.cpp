#include "auth/userlist.h"

#include <optional>

#include "base/text.h"

namespace pgweir::auth {
namespace {

void skip_blanks(std::string_view& text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\r')) {
    text.remove_prefix(1);
  }
}

/// Takes a quoted text off the front of the line; nullopt when there is none or its end is missing.
std::optional<std::string> take_quoted(std::string_view& line) {
  if (line.empty() || line.front() != '"') return std::nullopt;
  std::string text;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '"' && (i + 1 == line.size() || line[i + 1] != '"')) {
      line.remove_prefix(i + 1);
      return text;
    }
    if (line[i] == '"') ++i;
    text += line[i];
  }
  return std::nullopt;
}

/// Adds the user of one line; otherwise says what is wrong with it, nullptr for nothing.
const char* read_line(std::string_view line, Users::Map& by_name) {
  skip_blanks(line);
  if (line.empty() || line.front() == ';' || line.front() == '#') return nullptr;
  if (line.front() != '"') return "expected a user name in double quotes";
  std::optional<std::string> user = take_quoted(line);
  if (!user) return "the quote that ends the user name is missing";
  if (user->empty()) return "the user name is empty";
  skip_blanks(line);
  if (line.empty() || line.front() != '"')
    return "expected a password in double quotes behind the user name";
  std::optional<std::string> secret = take_quoted(line);
  if (!secret) return "the quote that ends the password is missing";
  by_name.insert_or_assign(*std::move(user), Secret::parse(*secret));
  return nullptr;
}

}  // namespace

Userlist parse_userlist(std::string_view text, std::string_view file) {
  Users::Map by_name;
  Userlist list;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (const char* problem = read_line(text.substr(0, end), by_name)) {
      list.warnings.push_back(concat({file, ":", std::to_string(number), ": ", problem}));
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  list.users = Users(std::move(by_name));
  return list;
}

}  // namespace pgweir::auth
