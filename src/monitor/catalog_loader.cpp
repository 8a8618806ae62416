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

void CatalogLoader::on_answer(std::uint64_t question,
                              Result<routing::CatalogRows> answer) noexcept {
  if (loading_ && question == question_) answer_.emplace(std::move(answer));
}

Time CatalogLoader::due_at() const noexcept {
  if (!asked_) return not_before_;
  const Time rested =
      std::max(not_before_, last_took_at_ + std::max(kRestMin, load_time_ * kRestPerLoad));
  const bool outdated = loaded_epoch_ != epoch_ && ddl_running_ == 0;
  if (outdated || retry_ != Duration::zero()) return rested;
  return std::max(rested, asked_at_ + options_.refresh);
}

Time CatalogLoader::turn(NodeId primary, const io::Address* address, Time now) noexcept {
  if (answer_) {
    Result<routing::CatalogRows> rows = std::move(*answer_);
    answer_.reset();
    take(std::move(rows), now);
  }
  if (!primary || !address || login_.user.empty()) return kNever;
  if (primary != asked_node_) {
    // The snapshot of another primary may hold DDL that this one never saw.
    probe_ = deps_.prober.probe(*address, login_, *this);
    asked_node_ = primary;
    loading_ = false;
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
  probe_->ask(++question_, concat({routing::kCatalogSession, ";", routing::kCatalogQuery}),
              now + options_.answer_timeout);
  return kNever;
}

Status CatalogLoader::load(Result<routing::CatalogRows>& rows) {
  if (!rows) return rows.error();
  Result<std::shared_ptr<const routing::CatalogView>> built =
      routing::build_catalog(*rows, snapshots_ + 1);
  if (!built) return built.error();
  ++snapshots_;
  view_ = std::move(*built);
  return {};
}

void CatalogLoader::take(Result<routing::CatalogRows> rows, Time now) {
  loading_ = false;
  load_time_ = now - asked_at_;
  last_took_at_ = now;
  if (const Status loaded = load(rows); !loaded) {
    retry_ =
        retry_ == Duration::zero() ? options_.retry_min : std::min(retry_ * 2, options_.retry_max);
    not_before_ = now + retry_;
    if (!failure_logged_) {
      deps_.log.warning(concat({"the catalog of database \"", login_.dbname,
                                "\" can't be read: ", loaded.error().text(),
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
              " relations, ", std::to_string(view_->functions()), " functions"}));
  choose_catalog();
}

void CatalogLoader::choose_catalog() {
  std::shared_ptr<const sql::Catalog> chosen;
  if (certain()) {
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
