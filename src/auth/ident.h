// Ident maps (auth_ident_file): which user of the operating system, or which name in a certificate,
// may be which user of the database.
//
//   <map> <outside name> <database user>
//
// An outside name that begins with '/' is a regular expression (POSIX extended); \1 in the database
// user is then its first group. `all` as the database user is everybody.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pgweir::auth {

class IdentMaps {
 public:
  IdentMaps();
  ~IdentMaps();
  IdentMaps(IdentMaps&&) noexcept;
  IdentMaps& operator=(IdentMaps&&) noexcept;

  bool has(std::string_view map) const noexcept { return maps_.find(map) != maps_.end(); }
  /// Whether `outside`, a name that was proved, may be `user`. Without a map of that name: never.
  bool allows(std::string_view map, std::string_view outside, std::string_view user) const;
  std::size_t size() const noexcept { return maps_.size(); }

 private:
  friend Result<IdentMaps> parse_ident(std::string_view text, std::string_view file);
  struct Entry;

  std::map<std::string, std::vector<Entry>, std::less<>> maps_;
};

/// A line that can't be understood spoils the file: "file:line: reason".
Result<IdentMaps> parse_ident(std::string_view text, std::string_view file);

}  // namespace pgweir::auth
