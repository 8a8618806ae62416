// What a client has prepared in SQL (PREPARE name AS …) on the server that it is pinned to, so that EXECUTE counts as the statement it
// runs. What is not here may be anything; what is here is certain: it is added when the server has confirmed the PREPARE, and taken
// away before anything is sent that could give the name another meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "session/statements.h"
#include "sql/classifier.h"

namespace pgweir::session {

class SqlPrepared {
 public:
  struct Known {
    PreparedStatement statement;
    sql::Dialect dialect;
  };

  /// `unit` sends PREPARE, of a text that is empty when it is not to be known. Bounded: past that it stays unknown, too.
  void sent(std::uint64_t unit, std::string_view name, std::string_view text, sql::Dialect dialect) {
    if (waiting_.size() >= kStatementsMax) return forget_all();
    // Each stands in the row, so that a confirmation finds the right one.
    if (bytes_ + text.size() > kTextBytesMax || known_.size() >= kStatementsMax) text = {};
    Waiting& waiting = waiting_.emplace_back();
    waiting.unit = unit;
    waiting.name = name;
    waiting.known.statement.text = text;
    waiting.known.dialect = dialect;
    bytes_ += text.size();
  }
  /// The server has carried out the PREPARE of that unit.
  void confirmed(std::uint64_t unit) {
    for (Waiting& waiting : waiting_) {
      if (waiting.unit != unit) continue;
      waiting.unit = 0;
      if (waiting.known.statement.text.empty()) return forget(waiting.name);
      const auto [at, fresh] = known_.try_emplace(waiting.name, std::move(waiting.known));
      if (fresh) {
        waiting.known.statement.text.clear();  // It counts there now.
      } else {
        drop(at);  // Nobody can have succeeded with it but after something that was not seen.
      }
      return;
    }
  }
  /// Units up to this one have been answered.
  void answered(std::uint64_t unit) {
    while (!waiting_.empty() && waiting_.front().unit <= unit) {
      make_unknown(waiting_.front());
      waiting_.pop_front();
    }
  }
  Known* find(std::string_view name) {
    const auto found = known_.find(name);
    return found == known_.end() ? nullptr : &found->second;
  }
  void forget(std::string_view name) {
    for (Waiting& waiting : waiting_) {
      if (waiting.name == name) make_unknown(waiting);
    }
    if (const auto found = known_.find(name); found != known_.end()) drop(found);
  }
  /// Also what is still to be confirmed.
  void forget_all() {
    known_.clear();
    for (Waiting& waiting : waiting_) make_unknown(waiting);
    bytes_ = 0;
  }
  std::size_t size() const noexcept { return known_.size(); }

 private:
  static constexpr std::size_t kStatementsMax = 1000;
  static constexpr std::size_t kTextBytesMax = 256 << 10;

  struct Waiting {
    std::uint64_t unit = 0;
    std::string name;
    Known known;
  };
  void make_unknown(Waiting& waiting) {
    bytes_ -= waiting.known.statement.text.size();
    waiting.known.statement.text.clear();
  }
  using Map = std::map<std::string, Known, std::less<>>;
  void drop(Map::iterator at) {
    bytes_ -= at->second.statement.text.size();
    known_.erase(at);
  }

  Map known_;
  std::deque<Waiting> waiting_;
  std::size_t bytes_ = 0;
};

}  // namespace pgweir::session
