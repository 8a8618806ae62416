// Protocol-level prepared statements, shared: clients' names lead to one statement for each (text, types), which is prepared
// on a server under a name of ours when it is first needed there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/bytes.h"
#include "session/settings_set.h"
#include "sql/statement_class.h"

namespace pgweir::session {

/// Immutable but for what is learnt of it.
struct PreparedStatement {
  std::uint64_t id = 0;
  std::string text;
  std::string types;                 ///< parameter type oids as on the wire
  std::string server_name;           ///< "pgweir_<id>"
  std::shared_ptr<const sql::StatementClass> meaning;  ///< null when the database is not split
  std::uint64_t judging = 0;         ///< DatabaseContext::judging when `meaning` was made
  SharedSettings under;              ///< what its literals mean: settings of the clients that share it
  bool proven = false;               ///< some server has accepted its Parse
};
using StatementRef = std::shared_ptr<PreparedStatement>;

/// All statements of one database that somebody still uses, and the last ones that nobody does.
class StatementStore {
 public:
  /// The statement of this text and types; made when it is new. Literals become values when PostgreSQL parses them
  /// (timestamptz '2026-01-01'), so clients with other settings than `under` have a statement of their own.
  StatementRef get(Bytes text, Bytes types, const SharedSettings& under = nullptr);
  /// It is of no use any more: the next Parse of its text makes a new one.
  void retire(const PreparedStatement& statement);
  std::size_t size() const noexcept { return by_key_.size(); }

 private:
  /// Views of what the statement itself holds, so that nothing is copied to look one up.
  struct Key {
    Bytes text;
    Bytes types;
    const SettingsSet* under;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<Bytes>()(key.text) * 31 + std::hash<Bytes>()(key.types) +
             std::hash<const void*>()(key.under);
    }
  };
  void sweep();

  std::unordered_map<Key, StatementRef, HashKey> by_key_;
  std::uint64_t last_id_ = 0;
  std::size_t sweep_at_ = 1024;
};

/// What one server has prepared: least recently used first out.
class ServerStatements {
 public:
  /// Whether a statement is prepared: surely, surely not, or only if a unit that is still under way does not fail.
  enum class Known : std::uint8_t { no, unsure, yes };

  /// `unit` counts what ended in a Sync on this server: within it a Parse that was sent is as good as one that was
  /// confirmed, because an error skips both. Makes the statement the most recently used one.
  Known use(const PreparedStatement& statement, std::uint64_t unit);
  /// Its Parse is sent in `unit`.
  void add(const StatementRef& statement, std::uint64_t unit);
  /// The Parse that was sent in `unit` succeeded.
  void confirm(const PreparedStatement& statement, std::uint64_t unit);
  /// The Parse that was sent in `unit` failed or was skipped.
  void failed(const PreparedStatement& statement, std::uint64_t unit);
  /// Nobody knows whether it is still there.
  void doubt(const PreparedStatement& statement);
  void remove(const PreparedStatement& statement);
  void clear();
  /// The one to close when there are more than `max`; null when there are not.
  StatementRef over(std::size_t max);
  std::size_t size() const noexcept { return where_.size(); }

 private:
  static constexpr std::uint64_t kDoubtful = ~std::uint64_t{0};
  struct Entry {
    StatementRef statement;
    std::uint64_t sent_in;  ///< 0: confirmed; kDoubtful: no unit tells
  };
  std::list<Entry> used_;  ///< most recently used first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> where_;
};

}  // namespace pgweir::session
