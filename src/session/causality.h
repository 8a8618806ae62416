// What a session has written and seen, or all sessions that share a causal key: what its next read must see.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "sql/statement_class.h"
#include "tokens/commit_log.h"

namespace pgweir::session {

struct Causality {
  tokens::Need need;
  /// Of the primary that the LSNs here are of: ClusterView::identity.
  std::uint64_t identity = 0;
  /// Where it was read last, by which instance there, and when; Time::max() once `seen` covers what that had shown.
  NodeId last_replica;
  std::uint64_t last_instance = 0;  ///< routing::instance_of()
  Time last_read_at{};
  /// What reads on replicas have shown, at most: only the last of them may be read again before it is known to be there.
  tokens::Lsn seen{};
  tokens::Lsn seen_elsewhere{};  ///< the part of it that last_replica did not show
  /// Something was written or seen at a level that does not keep it in `need`: level session must ask for all there is.
  bool unrecorded = false;
  /// After a statement that is said to write nothing, of a shape that no standby has proven: should it have written, who shares this
  /// sees it. A further run of that shape is exempt: if it writes, a standby refuses it. So one that is run without a pause gets
  /// its proof.
  struct Doubt {
    tokens::Need need;
    std::uint64_t identity = 0;  ///< as that of the whole
    sql::Shape shape;            ///< all zero for several
  };
  Doubt doubt;
  /// The last commit, as its acknowledgement was passed on; the zero Time before the first.
  Time last_write_at{};

  bool read_is_covered() const noexcept { return !last_replica || last_read_at == Time::max(); }
  /// An answer from `replica` has ended. Under a shared key another session's may have come from elsewhere meanwhile: nobody can tell
  /// which of both was ahead, so a capture has to.
  void note_read(NodeId replica, std::uint64_t instance, Time now, tokens::CaptureLog& captures) {
    const bool elsewhere = last_replica != replica || last_instance != instance;
    if (elsewhere && !read_is_covered()) need.join({.lsn = {}, .pending = captures.mark()});
    if (elsewhere) seen_elsewhere = seen;
    last_replica = replica;
    last_instance = instance;
    last_read_at = now;
  }
};

/// At most 128 bytes, none of them a control character; an empty one ends the use of keys.
bool is_causal_key(std::string_view key) noexcept;

/// The causal keys of one database, bounded. A key that makes room is remembered as a part of what every unknown key must see.
class CausalKeys {
 public:
  static constexpr std::size_t kKeyBytesMax = 128;

  explicit CausalKeys(std::size_t keys_max = 50'000) : keys_max_(keys_max) {}

  /// Never null. Keys that a session holds do not make room.
  std::shared_ptr<Causality> get(std::string_view key, tokens::CaptureLog& captures);
  /// Writes are seen from `now` on: any key may have written until then.
  void begin(Time now, tokens::Ticket floor) noexcept {
    forgotten_.last_write_at = now;
    forgotten_.need.pending = floor;
  }
  /// Something was committed under a key that nobody could read: it concerns each of them.
  void write_of_any(tokens::Ticket ticket, Time now) noexcept {
    any_.need.join({.lsn = {}, .pending = ticket});
    any_.last_write_at = now;
  }
  /// What that asks of `state`, which is a key's, before it is used.
  void settle_writes_of_any(Causality& state) const noexcept {
    state.need.join(any_.need);
    state.last_write_at = std::max(state.last_write_at, any_.last_write_at);
  }
  std::size_t size() const noexcept { return by_key_.size(); }

 private:
  struct Row {
    std::string key;
    std::shared_ptr<Causality> state;
  };
  void make_room(tokens::CaptureLog& captures);

  std::size_t keys_max_;
  std::list<Row> by_age_;  ///< Asked for longest ago first.
  std::map<std::string_view, std::list<Row>::iterator> by_key_;
  Causality forgotten_;
  Causality any_;
};

}  // namespace pgweir::session
