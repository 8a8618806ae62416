// A cluster as the Pooler uses it: the nodes that one or more databases share, the monitor that
// watches them, the log of what was written there with its group captures, and a catalog for each
// database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/pooler.h"
#include "base/ids.h"
#include "config/settings.h"
#include "monitor/catalog_loader.h"
#include "monitor/monitor.h"
#include "routing/cluster_view.h"
#include "session/hub.h"
#include "tokens/capture_pacer.h"
#include "tokens/commit_log.h"

namespace pgweir::app {

struct DatabaseEntry;
struct Node;
class Cluster;

class ClusterUser {
 public:
  /// As whom the nodes are asked on behalf of `database`; nullopt while nobody is known.
  virtual std::optional<monitor::Login> monitor_login(const Cluster& cluster,
                                                      const DatabaseEntry& database) const = 0;
  virtual io::Address address_of(const config::HostPort& host) const = 0;

 protected:
  ~ClusterUser() = default;
};

class Cluster final : private monitor::CaptureUser {
 public:
  Cluster(const Parts& parts, const ClusterUser& user, const config::Settings& settings);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// The first `primaries` of them stand in host=: the first assumption about who is primary.
  void use_nodes(const std::vector<Node*>& nodes, std::size_t primaries);
  bool same_nodes(const std::vector<Node*>& nodes, std::size_t primaries) const noexcept;
  void configure(const config::Settings& settings);
  /// Sessions of `before` use this cluster from now on: their tickets stay meaningful, and concern
  /// everything.
  void take_over_marks(Cluster& before);

  void watch(DatabaseEntry& database);
  void forget(DatabaseEntry& database) noexcept;
  const std::vector<DatabaseEntry*>& databases() const noexcept { return databases_; }

  /// Lets the monitor and the catalog loaders take in answers and ask what is due. Cheap when there
  /// is nothing.
  void turn(Time now);
  /// Whether view() is another one than when this was asked last.
  bool take_change() noexcept { return std::exchange(changed_, false); }
  /// At the end of a turn: has nodes asked more often while clients wait for a primary that is
  /// missing, sends a group capture when it is time; answers when turn() wants to be called next.
  Time capture_if_due(Time now);

  /// Null until nodes are given.
  const routing::ClusterSnapshot& view() const noexcept { return view_; }
  tokens::CaptureLog& log() noexcept { return log_; }
  void want_capture() noexcept { pacer_.want_now(); }
  /// Somebody waits for a replica to get further. To be said in every turn while it is so.
  void want_replay() noexcept { wants_replay_ = true; }
  /// Grows with whatever may let a read go on: a new view, a capture's answer.
  std::uint64_t progress() const noexcept { return progress_; }

  /// A client has logged in, so perhaps its credentials let the monitor in.
  void login_may_work() noexcept { look_for_login_ = true; }
  /// What is known of the writes to `dbname`, shared by all lines that lead there.
  std::shared_ptr<session::DatabaseMarks> marks_of(const std::string& dbname);
  void identified(NodeId node, std::string_view system_id, std::string_view started_at);
  void connect_failed(NodeId node) noexcept { monitor_->suspect(node); }
  /// The node was down in the view before this one.
  bool came_back(NodeId node) const noexcept;
  /// The primary that another one has taken the place of since the last call; nobody when none has.
  NodeId take_succeeded() noexcept { return std::exchange(succeeded_, NodeId{}); }
  bool all_down() const noexcept;
  /// What the first node that does not answer said.
  std::string trouble() const;

 private:
  struct Watched {
    monitor::Login login;
    std::unique_ptr<monitor::CatalogLoader> loader;
    std::uint64_t generation = 0;
    std::uint64_t ddl_done = 0;  ///< of marks->ddl_done, told to the loader
  };

  void on_captured(std::uint64_t covers, std::optional<tokens::Lsn> lsn) noexcept override;
  void find_logins();
  void tell_ddl(DatabaseEntry& database, Watched& watched) noexcept;
  Time load_catalogs(Time now);
  bool primary_missed() const noexcept;
  void take_view();
  void say_primary();

  Parts parts_;
  const ClusterUser& user_;
  Duration catalog_refresh_{};
  monitor::MonitorOptions options_;
  std::vector<NodeId> node_ids_;
  std::size_t primaries_ = 0;
  std::unique_ptr<monitor::Monitor> monitor_;
  std::optional<monitor::Login> login_;
  bool look_for_login_ = true;

  routing::ClusterSnapshot seen_;  ///< as the monitor made it
  routing::ClusterSnapshot view_;
  routing::ClusterSnapshot before_;
  bool changed_ = false;
  bool primary_missing_ = false;
  NodeId last_primary_;
  NodeId succeeded_;
  bool waited_for_ = false;
  bool wants_replay_ = false;
  std::uint64_t progress_ = 1;
  /// Another set of nodes has another monitor, which counts identities from the start: they are
  /// shifted past the old ones.
  std::uint64_t identity_base_ = 0;
  std::uint64_t identity_ = 0;

  tokens::CaptureLog log_;
  std::map<std::string, std::weak_ptr<session::DatabaseMarks>> marks_;
  tokens::CapturePacer pacer_;
  Time now_{};
  Time next_ = kNever;
  std::vector<DatabaseEntry*> databases_;
  std::map<const DatabaseEntry*, Watched>
      watched_;  ///< looked up only when a catalog or DDL is at hand, and walked by databases_
};

}  // namespace pgweir::app
