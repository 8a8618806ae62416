#include "monitor/node_model.h"

#include <algorithm>

namespace pgweir::monitor {

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
  if (!same_instance) lag_.forget();
  if (!same_instance || before.configured_at != seen.configured_at) settings_.reset();
  tried_ = up_ = true;
  asked_at_ = asked;
  last_error_.clear();
  judge_doubt(before.system_id, before.started_at, asked);
  if (seen_.in_recovery) lag_.replica_at(seen_.lsn, now);
}

void NodeModel::failed(const Error& why) {
  tried_ = true;
  up_ = false;
  last_error_ = why.text();
}

void NodeModel::server_seen(std::string system_id, std::string started_at, Time now) {
  if (several_ || (system_id == seen_.system_id && started_at == seen_.started_at)) return;
  doubt_ = Doubt{std::move(system_id), std::move(started_at), now};
}

void NodeModel::judge_doubt(const std::string& previous_system, const std::string& previous_start,
                            Time asked) {
  if (!doubt_ || asked < doubt_->at) return;  // Asked before the server was seen: not fresh.
  const bool restarted_before =
      doubt_->system_id == seen_.system_id && doubt_->started_at == seen_.started_at;
  const bool restarted_after =
      doubt_->system_id == previous_system && doubt_->started_at == previous_start;
  if (!restarted_before && !restarted_after) several_ = true;
  doubt_.reset();
}

routing::NodeView NodeModel::view(Time now) {
  routing::NodeView view;
  view.id = id_;
  view.name = name_;
  view.replayed = seen_.lsn;
  view.received = seen_.received;
  view.observed_at = asked_at_;
  view.timeline = seen_.timeline;
  view.system_id = seen_.system_id;
  view.started_at = seen_.started_at;
  view.several = several_;
  view.lag_known = in_recovery() && lag_.known();
  view.lag = lag_.lag(now);
  view.lag_p50 = lag_.quantile(0.5, now);
  view.lag_p99 = lag_.quantile(0.99, now);
  view.lag_p999 = lag_.quantile(0.999, now);
  view.last_error = last_error_;
  return view;
}

}  // namespace pgweir::monitor
