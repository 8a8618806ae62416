// libpq_prober: monitor's questions to nodes, asked through libpq without blocking the loop.
#pragma once

#include "monitor/prober.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace pgweir::net {

class LibpqProber final : public monitor::Prober {
 public:
  LibpqProber(Loop& loop, Resolver& resolver) : loop_(loop), resolver_(resolver) {}

  std::unique_ptr<monitor::Probe> probe(const io::Address& node, const monitor::Login& login,
                                        monitor::ProbeUser& user) override;

 private:
  Loop& loop_;
  Resolver& resolver_;
};

}  // namespace pgweir::net
