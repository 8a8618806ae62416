#include "troubles.h"

#include <algorithm>

#include "base/text.h"

namespace pgweir::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string_view to_string(Trouble trouble) noexcept {
  switch (trouble) {
    case Trouble::resets:
      return "resets";
    case Trouble::lag:
      return "lag";
    case Trouble::stalls:
      return "stalls";
    case Trouble::conflicts:
      return "conflicts";
    case Trouble::replica_crash:
      return "replica_crash";
    case Trouble::primary_restart:
      return "primary_restart";
    case Trouble::fail_over:
      return "fail_over";
    case Trouble::stray_promotion:
      return "stray_promotion";
    case Trouble::partition:
      return "partition";
    case Trouble::half_open:
      return "half_open";
    case Trouble::refused_logins:
      return "refused_logins";
    case Trouble::reloads:
      return "reloads";
    case Trouble::pauses:
      return "pauses";
    case Trouble::slow_network:
      return "slow_network";
    case Trouble::fault_places:
      return "fault_places";
    case Trouble::late_captures:
      return "late_captures";
    case Trouble::direct_writes:
      return "direct_writes";
  }
  return "?";
}

Troubles::Troubles(SimWorld& world, Dice dice, std::vector<Trouble> kinds)
    : world_(world), dice_(dice), kinds_(std::move(kinds)) {}

bool Troubles::has(Trouble trouble) const noexcept {
  return std::find(kinds_.begin(), kinds_.end(), trouble) != kinds_.end();
}

std::string Troubles::describe() const {
  std::string out;
  for (Trouble trouble : kinds_) out += concat({out.empty() ? "" : " ", to_string(trouble)});
  return out.empty() ? "calm" : out;
}

void Troubles::start() {
  SimCluster& cluster = world_.cluster;
  if (has(Trouble::resets)) world_.network.conditions().reset = dice_.between(5, 60);
  if (has(Trouble::fault_places)) fault_places_.emplace(dice_.fork(), 20);
  if (has(Trouble::late_captures)) world_.prober.late_captures = dice_.between(50, 500);
  if (has(Trouble::slow_network)) {
    world_.network.conditions().window = static_cast<std::size_t>(dice_.between(64, 4096));
    world_.network.conditions().split = 900;
    world_.network.conditions().latency_max = Duration{1500};
  }
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    NodeHabits& habits = cluster.node(i).habits;
    if (has(Trouble::lag))
      habits.replay_delay_max = dice_.between(milliseconds{10}, milliseconds{400});
    if (has(Trouble::conflicts)) habits.conflicts = dice_.between(10, 120);
  }
  next();
}

void Troubles::later(Duration min, Duration max, std::function<void()> action) {
  world_.loop.after(dice_.between(min, max), [this, action = std::move(action)] {
    if (!healed_) action();
  });
}

void Troubles::next() {
  if (kinds_.empty()) return;
  later(milliseconds{50}, milliseconds{500}, [this] {
    strike(kinds_[dice_.below(kinds_.size())]);
    next();
  });
}

SimNode* Troubles::some_standby() {
  SimCluster& cluster = world_.cluster;
  if (cluster.size() < 2) return nullptr;
  SimNode& node = cluster.node(dice_.below(cluster.size()));
  return node.is_primary() || !node.up() ? nullptr : &node;
}

