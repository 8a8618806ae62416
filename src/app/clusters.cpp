#include "app/clusters.h"

#include <algorithm>

#include "app/entries.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

constexpr std::size_t kTrackedTablesMax = 10'000;

bool same(const monitor::Login& a, const monitor::Login& b) noexcept {
  const bool same_tls = a.tls == b.tls || (a.tls && b.tls && *a.tls == *b.tls);
  return a.user == b.user && a.password == b.password && a.dbname == b.dbname && a.cleartext == b.cleartext && same_tls;
}

}  // namespace

Cluster::Cluster(const Parts& parts, const ClusterUser& user, const config::Settings& settings)
    : parts_(parts), user_(user) {
  configure(settings);
}

Cluster::~Cluster() {
  if (monitor_) monitor_->forget(*this);
}

void Cluster::configure(const config::Settings& settings) {
  catalog_refresh_ = settings.catalog_refresh;
  if (settings.monitor_interval > Duration{}) options_.poll_interval = settings.monitor_interval;
  look_for_login_ = true;
}

bool Cluster::same_nodes(const std::vector<Node*>& nodes, std::size_t primaries) const noexcept {
  return primaries == primaries_ &&
         std::equal(nodes.begin(), nodes.end(), node_ids_.begin(), node_ids_.end(),
                    [](const Node* node, NodeId id) { return node->id == id; });
}

void Cluster::use_nodes(const std::vector<Node*>& nodes, std::size_t primaries) {
  if (monitor_) monitor_->forget(*this);
  pacer_.failed(parts_.clock.now());
  node_ids_.clear();
  primaries_ = primaries;
  std::vector<monitor::Monitor::Node> watched;
  for (const Node* node : nodes) {
    node_ids_.push_back(node->id);
    watched.push_back({node->id, user_.address_of(node->hosts.front()), node->name});
  }
  monitor_ = std::make_unique<monitor::Monitor>(monitor::Monitor::Deps{parts_.prober, parts_.log},
                                                std::move(watched),
                                                login_.value_or(monitor::Login{}), options_);
  identity_base_ = identity_;
  waited_for_ = false;  // Told to the new one in the next turn.
  take_view();
}

void Cluster::take_over_marks(Cluster& before) {
  // Tickets are numbers of the log that gave them; this one's must not be below what those sessions
  // hold.
  while (log_.last_ticket() < before.log_.last_ticket()) (void)log_.mark();
  (void)log_.mark();
}

void Cluster::watch(DatabaseEntry& database) {
  if (std::find(databases_.begin(), databases_.end(), &database) != databases_.end()) return;
  databases_.push_back(&database);
  watched_[&database];
  look_for_login_ = true;
}

void Cluster::forget(DatabaseEntry& database) noexcept {
  std::erase(databases_, &database);
  watched_.erase(&database);
}

// --- the turn
// ----------------------------------------------------------------------------------------------------------

void Cluster::turn(Time now) {
  now_ = now;
  if (look_for_login_) find_logins();
  next_ = monitor_->turn(now);
  if (monitor_->view() != seen_) take_view();
  next_ = std::min(next_, load_catalogs(now));
}

void Cluster::find_logins() {
  look_for_login_ = false;
  bool found_one = false;
  for (DatabaseEntry* database : databases_) {
    std::optional<monitor::Login> login = user_.monitor_login(*this, *database);
    if (!login) continue;
    if (!found_one && (!login_ || !same(*login_, *login))) {
      login_ = login;
      monitor_->use_login(*login);
    }
    found_one = true;
    Watched& watched = watched_[database];
    if (watched.loader && same(watched.login, *login)) continue;
    watched.login = *login;
    watched.loader = std::make_unique<monitor::CatalogLoader>(
        monitor::CatalogLoader::Deps{parts_.prober, parts_.log}, *login,
        monitor::CatalogOptions{.refresh = catalog_refresh_});
    // The new loader knows nothing of what is under way.
    watched.generation = 0;
    database->ddl_told = watched.ddl_done = database->marks->ddl_done;
  }
}

/// A changed identity of the primary takes the log's LSNs back before anybody sees the view.
void Cluster::take_view() {
  before_ = view_;
  seen_ = monitor_->view();
  view_ = seen_;
  if (identity_base_ > 0 && seen_->identity > 0) {
    auto shifted = std::make_shared<routing::ClusterView>(*seen_);
    shifted->identity += identity_base_;
    view_ = std::move(shifted);
  }
  if (view_->identity != 0 && view_->identity != identity_) {
    if (identity_ != 0) log_.clamp(view_->identity_lsn);
    identity_ = view_->identity;
  }
  if (view_->primary && view_->primary != last_primary_) {
    succeeded_ = std::exchange(last_primary_, view_->primary);
  }
  changed_ = true;
  ++progress_;
  say_primary();
}

