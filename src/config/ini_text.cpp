#include "config/ini_text.h"

#include <ini.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <deque>
#include <optional>

#include "base/text.h"

namespace pgweir::config {
namespace {

constexpr std::size_t kIncludeDepthMax = 10;
constexpr int kFilesMax = 1000;
/// Escaped, a piece stays below the 200 bytes at which Debian's inih cuts a line.
constexpr std::size_t kPieceBytes = 50;

bool is_key_char(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '*' ||
         c == '-';
}

bool is_space(char c) noexcept { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view without_leading_space(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::string_view without_space(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return without_leading_space(text);
}

// What inih is given: keys and values in pieces, everything but letters, digits and _ as ~xx. So it
// finds no comment, separator, quote, indentation or space of its own understanding, and no line
// that is too long:
//
//     [pgbouncer]                        s=pgbouncer
//     auth_query = SELECT a ; b          k=auth_query
//                                        v=SELECT~20a~20~3b~20b
//
// s begins a section's name (of which inih would keep 50 bytes), k a key; S and K go on with them; v is the next piece of a value.

void append_escaped(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '~';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
}

std::string unescaped(std::string_view text) {
  auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '~' && i + 2 < text.size()) {
      out += static_cast<char>(digit(text[i + 1]) << 4 | digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// Reads files line by line, checks PgBouncer's grammar, and gives inih its lines.
class LineFeeder {
 public:
  LineFeeder(const IniSource& files, const std::string& path) : files_(files) { open(path); }

  /// The next line for inih, without its end; nullopt at the end of all files or at an error.
  std::optional<std::string> next() {
    while (ready_.empty() && !error_ && !open_.empty()) read_line();
    if (error_ || ready_.empty()) return std::nullopt;
    std::string line = std::move(ready_.front());
    ready_.pop_front();
    return line;
  }

  /// Where the line that next() gave stands.
  const std::string& where() const noexcept { return where_; }
  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  struct File {
    std::string path;
    std::string text;
    std::size_t at = 0;
    int line = 0;
  };

  void open(const std::string& path) {
    if (open_.size() >= kIncludeDepthMax) return fail("too many %include inside each other");
    if (++files_read_ > kFilesMax) return fail("more than 1000 files in all");
    Result<std::string> text = files_.read(path);
    if (!text) {
      error_ = where_.empty() ? std::move(text).error() : std::move(text).error().at(where_);
      return;
    }
    open_.push_back({path, std::move(*text), 0, 0});
  }

  void fail(std::string_view what) {
    error_ = Error(where_.empty() ? std::string(what) : concat({where_, ": ", what}));
  }

  void read_line() {
    File& file = open_.back();
    if (file.at >= file.text.size()) {
      open_.pop_back();
      return;
    }
    const std::size_t end = std::min(file.text.find('\n', file.at), file.text.size());
    // A copy: %include makes open_ grow.
    const std::string line = file.text.substr(file.at, end - file.at);
    file.at = end + 1;
    where_ = concat({file.path, ":", std::to_string(++file.line)});
    if (line.find('\0') != std::string::npos) return fail("the line holds a zero byte");
    take(line);
  }

  /// One line, or what stands behind a section's header.
  void take(std::string_view rest) {
    rest = without_leading_space(rest);
    if (rest.empty() || rest[0] == ';' || rest[0] == '#') return;
    if (rest[0] == '[') return take_section(rest);
    if (rest[0] == '%') return take_include(rest);
    take_key(rest);
  }

  void take_section(std::string_view rest) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return fail("a section's name must end with ]");
    if (end == 1) return fail("a section must have a name");
    in_section_ = true;
    give("s", rest.substr(1, end - 1));
    take(rest.substr(end + 1));
  }

  void take_include(std::string_view rest) {
    constexpr std::string_view kWord = "%include";
    const std::string_view path = without_space(rest.substr(std::min(kWord.size(), rest.size())));
    if (rest.substr(0, kWord.size()) != kWord || path.empty() || !is_space(rest[kWord.size()])) {
      return fail("expected %include and a file name");
    }
    open(std::string(path));
  }

  void take_key(std::string_view rest) {
    std::string key;
    std::size_t at = 0;
    if (rest[0] == '\'') {
      for (at = 1;; ++at) {
        if (at >= rest.size()) return fail("a quoted name must end with '");
        if (rest[at] != '\'') {
          key += rest[at];
        } else if (at + 1 < rest.size() && rest[at + 1] == '\'') {
          key += rest[++at];
        } else {
          break;
        }
      }
      ++at;
    } else {
      while (at < rest.size() && is_key_char(rest[at])) ++at;
      key = rest.substr(0, at);
    }
    rest = without_leading_space(rest.substr(at));
    if (key.empty() || rest.empty() || rest[0] != '=')
      return fail("expected [section], name = value or %include file");
    if (!in_section_) return fail(concat({key, " stands before the first [section]"}));
    give("k", key);
    give("v", without_space(rest.substr(1)));
  }

  void give(std::string_view what, std::string_view text) {
    std::string name(what);
    do {
      std::string line = name + "=";
      append_escaped(line, text.substr(0, kPieceBytes));
      ready_.push_back(std::move(line));
      text.remove_prefix(std::min(kPieceBytes, text.size()));
      if (name == "k") name = "K";
      if (name == "s") name = "S";
    } while (!text.empty());
  }

  const IniSource& files_;
  std::vector<File> open_;
  std::deque<std::string> ready_;
  std::string where_;
  std::optional<Error> error_;
  int files_read_ = 0;
  bool in_section_ = false;
};

struct Parse {
  LineFeeder feeder;
  std::vector<IniLine> lines;
  std::string section;
};

char* read_for_inih(char* buffer, int size, void* stream) {
  const std::optional<std::string> line = static_cast<Parse*>(stream)->feeder.next();
  if (!line || line->size() + 2 > static_cast<std::size_t>(size)) return nullptr;
  std::memcpy(buffer, line->data(), line->size());
  buffer[line->size()] = '\n';
  buffer[line->size() + 1] = '\0';
  return buffer;
}

int take_from_inih(void* user, const char*, const char* name, const char* value) {
  Parse& parse = *static_cast<Parse*>(user);
  if (name[0] == 's') {
    parse.section = unescaped(value);
  } else if (name[0] == 'S') {
    parse.section += unescaped(value);
  } else if (name[0] == 'k') {
    parse.lines.push_back({parse.section, unescaped(value), "", parse.feeder.where()});
  } else {
    IniLine& line = parse.lines.back();
    (name[0] == 'K' ? line.key : line.value) += unescaped(value);
  }
  return 1;
}

}  // namespace

Result<std::vector<IniLine>> read_ini(const IniSource& files, const std::string& path) {
  Parse parse{LineFeeder(files, path), {}, {}};
  const int bad_line = ini_parse_stream(read_for_inih, &parse, take_from_inih, &parse);
  if (parse.feeder.error()) return *parse.feeder.error();
  if (bad_line != 0) return Error(concat({path, ": can't be parsed"}));
  return std::move(parse.lines);
}

Result<std::vector<std::pair<std::string, std::string>>> parse_connection_string(
    std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (text = without_space(text); !text.empty(); text = without_leading_space(text)) {
    std::size_t at = 0;
    while (at < text.size() && text[at] != '=' && !is_space(text[at])) ++at;
    std::string key(text.substr(0, at));
    text = without_leading_space(text.substr(at));
    if (key.empty() || text.empty() || text[0] != '=') {
      return Error(concat({"expected key=value", key.empty() ? "" : ", not ", key}));
    }
    text = without_leading_space(text.substr(1));
    std::string value;
    if (!text.empty() && text[0] == '\'') {
      for (at = 1;; ++at) {
        if (at >= text.size()) return Error(concat({key, ": a quoted value must end with '"}));
        if (text[at] != '\'') {
          value += text[at];
        } else if (at + 1 < text.size() && text[at + 1] == '\'') {
          value += text[++at];
        } else {
          break;
        }
      }
      ++at;
    } else {
      for (at = 0; at < text.size() && !is_space(text[at]);) ++at;
      value = text.substr(0, at);
    }
    if (value.empty()) return Error(concat({key, ": the value is empty"}));
    text.remove_prefix(at);
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return pairs;
}

}  // namespace pgweir::config