void Troubles::strike(Trouble trouble) {
  SimCluster& cluster = world_.cluster;
  SimNode* standby = some_standby();
  switch (trouble) {
    case Trouble::lag:
      // A spike on top.
      if (!standby) return;
      standby->habits.replay_delay_min = standby->habits.replay_delay_max = dice_.between(milliseconds{300}, milliseconds{900});
      return later(milliseconds{50}, milliseconds{500}, [standby] {
        standby->habits.replay_delay_min = NodeHabits{}.replay_delay_min;
        standby->habits.replay_delay_max = milliseconds{50};
      });
    case Trouble::direct_writes:
      // At level table nobody is promised anything of them.
      if (world_.truth.level == config::ConsistencyLevel::table || !cluster.primary().up()) return;
      world_.loop.note("somebody writes past the pooler");
      cluster.primary().append(1U << dice_.below(6));
      if (dice_.chance(700)) later(Duration{100}, milliseconds{20}, [this] { strike(Trouble::direct_writes); });
      return;
    case Trouble::conflicts:
    case Trouble::slow_network:
    case Trouble::fault_places:
    case Trouble::late_captures:
      return;
    case Trouble::resets:
      return world_.network.reset_one(dice_.chance(300) ? Party::client : Party::node);
    case Trouble::half_open:
      return world_.network.vanish_one(dice_.chance(300) ? Party::client : Party::node,
                                       dice_.between(seconds{1}, seconds{6}));
    case Trouble::reloads:
      world_.loop.note("reload");
      if (dice_.chance(400)) world_.resize_pools(dice_.between(1, 6));
      world_.pooler->request_reload();
      world_.loop.touch();
      return;
    case Trouble::pauses:
      if (paused_) return;
      paused_ = true;
      if (dice_.chance(500)) {
        world_.loop.note("suspend");
        (void)world_.pooler->world().begin({.verb = admin::Verb::suspend, .database = "", .client_id = 0},
                                           suspender_.emplace(world_.pooler->world(), admin::Access::admin));
      } else {
        world_.loop.note("pause");
        world_.pooler->pause_all();
      }
      world_.loop.touch();
      return later(milliseconds{5}, milliseconds{300}, [this] { resume(); });
    case Trouble::stalls:
      if (!standby || standby->replay_paused()) return;
      standby->pause_replay(true);
      return later(milliseconds{50}, milliseconds{900},
                   [standby] { standby->pause_replay(false); });
    case Trouble::refused_logins:
      if (!standby) return;
      standby->habits.refuses_logins = true;
      return later(milliseconds{100}, milliseconds{800},
                   [standby] { standby->habits.refuses_logins = false; });
    case Trouble::replica_crash:
      if (!standby || moving_) return;
      standby->stop(dice_.chance(500));
      return later(milliseconds{20}, milliseconds{900}, [standby] { standby->start(); });
    case Trouble::partition: {
      SimNode& node = cluster.node(dice_.below(cluster.size()));
      world_.loop.note("cut off " + node.host());
      world_.network.cut_off(node.host(), true, dice_.between(seconds{1}, seconds{4}));
      return later(milliseconds{200}, milliseconds{1500}, [this, &node] {
        world_.loop.note("reachable again: " + node.host());
        world_.network.cut_off(node.host(), false);
      });
    }
    case Trouble::primary_restart: {
      if (moving_) return;
      moving_ = true;
      SimNode& primary = cluster.primary();
      primary.stop(dice_.chance(700));
      return later(milliseconds{5}, milliseconds{600}, [this, &primary] {
        primary.start();
        settled_at_ = world_.loop.now() + seconds{2};
        moving_ = false;
        world_.cluster.realign();
      });
    }
    case Trouble::fail_over: {
      if (moving_ || !standby || standby->stray) return;
      moving_ = true;
      SimNode& old = cluster.primary();
      cluster.primary().stop(true);
      return later(milliseconds{10}, milliseconds{500}, [this, standby, &old] {
        if (!standby->up() || standby->is_primary()) {
          old.start();
          moving_ = false;
          return;
        }
        world_.cluster.fail_over(*standby);
        // Some come back as what they were before anybody has told them otherwise.
        // Not when their successor may be out of sight: nobody could
        // know better then.
        const bool believes = dice_.chance(500) && !has(Trouble::partition);
        later(milliseconds{300}, milliseconds{1200}, [this, believes, &old] {
          if (believes) old.start();
          later(milliseconds{100}, milliseconds{800}, [this] {
            world_.cluster.realign();
            moving_ = false;
          });
        });
      });
    }
    case Trouble::stray_promotion: {
      // Beside a primary that is out of sight it would be the right one.
      if (has(Trouble::partition)) return;
      // So soon after the primary was gone it would be taken for a fail-over, and rightly.
      if (world_.loop.now() < settled_at_) return;
      if (moving_ || !standby) return;
      moving_ = true;
      standby->stray = true;
      standby->promote();
      return later(milliseconds{300}, milliseconds{1200}, [this] {
        world_.cluster.realign();
        moving_ = false;
      });
    }
  }
}

void Troubles::resume() {
  if (!paused_) return;
  paused_ = false;
  world_.loop.note("resume");
  world_.pooler->resume_all();
  world_.loop.touch();
}

void Troubles::heal() {
  if (healed_) return;
  resume();
  healed_ = true;
  world_.loop.note("quiet from now on");
  fault_places_.reset();
  SimCluster& cluster = world_.cluster;
  world_.network.conditions().reset = 0;
  world_.prober.late_captures = 0;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    SimNode& node = cluster.node(i);
    world_.network.cut_off(node.host(), false);
    node.habits = NodeHabits{};
    if (node.replay_paused()) node.pause_replay(false);
  }
  if (!cluster.primary().up()) cluster.primary().start();
  cluster.realign();
}

}  // namespace pgweir::sim
