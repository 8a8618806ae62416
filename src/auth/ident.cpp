#include "auth/ident.h"

#include <regex.h>

#include <array>

#include "auth/rule_text.h"
#include "base/text.h"

namespace pgweir::auth {
namespace {

/// Names longer than this are matched by no expression: matching takes time and memory by length.
constexpr std::size_t kOutsideBytesMax = 1024;
constexpr std::size_t kPatternBytesMax = 1024;

struct FreeRegex {
  void operator()(regex_t* compiled) const noexcept {
    regfree(compiled);
    delete compiled;
  }
};
using Regex = std::unique_ptr<regex_t, FreeRegex>;

/// The system's regcomp() copies what is repeated: repetitions of repetitions make it use all memory, or all
/// of the stack.
const char* unfit(std::string_view pattern) noexcept {
  static constexpr int kDepthMax = 4;
  static constexpr int kRepetitionsMax = 32;
  int depth = 0;
  int repetitions = 0;
  bool repeated = false;  // What stands before is a repetition.
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '*' || c == '+' || c == '?') {
      if (repeated) return "a repetition of a repetition";
      if (++repetitions > kRepetitionsMax) return "more than 32 repetitions";
      repeated = true;
      continue;
    }
    repeated = false;
    if (c == '{') return "a repetition with {}: write it out";
    if (c == '\\') {
      ++i;
    } else if (c == '(') {
      if (++depth > kDepthMax) return "groups more than 4 deep";
    } else if (c == ')') {
      --depth;
    } else if (c == '[') {
      // A ] that stands first belongs to the set.
      ++i;
      if (i < pattern.size() && pattern[i] == '^') ++i;
      i = pattern.find(']', i + 1);
      if (i == std::string_view::npos) return "a set without an end";
    }
  }
  return nullptr;
}

Result<Regex> compile(const std::string& pattern) {
  if (pattern.size() > kPatternBytesMax) return Error("the regular expression is longer than 1024 bytes");
  if (const char* problem = unfit(pattern)) return Error(concat({"regular expression \"", pattern, "\": ", problem}));
  auto* raw = new regex_t;
  const int problem = regcomp(raw, pattern.c_str(), REG_EXTENDED);
  if (problem != 0) {
    std::array<char, 200> text{};
    regerror(problem, raw, text.data(), text.size());
    delete raw;
    return Error(concat({"regular expression \"", pattern, "\": ", text.data()}));
  }
  return Regex(raw);
}

}  // namespace

struct IdentMaps::Entry {
  std::string outside;  ///< unless there is a pattern
  Regex pattern;
  Word user;

  bool allows(std::string_view name, std::string_view asked) const;
};

bool IdentMaps::Entry::allows(std::string_view name, std::string_view asked) const {
  std::string wanted = user.text;
  if (!pattern) {
    if (name != outside) return false;
  } else {
    // The expression sees a text that ends at a zero byte: a name that holds one is another name.
    if (name.size() > kOutsideBytesMax || name.find('\0') != std::string_view::npos) return false;
    const std::string text(name);
    std::array<regmatch_t, 2> groups{};
    if (regexec(pattern.get(), text.c_str(), groups.size(), groups.data(), 0) != 0) return false;
    if (const std::size_t at = wanted.find("\\1"); at != std::string::npos) {
      if (groups[1].rm_so < 0) return false;
      const auto begin = static_cast<std::size_t>(groups[1].rm_so);
      wanted.replace(at, 2, text, begin, static_cast<std::size_t>(groups[1].rm_eo) - begin);
      return wanted == asked;
    }
  }
  return user.is("all") || wanted == asked;
}

IdentMaps::IdentMaps() = default;
IdentMaps::~IdentMaps() = default;
IdentMaps::IdentMaps(IdentMaps&&) noexcept = default;
IdentMaps& IdentMaps::operator=(IdentMaps&&) noexcept = default;

bool IdentMaps::allows(std::string_view map, std::string_view outside, std::string_view user) const {
  const auto found = maps_.find(map);
  if (found == maps_.end() || outside.empty()) return false;
  for (const Entry& entry : found->second) {
    if (entry.allows(outside, user)) return true;
  }
  return false;
}

Result<IdentMaps> parse_ident(std::string_view text, std::string_view file) {
  Result<std::vector<RuleLine>> lines = read_rule_lines(text, file);
  if (!lines) return lines.error();
  IdentMaps maps;
  for (RuleLine& line : *lines) {
    const auto bad = [&](std::string_view reason) {
      return Error(concat({file, ":", std::to_string(line.number), ": ", reason}));
    };
    if (line.fields.size() != 3)
      return bad("expected a map, a name from outside and a database user");
    for (const Field& field : line.fields) {
      if (field.size() != 1) return bad("expected one word in each column");
      if (field[0].text.empty()) return bad("an empty name");
    }
    IdentMaps::Entry entry;
    entry.user = line.fields[2][0];
    const Word& outside = line.fields[1][0];
    if (outside.text.front() == '/') {
      Result<Regex> pattern = compile(outside.text.substr(1));
      if (!pattern) return bad(pattern.error().text());
      entry.pattern = std::move(*pattern);
      if (entry.user.text.find("\\1") != std::string::npos && entry.pattern->re_nsub == 0)
        return bad("\\1 needs a group in the regular expression");
    } else {
      entry.outside = outside.text;
    }
    maps.maps_[line.fields[0][0].text].push_back(std::move(entry));
  }
  return maps;
}

}  // namespace pgweir::auth
