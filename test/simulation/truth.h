// What is true: every commit that ever happened, who was told of it, who has seen what; and the
// checkers that compare the answers of the pooler with it. The nodes write it, the clients ask it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "sim_loop.h"
#include "tokens/lsn.h"

namespace pgweir::sim {

/// Tables t0 to t5 hold a counter each, h0 is written by hidden_write() alone, fresh is made by
/// CREATE TABLE fresh.
inline constexpr std::size_t kTables = 8;
inline constexpr std::size_t kHiddenTable = 6;
inline constexpr std::size_t kFreshTable = 7;
std::string_view table_name(std::size_t table) noexcept;

/// Numbers all WAL records of all histories in the order they came to be. 0: the state that a
/// cluster is born with.
using RecordId = std::uint32_t;

/// The last record that changed each table, at some point of some history.
using Versions = std::array<RecordId, kTables>;

struct WalRecord {
  tokens::Lsn end;
  Versions versions{};  ///< of all tables, this record included
};

/// "c12.7": the 7th unit of client 12. Statements carry it, answers bring it back.
struct Marker {
  std::uint32_t client = 0;
  std::uint32_t unit = 0;
  auto operator<=>(const Marker&) const = default;
  std::string text() const;
};
/// The first marker in `text`.
std::optional<Marker> find_marker(std::string_view text) noexcept;

/// The work_mem that a procedure leaves behind.
inline constexpr std::string_view kLeftBehind = "what a procedure left";

/// What a session, or a causal key, has seen and written; a client that connects anew begins a new one.
struct SessionMemory {
  Versions seen{};
  Versions written{};
};

/// By what the reads of a table are judged: its rule, or the level in force.
struct Promise {
  config::ConsistencyLevel level = config::ConsistencyLevel::table;
  /// Of the levels window and pin. Zero: a measured one, of which nothing can be said here.
  Duration window{};
};

/// What a read owes its client, as it was when it was sent.
struct Due {
  Versions versions{};      ///< whatever happens
  Versions acknowledged{};  ///< to anybody: only while a window lasts
  Versions written{};       ///< by the session or key
};

class Truth {
 public:
  explicit Truth(SimLoop& loop) : loop_(loop), records_(1), committed_at_(1) {}

  // From the nodes.
  RecordId add(const WalRecord& record);
  const WalRecord& record(RecordId id) const { return records_[id]; }
  void set_versions(RecordId id, const Versions& versions) { records_[id].versions = versions; }
  void set_end(RecordId id, tokens::Lsn end) { records_[id].end = end; }
  /// A standby refused what the unit asked: from then on the pooler knows that it writes.
  void refused(Marker unit) {
    ++writes_refused_by_standby;
    refused_.insert(unit);
  }
  /// The unit's writes are in the history with `id`.
  void committed(Marker unit, RecordId id) { commits_[unit].push_back(id); }
  /// The history went on from `last`: what is not in it is lost, and nobody can be promised to see
  /// it.
  void history_is(RecordId last);

  // From the clients.
  /// What a read that is sent now must see. `on_primary` is the state that the primary shows now.
  Due must_see(const SessionMemory& session, RecordId on_primary) const;
  /// The client got the end of the answer to `unit`.
  void acknowledged(Marker unit, SessionMemory& session);
  /// A read answered from the state at `snapshot`.
  void read(Marker unit, SessionMemory& session, std::uint32_t tables, RecordId snapshot,
            const Due& must, std::string_view node, bool on_primary);

  /// A promise was broken. The first one is the run's failure.
  void fail(const std::string& what);
  void ensure(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }
  bool failed() const noexcept { return !failure_.empty(); }
  const std::string& failure() const noexcept { return failure_; }

  /// In force where no rule is.
  config::ConsistencyLevel level = config::ConsistencyLevel::table;
  std::array<Promise, kTables> promises{};
  std::map<std::string, SessionMemory> keys;  ///< by causal key
  /// Hidden writes go by an operator whose function the catalog knows for volatile: then they count
  /// like others.
  bool catalog_warns = false;

  // What the run did, for tests of the simulator itself.
  std::uint64_t reads_on_replicas = 0;
  std::uint64_t reads_on_primary = 0;
  int server_version = 15;                 ///< of all nodes
  std::uint64_t waited_there = 0;          ///< WAIT FOR LSN, of which each of these had something to wait for
  std::uint64_t positions_asked = 0;       ///< Together with a read.
  std::uint64_t block_reads_moved = 0;     ///< Of READ COMMITTED blocks, run by themselves on a replica.
  std::uint64_t blocks_on_replicas = 0;    ///< Reads of repeatable blocks there.
  std::uint64_t writes_refused_by_standby = 0;
  std::uint64_t units_answered = 0;
  std::uint64_t cancels_hit = 0;
  std::uint64_t windows_met = 0;           ///< Tables of reads that owed something only because of a window.

 private:
  SimLoop& loop_;
  std::vector<WalRecord> records_;
  std::vector<Time> committed_at_;  ///< Of records_.
  std::map<Marker, std::vector<RecordId>> commits_;
  std::set<Marker> refused_;
  Versions acknowledged_{};
  struct Fork {
    RecordId born;  ///< Records from here on are of the new history.
    Versions kept;
  };
  std::vector<Fork> forks_;
  Versions surviving(Versions versions) const;
  bool within(RecordId id, Duration window) const { return id != 0 && committed_at_[id] + window > loop_.now(); }
  RecordId due_now(std::size_t table, const Due& must) const;
  std::string failure_;
};

}  // namespace pgweir::sim
