// What goes wrong during a run: drawn kinds of trouble, at drawn moments, until heal().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "admin/console.h"
#include "sim_world.h"

namespace pgweir::sim {

enum class Trouble : std::uint8_t {
  resets,     ///< links break after a random number of bytes
  lag,        ///< replicas replay up to some 100 ms late
  stalls,     ///< replay stands still for a while
  conflicts,  ///< recovery cancels reads
  replica_crash,
  primary_restart,  ///< with asynchronous commit its LSN falls back
  fail_over,        ///< the old primary comes back later, still believing in itself
  stray_promotion,  ///< a replica is promoted by mistake
  partition,        ///< a node can't be reached, and nobody is told
  half_open,        ///< single links go dead
  refused_logins,   ///< a replica that does not know the role
  reloads,          ///< with another size of the pools now and then
  pauses,           ///< PAUSE or SUSPEND, and RESUME a little later
  slow_network,     ///< small windows, small spans
  fault_places,     ///< the FAULT places of our own code
  late_captures,    ///< the primary's answer to a capture comes late, or never
  direct_writes,    ///< somebody writes past the pooler
};
inline constexpr int kTroubles = 17;
std::string_view to_string(Trouble trouble) noexcept;

class Troubles {
 public:
  Troubles(SimWorld& world, Dice dice, std::vector<Trouble> kinds);

  void start();
  /// Everything works again from now on.
  void heal();
  bool has(Trouble trouble) const noexcept;
  bool any() const noexcept { return !kinds_.empty(); }
  std::string describe() const;

 private:
  void next();
  void strike(Trouble trouble);
  void resume();
  void later(Duration min, Duration max, std::function<void()> action);
  SimNode* some_standby();

  SimWorld& world_;
  Dice dice_;
  std::vector<Trouble> kinds_;
  std::optional<FaultPlaces> fault_places_;
  bool healed_ = false;
  bool paused_ = false;
  std::optional<admin::ConsoleSession> suspender_;  ///< who gave the last SUSPEND
  Time settled_at_{};    ///< The primary has been back for long enough to be known again.
  bool moving_ = false;  ///< One change of the primary at a time.
};

}  // namespace pgweir::sim
