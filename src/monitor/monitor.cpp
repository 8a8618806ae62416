#include "monitor/monitor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "monitor/queries.h"

namespace pgweir::monitor {

namespace {

/// A replica that is not known to have caught up is asked again sooner, so that lag samples are not
/// as coarse as the polls.
constexpr Duration kCatchUpIntervalMin = std::chrono::milliseconds{20};
/// The same while a read waits for it.
constexpr Duration kWaitedForInterval = std::chrono::microseconds{500};

std::vector<ClusterModel::Member> members_of(const std::vector<Monitor::Node>& nodes) {
  std::vector<ClusterModel::Member> members;
  for (const Monitor::Node& node : nodes) members.push_back({node.id, node.name});
  return members;
}

/// The server answered and does not let this login do what it must, as opposed to a server that
/// can't be reached.
bool refuses_login(const Error& error) noexcept {
  const std::string& state = error.sqlstate();
  return state.starts_with("28") || state == "3D000" || state == "42501";
}

}  // namespace

Monitor::Monitor(Deps deps, std::vector<Node> nodes, Login login, MonitorOptions options)
    : deps_(deps), options_(options), model_(members_of(nodes)) {
  for (Node& node : nodes) {
    Watched watched;
    watched.node = std::move(node);
    watched_.push_back(std::move(watched));
  }
  use_login(std::move(login));
  publish(Time{});
}

void Monitor::use_login(Login login) {
  login_ = std::move(login);
  for (auto& [id, question] : questions_) {
    if (question.kind == Kind::capture) failed_captures_.push_back(question);
  }
  questions_.clear();
  inbox_.clear();
  capture_probe_.reset();
  capture_node_ = {};
  refusal_logged_ = false;
  for (Watched& watched : watched_) {
    watched.probe = logged_in() ? deps_.prober.probe(watched.node.address, login_, *this) : nullptr;
    watched.polling = watched.comparing = watched.refused = false;
    watched.next_poll = watched.next_comparison = Time{};
    watched.retry = {};
    watched.suspected = false;
    watched.patience = kPatienceMin;
  }
  changed_ = true;
}

Monitor::Watched* Monitor::find(NodeId node) noexcept {
  for (Watched& watched : watched_) {
    if (watched.node.id == node) return &watched;
  }
  return nullptr;
}

const io::Address* Monitor::address(NodeId node) const noexcept {
  for (const Watched& watched : watched_) {
    if (watched.node.id == node) return &watched.node.address;
  }
  return nullptr;
}

/// Called in each turn and perhaps on and off in a row, so nothing is asked sooner than a whole
/// interval after it was asked last.
void Monitor::want_fast(bool on) noexcept {
  if (fast_ == on) return;
  fast_ = on;
  fast_since_ = kNever;
  if (!on) return;
  for (Watched& watched : watched_) {
    const bool down = watched.retry != Duration::zero();
    watched.next_poll = std::min(
        watched.next_poll, watched.asked + (down ? options_.retry_min : options_.fast_interval));
  }
}

Duration Monitor::interval(Time now) const noexcept {
  if (!fast_) return options_.poll_interval;
  const Duration waited = fast_since_ == kNever ? Duration::zero() : now - fast_since_;
  return std::min(std::max(options_.fast_interval, waited / 8), options_.poll_interval);
}

void Monitor::suspect(NodeId node) noexcept {
  Watched* watched = find(node);
  // A node that is down keeps its back-off: many failing servers must not turn it into a storm.
  if (watched && watched->retry == Duration::zero()) ask_now(*watched);
}

void Monitor::ask_now(Watched& watched) noexcept {
  watched.suspected = watched.polling;
  watched.next_poll = Time{};
}

void Monitor::server_seen(NodeId node, std::string system_id, std::string started_at, Time now) {
  if (!find(node)) return;
  model_.server_seen(node, std::move(system_id), std::move(started_at), now);
  changed_ = true;
  if (model_.node(node).doubted()) suspect(node);
}

void Monitor::capture(CaptureUser& user, std::uint64_t covers, Time now) {
  Question question{.kind = Kind::capture,
                    .asked = now,
                    .user = &user,
                    .covers = covers,
                    .identity = model_.identity()};
  const NodeId primary = model_.known_primary();
  const Watched* watched = primary ? find(primary) : nullptr;
  if (!watched || !logged_in() || model_.node(primary).in_recovery()) {
    failed_captures_.push_back(question);
    return;
  }
  if (capture_node_ != primary) {
    for (auto at = questions_.begin(); at != questions_.end();) {
      const bool of_old_primary = at->second.kind == Kind::capture;
      if (of_old_primary) failed_captures_.push_back(at->second);
      at = of_old_primary ? questions_.erase(at) : std::next(at);
    }
    capture_probe_ = deps_.prober.probe(watched->node.address, login_, *this);
    capture_node_ = primary;
  }
  question.node = static_cast<std::size_t>(watched - watched_.data());
  questions_.emplace(++last_question_, question);
  capture_probe_->ask(last_question_, kCaptureQuery, now + options_.answer_timeout);
}

void Monitor::forget(const CaptureUser& user) noexcept {
  std::erase_if(questions_, [&user](const auto& entry) { return entry.second.user == &user; });
  std::erase_if(failed_captures_,
                [&user](const Question& question) { return question.user == &user; });
}

void Monitor::on_answer(std::uint64_t question, Result<Rows> answer) noexcept {
  inbox_.push_back({question, std::move(answer)});
}

Time Monitor::turn(Time now) noexcept {
  std::vector<Answer> arrived = std::move(inbox_);
  inbox_.clear();
  for (Answer& answer : arrived) {
    const auto found = questions_.find(answer.question);
    if (found == questions_.end()) continue;  // Its asker has gone.
    const Question question = found->second;
    questions_.erase(found);
    take(question, std::move(answer.rows), now);
  }
  if (changed_) publish(now);
  deliver_failed_captures();

  Time next = kNever;
  if (!logged_in()) return next;
  if (fast_ && fast_since_ == kNever) fast_since_ = now;
  for (Watched& watched : watched_) {
    if (watched.polling) {
      const bool too_old =
          model_.must_ask(watched.node.id) && watched.asked < model_.restart_seen();
      if (!watched.suspected && !too_old) continue;
      if (now - watched.asked < watched.patience) {
        next = std::min(next, watched.asked + watched.patience);
        continue;
      }
      drop_questions(watched);
    }
    const Time due = due_at(watched, now);
    if (due > now) {
      next = std::min(next, due);
      continue;
    }
    watched.polling = true;
    watched.asked = now;
    ask(watched, Kind::poll, kPollQuery, now);
  }
  return next;
}

void Monitor::ask(Watched& watched, Kind kind, std::string_view sql, Time now) {
  Question question{
      .kind = kind, .node = static_cast<std::size_t>(&watched - watched_.data()), .asked = now};
  questions_.emplace(++last_question_, question);
  watched.probe->ask(last_question_, sql, now + options_.answer_timeout);
}

/// On a new connection the next one is not behind what hangs.
void Monitor::drop_questions(Watched& watched) {
  const auto index = static_cast<std::size_t>(&watched - watched_.data());
  std::erase_if(questions_, [index](const auto& entry) {
    return entry.second.node == index && entry.second.kind != Kind::capture;
  });
  watched.probe = deps_.prober.probe(watched.node.address, login_, *this);
  if (std::exchange(watched.comparing, false)) watched.next_comparison = Time{};
  watched.polling = watched.suspected = false;
  watched.patience *= 4;
  watched.next_poll = Time{};
}

void Monitor::take(Question question, Result<Rows> rows, Time now) {
  switch (question.kind) {
    case Kind::poll:
      return take_poll(question, std::move(rows), now);
    case Kind::settings:
      return take_settings(question, std::move(rows), now);
    case Kind::capture:
      return take_capture(question, std::move(rows), now);
  }
}

void Monitor::take_poll(const Question& question, Result<Rows> rows, Time now) {
  Watched& watched = watched_[question.node];
  watched.polling = false;
  watched.patience = kPatienceMin;
  const bool suspected = std::exchange(watched.suspected, false);
  changed_ = true;
  if (!rows) return node_failed(watched, rows.error(), question.asked, now);
  Result<Observation> seen = read_observation(*rows);
  if (!seen) return node_failed(watched, seen.error(), question.asked, now);

  const bool was_down = watched.retry != Duration::zero();
  watched.retry = {};
  watched.refused = false;
  const bool any_refused =
      std::any_of(watched_.begin(), watched_.end(), [](const Watched& one) { return one.refused; });
  if (!any_refused) refusal_logged_ = false;
  if (was_down) deps_.log.log(concat({"node ", watched.node.name, " answers again"}));
  model_.observed(watched.node.id, *seen, question.asked, now);
  watched.next_poll = question.asked + interval(now);

  NodeModel& node = model_.node(watched.node.id);
  if (node.doubted() || suspected) watched.next_poll = now;
  // Is the primary still there? Else this one is no mistake but its successor.
  if (model_.claim_unchecked()) ask_now(*find(model_.known_primary()));
  const bool compare = !node.settings() || watched.next_comparison <= now;
  if (compare && !watched.comparing) {
    watched.comparing = true;
    watched.next_comparison = now + options_.settings_interval;
    ask(watched, Kind::settings, kSettingsQuery, now);
  }
}

Time Monitor::due_at(const Watched& watched, Time now) {
  if (model_.must_ask(watched.node.id) && watched.asked < model_.restart_seen()) return now;
  const NodeModel& node = model_.node(watched.node.id);
  if (!node.in_recovery() || node.behind_since() == kNever) return watched.next_poll;
  const Duration behind = now - node.behind_since();
  const Duration shortest = replay_wanted_ ? kWaitedForInterval : kCatchUpIntervalMin;
  return std::min(watched.next_poll, watched.asked + std::max(shortest, behind / 4));
}

void Monitor::node_failed(Watched& watched, const Error& why, Time asked, Time now) {
  const bool was_refused = std::exchange(watched.refused, refuses_login(why));
  log_failure(watched, why, was_refused);
  watched.retry = watched.retry == Duration::zero()
                      ? options_.retry_min
                      : std::min(watched.retry * 2, options_.retry_max);
  watched.next_poll = now + (fast_ ? options_.retry_min : watched.retry);
  model_.failed(watched.node.id, why, asked, now);
}

void Monitor::log_failure(const Watched& watched, const Error& why, bool was_refused) {
  if (watched.refused) {
    // One line for all nodes: they usually refuse for the same reason, and again at every try.
    if (!std::exchange(refusal_logged_, true)) {
      deps_.log.warning(concat({"the monitor can't log in to node ", watched.node.name, " as \"",
                                login_.user, "\": ", why.text(),
                                "; monitor_user and monitor_password say who logs in; a node that it can't ask serves no reads, and all of its "
                                "cluster's go to the primary while it "
                                "can't ask that"}));
    }
    return;
  }
  const bool already_down = watched.retry != Duration::zero() && !was_refused;
  if (!already_down)
    deps_.log.warning(concat({"node ", watched.node.name, " does not answer: ", why.text()}));
}

void Monitor::take_settings(const Question& question, Result<Rows> rows, Time now) {
  Watched& watched = watched_[question.node];
  watched.comparing = false;
  changed_ = true;
  Result<NodeSettings> settings = rows ? read_settings(*rows) : Result<NodeSettings>(rows.error());
  if (!settings) {
    watched.next_comparison = now;  // With the next poll.
    // Only the first of a row is worth a line: it is tried again with every poll.
    if (!std::exchange(watched.comparison_failed, true)) {
      deps_.log.warning(
          concat({"node ", watched.node.name,
                  " is not used until its settings can be compared with the primary's: ",
                  settings.error().text()}));
    }
    return;
  }
  watched.comparison_failed = false;
  // A poll in between may have shown a restart: then these are of the instance that was.
  model_.compared(watched.node.id, std::move(*settings), now);
}

void Monitor::take_capture(const Question& question, Result<Rows> rows, Time now) {
  const std::uint64_t identity_now = model_.identity();
  std::optional<tokens::Lsn> lsn;
  if (rows) {
    const Result<CaptureAnswer> answer = read_capture(*rows, model_.geometry());
    const bool same_instance =
        answer && !answer->in_recovery && answer->started_at == model_.primary_started_at();
    if (same_instance && question.identity == identity_now) lsn = answer->lsn;
  }
  if (lsn) {
    // Replicas that are not there yet are asked soon, so that what was written can be read from
    // them again.
    model_.captured(*lsn, question.asked, now);
  } else {
    suspect(watched_[question.node].node.id);
  }
  question.user->on_captured(question.covers, lsn);
}

void Monitor::deliver_failed_captures() {
  const std::vector<Question> failed = std::move(failed_captures_);
  failed_captures_.clear();
  for (const Question& question : failed) question.user->on_captured(question.covers, std::nullopt);
}

void Monitor::publish(Time now) {
  changed_ = false;
  for (const ClusterModel::Notice& notice : model_.take_notices())
    deps_.log.write(notice.level, notice.text);
  auto view = std::make_shared<routing::ClusterView>(model_.view(now));
  view->version = ++version_;
  if (!logged_in() && !watched_.empty()) view->primary = watched_.front().node.id;
  view_ = std::move(view);
}

}  // namespace pgweir::monitor
