// What a node answered to the monitor's questions, as values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "monitor/prober.h"
#include "routing/cluster_view.h"

namespace pgweir::monitor {

/// The answer to kPollQuery.
struct Observation {
  bool in_recovery = false;
  tokens::Lsn lsn;  ///< A standby's replay LSN; a primary's insert LSN, by the page-boundary rule.
  tokens::Lsn received;
  std::string system_id;
  std::uint32_t timeline = 0;
  bool timeline_certain = false;  ///< False: from the control file, which may be behind.
  std::string started_at;
  tokens::WalGeometry geometry;
  std::string configured_at;  ///< When its configuration was loaded last.
};

/// The answer to kCaptureQuery.
struct CaptureAnswer {
  bool in_recovery = false;
  tokens::Lsn lsn;
  std::string started_at;
};

/// Sorted by name.
using NodeSettings = std::vector<std::pair<std::string, std::string>>;

Result<Observation> read_observation(const Rows& rows);
Result<CaptureAnswer> read_capture(const Rows& rows, tokens::WalGeometry geometry);
Result<NodeSettings> read_settings(const Rows& rows);

/// The first difference in words ("TimeZone is "UTC", on the primary "Europe/Berlin""); empty when
/// they are alike.
std::string difference(const NodeSettings& replica, const NodeSettings& primary);

}  // namespace pgweir::monitor
