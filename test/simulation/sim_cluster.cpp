#include "sim_cluster.h"

#include <algorithm>

#include "base/text.h"
#include "sim_backend.h"

namespace pgweir::sim {
namespace {

constexpr std::uint64_t kBlock = 8192;
constexpr std::uint64_t kSegment = 16U << 20;
constexpr std::uint64_t kFirstLsn = 0x3000000 + 40;

std::uint64_t header_bytes(std::uint64_t page_start) noexcept {
  return page_start % kSegment == 0 ? 40 : 24;
}

/// Where a record that begins at `from` and has `size` bytes ends: pages begin with a header that
/// it flows around.
std::uint64_t record_end(std::uint64_t from, std::uint64_t size) noexcept {
  if (from % kBlock == 0) from += header_bytes(from);
  std::uint64_t room = kBlock - from % kBlock;
  while (size > room) {
    size -= room;
    from += room;
    from += header_bytes(from);
    room = kBlock - from % kBlock;
  }
  return from + size;
}

}  // namespace

// ---- a node

SimNode::SimNode(SimCluster& cluster, int index, std::string host)
    : cluster_(cluster), index_(index), host_(std::move(host)) {}

SimNode::~SimNode() { cluster_.network().shut(address()); }

void SimNode::on_accepted(std::unique_ptr<io::Door> door) noexcept {
  reap();
  backends_.push_back(std::make_unique<SimBackend>(*this, std::move(door)));
}

/// Backends are freed here, when none of them is on the stack.
void SimNode::reap() {
  std::erase_if(backends_,
                [](const std::unique_ptr<SimBackend>& backend) { return backend->gone(); });
}

tokens::Lsn SimNode::insert_lsn() const {
  const tokens::Lsn end = cluster_.truth().record(wal_.back()).end;
  // The next record will begin behind the header of a page that has not been begun (pitfall 26).
  return end.value % kBlock == 0 ? tokens::Lsn{end.value + header_bytes(end.value)} : end;
}
tokens::Lsn SimNode::replay_lsn() const { return cluster_.truth().record(applied()).end; }
tokens::Lsn SimNode::receive_lsn() const { return cluster_.truth().record(received()).end; }

RecordId SimNode::append(std::uint32_t tables) {
  Truth& truth = cluster_.truth();
  Dice& dice = cluster_.dice();
  const WalRecord& last = truth.record(wal_.back());
  WalRecord record;
  const std::uint64_t from = last.end.value;
  record.end.value = record_end(from, 8 * (5 + dice.below(60)));
  if (dice.chance(100))
    record.end.value = (from / kBlock + 1) * kBlock;  // Exactly at a page's end.
  record.versions = last.versions;
  const auto id = static_cast<RecordId>(truth.add(record));
  if (tables != 0) {
    Versions versions = record.versions;
    for (std::size_t i = 0; i < kTables; ++i) {
      if ((tables & (1U << i)) != 0) versions[i] = id;
    }
    truth.set_versions(id, versions);
  }
  wal_.push_back(id);
  replayed_ = replay_wanted_ = wal_.size();
  if (cluster_.asynchronous_commit) {
    if (!flush_scheduled_) {
      flush_scheduled_ = true;
      cluster_.loop().after(dice.between(Duration{2000}, Duration{60'000}), [this, life = lives_] {
        if (life != lives_) return;
        flush_scheduled_ = false;
        flush_wal();
      });
    }
  } else {
    flush_wal();
  }
  return id;
}

/// Only flushed WAL travels.
void SimNode::flush_wal() {
  flushed_ = wal_.size();
  for (std::size_t i = 0; i < cluster_.size(); ++i) {
    SimNode& standby = cluster_.node(i);
    if (standby.upstream_ != this || !standby.up_) continue;
    const Time when =
        std::max(standby.receive_not_before_,
                 cluster_.loop().now() + cluster_.dice().between(Duration{100}, Duration{1500}));
    standby.receive_not_before_ = when;
    cluster_.loop().at(when, [&standby, life = standby.lives_] {
      if (life == standby.lives_) standby.receive();
    });
  }
}

void SimNode::receive() {
  if (!up_ || is_primary_ || !upstream_ || !upstream_->up_) return;
  if (upstream_->flushed_ < wal_.size() || upstream_->wal_[wal_.size() - 1] != wal_.back()) {
    follow(nullptr);  // Our histories have parted: no stream until somebody rebuilds us.
    return;
  }
  if (upstream_->flushed_ == wal_.size()) return;
  wal_.insert(wal_.end(), upstream_->wal_.begin() + static_cast<std::ptrdiff_t>(wal_.size()),
              upstream_->wal_.begin() + static_cast<std::ptrdiff_t>(upstream_->flushed_));
  flushed_ = wal_.size();
  timeline_ = upstream_->timeline_;
  replay_wanted_ = wal_.size();
  if (replay_paused_) return;
  const Time when = std::max(
      replay_not_before_, cluster_.loop().now() + cluster_.dice().between(habits.replay_delay_min,
                                                                          habits.replay_delay_max));
  replay_not_before_ = when;
  cluster_.loop().at(when, [this, life = lives_, count = wal_.size()] {
    if (life == lives_) replay_to(count);
  });
}

void SimNode::replay_to(std::size_t count) {
  if (!up_ || is_primary_ || replay_paused_) return;
  replayed_ = std::max(replayed_, std::min(count, wal_.size()));
  cluster_.loop().trace().mix(static_cast<std::uint64_t>(index_) << 32 | replayed_);
}

void SimNode::pause_replay(bool on) {
  cluster_.loop().note(concat({host_, on ? " pauses replay" : " resumes replay"}));
  replay_paused_ = on;
  if (!on && !is_primary_) replay_to(replay_wanted_);
}

void SimNode::start() {
  if (up_) return;
  up_ = true;
  ++lives_;
  flush_scheduled_ = false;
  started_at_ = cluster_.next_start();
  cluster_.loop().note(concat({host_, " starts as ", is_primary_ ? "primary" : "standby"}));
  cluster_.network().open(address(), *this);
  if (is_primary_) {
    append(0);  // The checkpoint that ends recovery.
  } else {
    replay_to(wal_.size());
    follow(upstream_);
  }
  if (is_primary_) {
    for (std::size_t i = 0; i < cluster_.size(); ++i) {
      if (cluster_.node(i).upstream_ == this) cluster_.node(i).follow(this);
    }
  }
}

void SimNode::stop(bool crash) {
  if (!up_) return;
  cluster_.loop().note(concat({host_, crash ? " crashes" : " stops"}));
  up_ = false;
  ++lives_;
  cluster_.network().shut(address());
  if (crash && is_primary_ && flushed_ < wal_.size()) {
    wal_.resize(flushed_);
    replayed_ = replay_wanted_ = wal_.size();
    if (this == cluster_.primary_) cluster_.truth().history_is(wal_.back());
  }
  for (const std::unique_ptr<SimBackend>& backend : backends_) backend->shut_down(crash);
  if (crash) cluster_.network().reset_host(host_, "connection reset by peer");
}

void SimNode::promote() {
  cluster_.loop().note(concat({host_, " is promoted"}));
  replay_paused_ = false;
  replayed_ = wal_.size();
  is_primary_ = true;
  upstream_ = nullptr;
  timeline_ = cluster_.next_timeline();
  append(0);  // The record that ends recovery.
}

void SimNode::follow(SimNode* upstream) {
  upstream_ = upstream;
  if (!upstream || !up_) return;
  cluster_.loop().after(cluster_.dice().between(Duration{1000}, Duration{20'000}),
                        [this, life = lives_] {
                          if (life == lives_) receive();
                        });
}

void SimNode::rebuild_from(SimNode& source) {
  stop(true);
  cluster_.loop().note(concat({host_, " is rebuilt from ", source.host()}));
  is_primary_ = false;
  stray = false;
  replay_paused_ = false;
  wal_.assign(source.wal_.begin(),
              source.wal_.begin() + static_cast<std::ptrdiff_t>(source.flushed_));
  replayed_ = flushed_ = replay_wanted_ = wal_.size();
  timeline_ = source.timeline_;
  upstream_ = &source;
  start();
}

void SimNode::check_limits(const std::string& user) {
  int of_user = 0;
  int of_all = 0;
  for (const std::unique_ptr<SimBackend>& backend : backends_) {
    if (!backend->held_by_pooler()) continue;
    ++of_all;
    if (backend->user() == user) ++of_user;
  }
  Truth& truth = cluster_.truth();
  truth.ensure(cluster_.user_servers_max == 0 || of_user <= cluster_.user_servers_max,
               concat({host_, " has ", std::to_string(of_user), " servers of ", user,
                       ", allowed are ", std::to_string(cluster_.user_servers_max)}));
  truth.ensure(cluster_.servers_max == 0 || of_all <= cluster_.servers_max,
               concat({host_, " has ", std::to_string(of_all), " servers, allowed are ",
                       std::to_string(cluster_.servers_max)}));
}

void SimNode::cancel(std::uint32_t pid, std::uint32_t key) {
  for (const std::unique_ptr<SimBackend>& backend : backends_) {
    if (backend->pid() == pid && backend->key() == key && backend->logged_in()) {
      backend->cancel();
      return;
    }
  }
  cluster_.loop().note(concat({host_, ": a cancel for nobody"}));
}

// ---- the cluster

SimCluster::SimCluster(SimLoop& loop, SimNetwork& network, Truth& truth, Dice dice, int nodes)
    : loop_(loop), network_(network), truth_(truth), dice_(dice) {
  truth_.set_end(0, tokens::Lsn{kFirstLsn});
  for (int i = 0; i < nodes; ++i) {
    nodes_.push_back(std::make_unique<SimNode>(*this, i, "n" + std::to_string(i)));
  }
  primary_ = nodes_.front().get();
  primary_->is_primary_ = true;
  for (const std::unique_ptr<SimNode>& node : nodes_) {
    if (node.get() != primary_) node->upstream_ = primary_;
  }
  for (const std::unique_ptr<SimNode>& node : nodes_) node->start();
}

SimCluster::~SimCluster() = default;

SimNode* SimCluster::find(const std::string& host) {
  for (const std::unique_ptr<SimNode>& node : nodes_) {
    if (node->host() == host) return node.get();
  }
  return nullptr;
}

void SimCluster::fail_over(SimNode& heir) {
  primary_->stop(true);
  primary_->stray = true;
  primary_ = &heir;
  // History goes on from what the heir has, before anybody can write to it.
  truth_.history_is(heir.received());
  heir.promote();
}

void SimCluster::realign() {
  for (const std::unique_ptr<SimNode>& node : nodes_) {
    if (node.get() == primary_) continue;
    const std::size_t have = node->wal_.size();
    const bool fits = !node->is_primary_ && have <= primary_->flushed_ &&
                      primary_->wal_[have - 1] == node->wal_.back();
    if (!fits) {
      node->rebuild_from(*primary_);
    } else {
      node->upstream_ = primary_;
      if (!node->up_) node->start();
      node->follow(primary_);
    }
  }
}

}  // namespace pgweir::sim
