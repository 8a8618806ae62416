// monitor::Prober over the simulated nodes: asks them as a monitor's connection would.
#pragma once

#include "dice.h"
#include "monitor/prober.h"
#include "sim_cluster.h"

namespace pgweir::sim {

class SimProber final : public monitor::Prober {
 public:
  SimProber(SimCluster& cluster, Dice dice) noexcept : cluster_(cluster), dice_(dice) {}
  std::unique_ptr<monitor::Probe> probe(const io::Address& node, const monitor::Login& login,
                                        monitor::ProbeUser& user) override;

  /// Questions take up to this long on top; a scenario stretches it.
  Duration delay_max = Duration{1500};
  /// Of 1000 captures: the LSN is read soon and told late; a tenth of them is never answered.
  int late_captures = 0;
  /// When not empty: where the monitor's questions to that host end up (pitfall 9: one address,
  /// several instances).
  std::map<std::string, std::string> redirects;

 private:
  friend class SimProbe;
  SimCluster& cluster_;
  Dice dice_;
};

}  // namespace pgweir::sim