/// One line when writes begin to wait because every node that answers is a standby.
void Cluster::say_primary() {
  const auto& nodes = view_->nodes;
  const bool known = std::none_of(nodes.begin(), nodes.end(), [](const routing::NodeView& node) {
    return node.role == routing::Role::unknown;
  });
  const bool some_up = std::any_of(nodes.begin(), nodes.end(), [](const routing::NodeView& node) {
    return node.role == routing::Role::replica;
  });
  const bool missing = known && some_up && !view_->primary;
  if (missing == primary_missing_) return;
  primary_missing_ = missing;
  std::string names;
  for (const DatabaseEntry* database : databases_) names += concat({names.empty() ? "" : ", ", database->name});
  if (missing) {
    parts_.log.warning(concat({"no node of database ", names, " is a primary: writes wait for one"}));
  } else if (view_->primary) {
    parts_.log.log(concat({"database ", names, " has a primary again: ", view_->find(view_->primary)->name}));
  }
}

Time Cluster::load_catalogs(Time now) {
  Time next = kNever;
  const NodeId primary = view_->primary;
  const io::Address* address = primary ? monitor_->address(primary) : nullptr;
  for (DatabaseEntry* database : databases_) {
    Watched& watched = watched_.find(database)->second;
    if (!watched.loader) continue;
    tell_ddl(*database, watched);
    if (std::exchange(database->name_unknown, false)) watched.loader->name_unknown();
    next = std::min(next, watched.loader->turn(primary, address, now));
    if (watched.loader->generation() == watched.generation) continue;
    watched.generation = watched.loader->generation();
    database->use_catalog(watched.loader->catalog());
    database->catalog_stale = !watched.loader->certain();
    database->snapshot = watched.loader->view();
    database->resolve_table_rules();
    for (const auto& pool : database->pools) pool->apply_snapshot();
  }
  return next;
}

/// What sessions, of this line or another one, have dispatched since, and what of it has ended: no snapshot that was begun before that
/// counts as certain.
void Cluster::tell_ddl(DatabaseEntry& database, Watched& watched) noexcept {
  const session::DatabaseMarks& marks = *database.marks;
  for (; database.ddl_told < marks.ddl_begun; ++database.ddl_told) {
    watched.loader->ddl_began();
    database.catalog_stale = true;
  }
  for (; watched.ddl_done < marks.ddl_done; ++watched.ddl_done) watched.loader->ddl_ended();
}

/// A capture has to cover first what was written before anybody noted it.
std::shared_ptr<session::DatabaseMarks> Cluster::marks_of(const std::string& dbname) {
  std::weak_ptr<session::DatabaseMarks>& known = marks_[dbname];
  std::shared_ptr<session::DatabaseMarks> marks = known.lock();
  if (marks) {
    // The line that joins has a past of its own.
    marks->writes.mark({}, true, log_.mark(), parts_.clock.now());
    return marks;
  }
  const tokens::Ticket floor = log_.last_ticket() == tokens::kFloorTicket ? tokens::kFloorTicket : log_.mark();
  marks = std::make_shared<session::DatabaseMarks>();
  marks->writes = tokens::TableWrites(kTrackedTablesMax, floor);
  marks->writes.begin(parts_.clock.now());
  marks->keys.begin(parts_.clock.now(), floor);
  known = marks;
  return marks;
}

/// There is none, or it is down, and clients wait.
bool Cluster::primary_missed() const noexcept {
  const routing::NodeView* primary = view_->find(view_->primary);
  if (primary && primary->role != routing::Role::down) return false;
  return std::any_of(databases_.begin(), databases_.end(), [](const DatabaseEntry* database) {
    return std::any_of(database->pools.begin(), database->pools.end(), [](const auto& pool) {
      return pool->seats.waiting() > 0 || !pool->welcoming.empty();
    });
  });
}

Time Cluster::capture_if_due(Time now) {
  const bool missed = primary_missed();
  if (std::exchange(waited_for_, missed) != missed) {
    monitor_->want_fast(missed);
    if (missed) next_ = now;
  }
  if (monitor_->want_replay(std::exchange(wants_replay_, false))) next_ = now;
  if (!view_->primary) return next_;
  const Time due = pacer_.next(now, log_.pending());
  if (due > now) return std::min(next_, due);
  pacer_.started(now);
  monitor_->capture(*this, log_.begin_capture(), now);
  return next_;
}

void Cluster::on_captured(std::uint64_t covers, std::optional<tokens::Lsn> lsn) noexcept {
  if (!lsn) return pacer_.failed(now_);
  pacer_.answered(now_);
  // The monitor has seen another primary in the meantime: its view comes first, and the capture is
  // asked for again.
  if (monitor_->view()->identity + identity_base_ != identity_) return;
  log_.captured(covers, *lsn);
  ++progress_;
}

// --- what others tell and ask
// ------------------------------------------------------------------------------------------

void Cluster::identified(NodeId node, std::string_view system_id, std::string_view started_at) {
  monitor_->server_seen(node, std::string(system_id), std::string(started_at), parts_.clock.now());
}

bool Cluster::came_back(NodeId node) const noexcept {
  const routing::NodeView* was = before_ ? before_->find(node) : nullptr;
  const routing::NodeView* is = view_->find(node);
  return was && is && was->role == routing::Role::down && is->role != routing::Role::down;
}

bool Cluster::all_down() const noexcept {
  return std::all_of(view_->nodes.begin(), view_->nodes.end(), [](const routing::NodeView& node) {
    return node.role == routing::Role::down;
  });
}

std::string Cluster::trouble() const {
  for (const routing::NodeView& node : view_->nodes) {
    if (!node.last_error.empty()) return node.last_error;
  }
  return "no node answers";
}

}  // namespace pgweir::app
