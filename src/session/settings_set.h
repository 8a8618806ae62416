// The settings that follow a client from server to server, as immutable sets that are shared: whether two sessions
// agree is a comparison of pointers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pgweir::session {

/// Names compare without case and are kept as PostgreSQL writes them ("TimeZone").
class SettingsSet {
 public:
  struct Item {
    std::string name;
    std::string value;
    bool operator==(const Item&) const = default;
  };

  /// nullptr: not in the set, which means the server's own default.
  const std::string* find(std::string_view name) const noexcept;
  const std::vector<Item>& items() const noexcept { return items_; }
  /// The same set with one value more, or another one; nullopt takes the name out.
  SettingsSet with(std::string_view name, std::optional<std::string_view> value) const;

 private:
  std::vector<Item> items_;  ///< In order of the folded name; a handful.
};

using SharedSettings = std::shared_ptr<const SettingsSet>;

/// Makes equal sets one object. Forgets sets that nobody uses any more.
class SettingsInterner {
 public:
  SharedSettings empty() { return intern(SettingsSet()); }
  SharedSettings intern(SettingsSet set);
  SharedSettings with(const SharedSettings& set, std::string_view name, std::optional<std::string_view> value);
  std::size_t size() const noexcept { return sets_.size(); }

 private:
  void sweep();

  std::map<std::string, std::weak_ptr<const SettingsSet>> sets_;
  std::size_t sweep_at_ = 64;
};

/// One simple query that brings a server from `have` to `want`; empty when they agree. Order: what the login role may
/// set, then the rest; a name that `want` lacks is RESET.
std::string difference(const SettingsSet& have, const SettingsSet& want);

}  // namespace pgweir::session
