#include "monitor/catalog_loader.h"

#include <algorithm>

#include "base/text.h"
#include "routing/catalog_queries.h"

namespace pgweir::monitor {

namespace {

/// Between two loads at least this many times as long as a load takes: DDL in a loop must not make
/// the primary read its catalog all the time.
constexpr int kRestPerLoad = 4;
constexpr Duration kRestMin = std::chrono::milliseconds{50};
/// The same for loads that a statement with an unknown name asks for: a table that does not exist
/// would ask for ever.
constexpr int kRestPerUnknownName = 20;
constexpr Duration kUnknownRestMin = std::chrono::seconds{1};
/// Of a snapshot's objects and edges, how many are looked at in one turn: a few milliseconds.
constexpr std::size_t kWorkPerTurn = 10'000;

}  // namespace

CatalogLoader::CatalogLoader(Deps deps, Login login, CatalogOptions options)
    : deps_(deps), login_(std::move(login)), options_(options) {}

void CatalogLoader::ddl_began() noexcept {
  ++ddl_running_;
  ++epoch_;
  choose_catalog();
}

void CatalogLoader::ddl_ended() noexcept {
  if (ddl_running_ > 0) --ddl_running_;
  ++epoch_;
}

void CatalogLoader::on_row(std::uint64_t question, const routing::CatalogRow& row) noexcept {
  if (!loading_ || question != question_ || !rows_read_) return;
  rows_read_ = builder_->add(row);
}

void CatalogLoader::on_answer(std::uint64_t question,
                              Result<routing::CatalogRows> answer) noexcept {
  if (!loading_ || question != question_) return;
  answer_ = answer ? rows_read_ : Status(answer.error());
}

Time CatalogLoader::due_at() const noexcept {
  if (!asked_) return not_before_;
  const Time rested =
      std::max(not_before_, last_took_at_ + std::max(kRestMin, load_time_ * kRestPerLoad));
  const bool outdated = loaded_epoch_ != epoch_ && ddl_running_ == 0;
  if (outdated || retry_ != Duration::zero()) return rested;
  const Time refresh = std::max(rested, asked_at_ + options_.refresh);
  if (!name_unknown_) return refresh;
  const Duration rest =
      std::max({kUnknownRestMin, unknown_rest_, load_time_ * kRestPerUnknownName});
  return std::min(refresh, last_took_at_ + rest);
}

Time CatalogLoader::turn(NodeId primary, const io::Address* address, Time now) noexcept {
  if (answer_ && !build(now)) return now;
  if (!primary || !address || login_.user.empty()) return kNever;
  if (primary != asked_node_) {
    // The snapshot of another primary may hold DDL that this one never saw.
    probe_ = deps_.prober.probe(*address, login_, *this);
    asked_node_ = primary;
    loading_ = false;
    answer_.reset();
    builder_.reset();
    retry_ = {};
    not_before_ = last_took_at_ = Time{};
    ++epoch_;
    choose_catalog();
  }
  if (loading_) return kNever;
  const Time due = due_at();
  if (due > now) return due;
  asked_ = loading_ = true;
  asked_at_ = now;
  asked_epoch_ = epoch_;
  asked_for_name_ = std::exchange(name_unknown_, false);
  builder_ = std::make_unique<routing::CatalogBuilder>();
  rows_read_ = {};
  probe_->ask_by_row(++question_, concat({routing::kCatalogSession, ";", routing::kCatalogQuery}),
                     now + options_.answer_timeout);
  return kNever;
}

bool CatalogLoader::build(Time now) {
  // Most of the time nothing has changed: then there is nothing to make, and the classes that were cached hold.
  if (*answer_ && view_ && builder_->digest() == digest_) {
    note_unknown_names(*view_);
    take({}, now);
    return true;
  }
  if (*answer_) {
    for (std::size_t work = 0; work < kWorkPerTurn;) {
      const std::size_t done = builder_->step();
      work += done;
      if (done != 0) continue;
      const std::shared_ptr<const routing::CatalogView> before = view_;
      digest_ = builder_->digest();
      view_ = builder_->take(++snapshots_);
      if (before) note_unknown_names(*before);
      take({}, now);
      return true;
    }
    return false;
  }
  const Status why = *answer_;
  take(why, now);
  return true;
}

/// Whether it helped to look for a name.
void CatalogLoader::note_unknown_names(const routing::CatalogView& before) {
  const bool changed =
      view_->relations() != before.relations() || view_->functions() != before.functions();
  if (changed) {
    unknown_rest_ = {};
  } else if (asked_for_name_) {
    unknown_rest_ = std::min(std::max(kUnknownRestMin, unknown_rest_ * 2), options_.refresh);
  }
}

void CatalogLoader::take(const Status& read, Time now) {
  answer_.reset();
  builder_.reset();
  loading_ = false;
  load_time_ = now - asked_at_;
  last_took_at_ = now;
  if (!read) {
    retry_ =
        retry_ == Duration::zero() ? options_.retry_min : std::min(retry_ * 2, options_.retry_max);
    not_before_ = now + retry_;
    if (!failure_logged_) {
      deps_.log.warning(concat({"the catalog of database \"", login_.dbname,
                                "\" can't be read: ", read.error().text(),
                                view_ ? "; the last snapshot is kept"
                                      : "; until it can, what it would tell counts as unknown"}));
    }
    failure_logged_ = true;
    return;
  }
  retry_ = {};
  not_before_ = now;
  failure_logged_ = false;
  loaded_epoch_ = asked_epoch_;
  deps_.log.debug(
      concat({"catalog of database \"", login_.dbname, "\": ", std::to_string(view_->relations()),
              " relations, ", std::to_string(view_->functions()), " functions, ",
              std::to_string(view_->memory_bytes() / 1024), " KiB, loaded in ",
              std::to_string(load_time_.count() / 1000), " ms"}));
  choose_catalog();
}

void CatalogLoader::choose_catalog() {
  std::shared_ptr<const sql::Catalog> chosen;
  if (certain()) {
    if (catalog_ == view_) return;
    chosen = view_;
  } else if (view_) {
    if (doubted_ == view_) return;  // In doubt already: the classes cached since then hold.
    chosen = std::make_shared<routing::DoubtfulCatalog>(view_);
  }
  if (!chosen && !catalog_) return;
  doubted_ = certain() ? nullptr : view_;
  catalog_ = std::move(chosen);
  ++generation_;
}

}  // namespace pgweir::monitor
