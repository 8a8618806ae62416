// CatalogLoader: keeps one database's catalog as classification needs it, read from the primary on
// a connection of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "base/log.h"
#include "monitor/prober.h"
#include "routing/catalog_builder.h"
#include "routing/catalog_view.h"

namespace pgweir::monitor {

struct CatalogOptions {
  Duration refresh = std::chrono::seconds{60};
  Duration answer_timeout = std::chrono::seconds{60};
  Duration retry_min = std::chrono::milliseconds{200};
  Duration retry_max = std::chrono::seconds{30};
};

class CatalogLoader final : private ProbeUser {
 public:
  struct Deps {
    Prober& prober;
    Log& log;
  };

  /// `login.dbname` is the database whose catalog it is.
  CatalogLoader(Deps deps, Login login, CatalogOptions options = {});

  /// Takes in what was answered, asks what is due. `primary` is where to ask (null: nobody is
  /// known). Returns when it wants to be called next.
  Time turn(NodeId primary, const io::Address* address, Time now) noexcept;

  /// DDL is being sent to a server, and has ended (with its transaction, or its connection).
  /// Between the first and a snapshot begun after the second, nothing is certain.
  void ddl_began() noexcept;
  void ddl_ended() noexcept;
  /// DDL that began and ended at once, or whose end is all that was seen.
  void ddl_seen() noexcept {
    ddl_began();
    ddl_ended();
  }

  /// A statement names what the snapshot does not have. Perhaps it is outdated: it is read anew, at
  /// most once a second, and less and less often while that finds nothing.
  void name_unknown() noexcept { name_unknown_ = true; }

  /// The newest snapshot, also while it is in doubt; null until one is loaded.
  const std::shared_ptr<const routing::CatalogView>& view() const noexcept { return view_; }
  /// What classification may rely on now: the snapshot, a doubtful one while DDL may be unseen, or
  /// null while none is loaded.
  const std::shared_ptr<const sql::Catalog>& catalog() const noexcept { return catalog_; }
  /// Changes whenever catalog() does; a snapshot that tells what the one before told changes neither.
  std::uint64_t generation() const noexcept { return generation_; }
  bool certain() const noexcept { return view_ && ddl_running_ == 0 && loaded_epoch_ == epoch_; }

 private:
  void on_row(std::uint64_t question, const routing::CatalogRow& row) noexcept override;
  void on_answer(std::uint64_t question, Result<routing::CatalogRows> answer) noexcept override;
  /// Does a turn's share of making the snapshot; false when there is more to do.
  bool build(Time now);
  void take(const Status& read, Time now);
  void note_unknown_names(const routing::CatalogView& before);
  Time due_at() const noexcept;
  void choose_catalog();

  Deps deps_;
  Login login_;
  CatalogOptions options_;
  std::unique_ptr<Probe> probe_;
  NodeId asked_node_;
  bool asked_ = false;
  bool loading_ = false;
  std::uint64_t question_ = 0;
  std::unique_ptr<routing::CatalogBuilder> builder_;
  Status rows_read_;              ///< the first row that could not be understood
  std::optional<Status> answer_;  ///< all rows are there, or there won't be any
  Time asked_at_{};
  Time last_took_at_{};
  Duration load_time_{};
  Duration retry_{};
  Time not_before_{};
  bool failure_logged_ = false;
  bool name_unknown_ = false;
  bool asked_for_name_ = false;
  Duration unknown_rest_{};

  std::uint64_t ddl_running_ = 0;
  std::uint64_t epoch_ =
      1;  ///< Rises with each beginning and end of DDL, and each change of the primary.
  std::uint64_t asked_epoch_ = 0;
  std::uint64_t loaded_epoch_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t snapshots_ = 0;
  std::shared_ptr<const routing::CatalogView> view_;
  routing::CatalogBuilder::Digest digest_;  ///< of the rows that view_ was made of
  std::shared_ptr<const routing::CatalogView>
      doubted_;  ///< What catalog_ wraps while it is in doubt.
  std::shared_ptr<const sql::Catalog> catalog_;
};

}  // namespace pgweir::monitor
