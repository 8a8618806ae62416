// PgBouncer's auth_file: one user and secret a line.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "auth/secret.h"

namespace pgweir::auth {

/// Who may log in, with which secret. Immutable once made: a reload makes a new one, a login keeps
/// the one it began with.
class Users {
 public:
  using Map = std::map<std::string, Secret, std::less<>>;

  Users() = default;
  explicit Users(Map by_name) noexcept : by_name_(std::move(by_name)) {}

  /// nullptr: nobody of that name.
  const Secret* find(std::string_view user) const noexcept {
    const auto found = by_name_.find(user);
    return found == by_name_.end() ? nullptr : &found->second;
  }
  std::size_t size() const noexcept { return by_name_.size(); }
  /// By name.
  Map::const_iterator begin() const noexcept { return by_name_.begin(); }
  Map::const_iterator end() const noexcept { return by_name_.end(); }

 private:
  Map by_name_;
};

struct Userlist {
  Users users;
  /// One for each line that was passed over: "file:line: reason". Never holds a secret.
  std::vector<std::string> warnings;
};

/// Reads lines of the form `"user" "secret"`, where "" within quotes is one quote. What follows on
/// the line is ignored, as are empty lines and those that begin with ; or #. A bad line is warned
/// of and does not spoil the rest; of two lines for one user the last one counts. `file` only names
/// the place in warnings.
Userlist parse_userlist(std::string_view text, std::string_view file);

}  // namespace pgweir::auth
