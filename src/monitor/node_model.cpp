#include "monitor/node_model.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace pgweir::monitor {

namespace {

/// How long a login may take from the server's answer to kIdentityQuery until it is told here.
constexpr Duration kToldLateMax = std::chrono::seconds{30};

/// The two times of kIdentityQuery; (0, 0) when it is not such a text.
std::pair<double, double> start_of(std::string_view started_at) noexcept {
  std::pair<double, double> start;
  const char* end = started_at.data() + started_at.size();
  const auto [slash, error] = std::from_chars(started_at.data(), end, start.first);
  if (error == std::errc{} && slash != end) std::from_chars(slash + 1, end, start.second);
  return start;
}

}  // namespace

void NodeModel::observed(const Observation& seen, Time asked, Time now) {
  const Observation before = std::move(seen_);
  const bool same_instance =
      before.system_id == seen.system_id && before.started_at == seen.started_at;
  seen_ = seen;
  if (same_instance && before.in_recovery && seen.in_recovery) {
    seen_.lsn = std::max(before.lsn, seen.lsn);
    seen_.received = std::max(before.received, seen.received);
    // What the control file says may fall back behind what the WAL receiver said while it ran.
    seen_.timeline = std::max(before.timeline, seen.timeline);
    seen_.timeline_certain = before.timeline_certain || seen.timeline_certain;
  }
  // One that had nothing to replay did not stand still.
  if (!same_instance || before.lsn < seen_.lsn || !before.in_recovery || before.lsn >= before.received || seen_.lsn >= seen_.received)
    advanced_at_ = now;
  streams_ = seen.timeline_certain && seen.timeline == seen_.timeline;
  if (!same_instance) {
    lag_.forget();
    rate_.forget();
  }
  if (!same_instance || before.configured_at != seen.configured_at) settings_.reset();
  if (!same_instance && !before.system_id.empty()) {
    const bool restarted = before.system_id == seen.system_id &&
                           start_of(before.started_at) < start_of(seen.started_at);
    // Nobody starts before he ended: the polls reach several instances.
    if (!restarted) may_heal_ = false;
    restarted_at_ = now;
    matches_ = 0;
  }
  tried_ = up_ = true;
  asked_at_ = tried_at_ = asked;
  last_error_.clear();
  judge_doubt(before.system_id, before.started_at, asked);
  if (seen_.in_recovery) {
    lag_.replica_at(seen_.lsn, now);
    rate_.observed(seen_.lsn, seen_.received, asked);
  }
}

void NodeModel::failed(const Error& why, Time asked) {
  tried_at_ = asked;
  tried_ = true;
  up_ = false;
  last_error_ = why.text();
}

void NodeModel::server_seen(std::string system_id, std::string started_at, Time now) {
  if (several_) return server_seen_of_several(system_id, started_at, now);
  if (system_id == seen_.system_id && started_at == seen_.started_at) return;
  doubt_ = Doubt{std::move(system_id), std::move(started_at), now};
}

void NodeModel::judge_doubt(const std::string& previous_system, const std::string& previous_start,
                            Time asked) {
  if (!doubt_ || asked < doubt_->at) return;  // Asked before the server was seen: not fresh.
  const bool restarted_before =
      doubt_->system_id == seen_.system_id && doubt_->started_at == seen_.started_at;
  const bool restarted_after =
      doubt_->system_id == previous_system && doubt_->started_at == previous_start;
  if (!restarted_before && !restarted_after) {
    several_ = true;
    matches_ = 0;
    mismatch_at_ = doubt_->at;
    if (!may_be_former(doubt_->system_id, doubt_->started_at, doubt_->at)) may_heal_ = false;
  }
  doubt_.reset();
}

/// Whether a server of this identity, told at `at`, may be of an instance that ended before the
/// polled one began.
bool NodeModel::may_be_former(const std::string& system_id, const std::string& started_at,
                              Time at) const {
  return restarted_at_ != Time{} && at <= restarted_at_ + kToldLateMax &&
         system_id == seen_.system_id && start_of(started_at) < start_of(seen_.started_at);
}

void NodeModel::server_seen_of_several(const std::string& system_id, const std::string& started_at,
                                       Time now) {
  if (system_id != seen_.system_id || started_at != seen_.started_at) {
    matches_ = 0;
    mismatch_at_ = now;
    if (!may_be_former(system_id, started_at, now)) may_heal_ = false;
    return;
  }
  ++matches_;
  if (!may_heal_ || matches_ < kMatchesToHeal || now - mismatch_at_ < kQuietToHeal) return;
  several_ = false;
  // Once is enough: should it look like several again, it is.
  may_heal_ = false;
}

routing::NodeView NodeModel::view(Time now) {
  routing::NodeView view;
  view.id = id_;
  view.name = name_;
  view.replayed = seen_.lsn;
  view.received = seen_.received;
  view.advanced_at = advanced_at_;
  view.observed_at = asked_at_;
  view.timeline = seen_.timeline;
  view.system_id = seen_.system_id;
  view.started_at = seen_.started_at;
  view.instance = routing::instance_of(seen_.started_at);
  view.several = several_;
  view.replay_bytes_per_s = rate_.bytes_per_s();
  view.lag_known = in_recovery() && lag_.known();
  view.lag = lag_.lag(now);
  view.lag_p50 = lag_.quantile(0.5, now);
  view.lag_p99 = lag_.quantile(0.99, now);
  view.lag_p999 = lag_.quantile(0.999, now);
  view.last_error = last_error_;
  return view;
}

int NodeModel::server_version() const noexcept {
  if (!settings_) return 0;
  for (const auto& [name, value] : *settings_) {
    int major = 0;
    if (name == "server_version" && std::from_chars(value.data(), value.data() + value.size(), major).ec == std::errc()) return major;
  }
  return 0;
}

}  // namespace pgweir::monitor
