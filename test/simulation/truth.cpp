#include "truth.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/text.h"

namespace pgweir::sim {

std::string_view table_name(std::size_t table) noexcept {
  static constexpr std::array<std::string_view, kTables> kNames = {"t0", "t1", "t2", "t3",
                                                                   "t4", "t5", "h0", "fresh"};
  return kNames[table];
}

std::string Marker::text() const {
  return concat({"c", std::to_string(client), ".", std::to_string(unit)});
}

std::optional<Marker> find_marker(std::string_view text) noexcept {
  for (std::size_t at = text.find('c'); at != std::string_view::npos; at = text.find('c', at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_'))
      continue;
    Marker marker;
    const char* end = text.data() + text.size();
    const auto [dot, bad] = std::from_chars(text.data() + at + 1, end, marker.client);
    if (bad != std::errc{} || dot == end || *dot != '.') continue;
    if (std::from_chars(dot + 1, end, marker.unit).ec == std::errc{}) return marker;
  }
  return std::nullopt;
}

RecordId Truth::add(const WalRecord& record) {
  records_.push_back(record);
  committed_at_.push_back(loop_.now());
  return static_cast<RecordId>(records_.size() - 1);
}

/// Of a lost record only what the new history kept of its table counts. Ids only grow, so what was
/// written after the fork is above every lost one.
Versions Truth::surviving(Versions versions) const {
  for (const Fork& fork : forks_) {
    for (std::size_t i = 0; i < kTables; ++i) {
      if (versions[i] < fork.born) versions[i] = std::min(versions[i], fork.kept[i]);
    }
  }
  return versions;
}

void Truth::history_is(RecordId last) {
  loop_.note("truth: history goes on from " + std::to_string(last));
  forks_.push_back({static_cast<RecordId>(records_.size()), records_[last].versions});
  acknowledged_ = surviving(acknowledged_);
}

Due Truth::must_see(const SessionMemory& session, RecordId on_primary) const {
  using config::ConsistencyLevel;
  Due must{.versions = {}, .acknowledged = acknowledged_, .written = surviving(session.written)};
  for (std::size_t i = 0; i < kTables; ++i) {
    const RecordId own = std::max(session.seen[i], session.written[i]);
    switch (promises[i].level) {
      case ConsistencyLevel::eventual:
      case ConsistencyLevel::window:
      case ConsistencyLevel::pin: break;
      case ConsistencyLevel::session: must.versions[i] = own; break;
      case ConsistencyLevel::table:
      case ConsistencyLevel::primary: must.versions[i] = std::max(own, acknowledged_[i]); break;
      case ConsistencyLevel::latest: must.versions[i] = std::max({own, acknowledged_[i], records_[on_primary].versions[i]}); break;
    }
  }
  must.versions = surviving(must.versions);
  return must;
}

/// A window that is still open when the answer comes was open when the read was routed: the pooler counts it from a later moment than
/// that of the commit.
RecordId Truth::due_now(std::size_t table, const Due& must) const {
  using config::ConsistencyLevel;
  const Promise& promise = promises[table];
  switch (promise.level) {
    case ConsistencyLevel::window: return within(must.acknowledged[table], promise.window) ? must.acknowledged[table] : 0;
    case ConsistencyLevel::pin: {
      bool pinned = false;
      for (std::size_t i = 0; i < kTables; ++i) {
        pinned = pinned || ((i != kHiddenTable || catalog_warns) && within(must.written[i], promise.window));
      }
      return pinned ? must.acknowledged[table] : 0;
    }
    case ConsistencyLevel::eventual:
    case ConsistencyLevel::session:
    case ConsistencyLevel::table:
    case ConsistencyLevel::latest:
    case ConsistencyLevel::primary: break;
  }
  return must.versions[table];
}

void Truth::acknowledged(Marker unit, SessionMemory& session) {
  ++units_answered;
  const auto found = commits_.find(unit);
  if (found == commits_.end()) return;
  for (RecordId id : found->second) {
    Versions written = records_[id].versions;
    // Only what this record changed: the rest is others' business.
    for (std::size_t i = 0; i < kTables; ++i) {
      if (written[i] != id) written[i] = 0;
    }
    written = surviving(written);
    for (std::size_t i = 0; i < kTables; ++i) {
      session.written[i] = std::max(session.written[i], written[i]);
      // What looks like a read and was never refused can't be known for a write by others.
      if (i == kHiddenTable && !catalog_warns && refused_.count(unit) == 0) continue;
      acknowledged_[i] = std::max(acknowledged_[i], written[i]);
    }
  }
}

void Truth::read(Marker unit, SessionMemory& session, std::uint32_t tables, RecordId snapshot,
                 const Due& must, std::string_view node, bool on_primary) {
  if (snapshot >= records_.size()) {
    fail(concat({unit.text(), " read a state that never was: ", std::to_string(snapshot)}));
    return;
  }
  const Versions& there = records_[snapshot].versions;
  Versions due{};
  for (std::size_t i = 0; i < kTables; ++i) due[i] = due_now(i, must);
  due = surviving(due);
  // What a replica shows is a state as a whole. The primary shows commits that are still on their
  // way to their own clients; at level table those bind the session only in tables that it has
  // looked at.
  const bool whole_state = !on_primary || level == config::ConsistencyLevel::session;
  for (std::size_t i = 0; i < kTables; ++i) {
    if (whole_state) session.seen[i] = std::max(session.seen[i], there[i]);
    if ((tables & (1U << i)) == 0) continue;
    if (due[i] > must.versions[i]) ++windows_met;
    if (there[i] < due[i]) {
      fail(concat({unit.text(), " read table ", table_name(i), " on ", node, " as of record ",
                   std::to_string(there[i]), ", but had to see ", std::to_string(due[i])}));
    }
    // A write that nothing gives away is under way for no one, so a look at the primary binds
    // nobody to it.
    if (i == kHiddenTable && on_primary && !catalog_warns && !whole_state) continue;
    session.seen[i] = std::max(session.seen[i], there[i]);
  }
}

void Truth::fail(const std::string& what) {
  loop_.note("FAIL " + what);
  if (failure_.empty()) failure_ = what;
}

}  // namespace pgweir::sim
