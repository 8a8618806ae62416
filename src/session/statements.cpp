#include "session/statements.h"

#include <algorithm>

namespace pgweir::session {

StatementRef StatementStore::get(Bytes text, Bytes types, const SharedSettings& under) {
  if (const auto known = by_key_.find({text, types, under.get()}); known != by_key_.end()) return known->second;
  if (by_key_.size() >= sweep_at_) sweep();
  auto statement = std::make_shared<PreparedStatement>();
  statement->id = ++last_id_;
  statement->text = text;
  statement->types = types;
  statement->server_name = "pgweir_" + std::to_string(statement->id);
  statement->under = under;
  by_key_.emplace(Key{statement->text, statement->types, under.get()}, statement);
  return statement;
}

void StatementStore::retire(const PreparedStatement& statement) {
  const auto known = by_key_.find({statement.text, statement.types, statement.under.get()});
  if (known != by_key_.end() && known->second.get() == &statement) by_key_.erase(known);
}

void StatementStore::sweep() {
  // A statement that no client and no server holds can be made again; only its id is lost with it.
  std::erase_if(by_key_, [](const auto& entry) { return entry.second.use_count() == 1; });
  sweep_at_ = std::max<std::size_t>(1024, by_key_.size() * 2);
}

ServerStatements::Known ServerStatements::use(const PreparedStatement& statement, std::uint64_t unit) {
  const auto found = where_.find(statement.id);
  if (found == where_.end()) return Known::no;
  used_.splice(used_.begin(), used_, found->second);
  const std::uint64_t sent_in = found->second->sent_in;
  return sent_in == 0 || sent_in == unit ? Known::yes : Known::unsure;
}

void ServerStatements::add(const StatementRef& statement, std::uint64_t unit) {
  if (const auto found = where_.find(statement->id); found != where_.end()) {
    found->second->sent_in = unit;
    return;
  }
  used_.push_front({statement, unit});
  where_[statement->id] = used_.begin();
}

void ServerStatements::confirm(const PreparedStatement& statement, std::uint64_t unit) {
  // It may have been closed, or parsed again, by what was sent after it.
  const auto found = where_.find(statement.id);
  if (found != where_.end() && found->second->sent_in == unit) found->second->sent_in = 0;
}

void ServerStatements::failed(const PreparedStatement& statement, std::uint64_t unit) {
  const auto found = where_.find(statement.id);
  if (found != where_.end() && found->second->sent_in == unit) remove(statement);
}

void ServerStatements::doubt(const PreparedStatement& statement) {
  if (const auto found = where_.find(statement.id); found != where_.end()) found->second->sent_in = kDoubtful;
}

void ServerStatements::remove(const PreparedStatement& statement) {
  const auto found = where_.find(statement.id);
  if (found == where_.end()) return;
  used_.erase(found->second);
  where_.erase(found);
}

void ServerStatements::clear() {
  used_.clear();
  where_.clear();
}

StatementRef ServerStatements::over(std::size_t max) {
  if (used_.size() <= max) return nullptr;
  StatementRef oldest = used_.back().statement;
  remove(*oldest);
  return oldest;
}

}  // namespace pgweir::session
