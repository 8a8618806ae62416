// What the console sees and asks for: admin's World over the Pooler.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/console.h"
#include "admin/world.h"
#include "app/pooler.h"
#include "session/hub.h"

namespace pgweir::app {

/// Shown beside the nodes while the levels that follow writes can't be kept.
inline constexpr std::string_view kNotKept =
    "several processes, each knows its own writes only: levels table, session, window and pin are "
    "served as latest";

struct Client;
struct DatabaseEntry;
struct Server;
class ConsoleWorld;

/// One client of the console: the bridge from its session to admin.
class ConsoleSeat final : public session::Console {
 public:
  ConsoleSeat(ConsoleWorld& world, admin::Access access, Client& client);
  ~ConsoleSeat() override;

  void append_welcome(std::string& out) const override { session_.append_welcome(out); }
  void on_message(char type, Bytes body, std::string& out) override {
    session_.on_message(type, body, out);
  }
  void append_late(std::string& out) override {
    out += late_;
    late_.clear();
  }
  bool finished() const noexcept override { return session_.finished(); }

  void complete(const Status& how) { session_.complete(how, late_); }
  void cancel() { session_.cancel(late_); }
  admin::ConsoleSession& session() noexcept { return session_; }
  Client& client() noexcept { return client_; }

 private:
  ConsoleWorld& world_;
  Client& client_;
  admin::ConsoleSession session_;
  std::string late_;
};

class ConsoleWorld final : public admin::World {
 public:
  explicit ConsoleWorld(Pooler::Impl& impl) noexcept : impl_(impl) {}

  // world.cpp
  std::shared_ptr<const config::Settings> settings() const override;
  std::vector<admin::SocketRow> clients() const override;
  std::vector<admin::SocketRow> servers() const override;
  std::vector<admin::PoolRow> pools() const override;
  std::vector<admin::DatabaseRow> databases() const override;
  std::vector<admin::UserRow> users() const override;
  std::vector<admin::StatsRow> stats() const override;
  admin::Lists lists() const override;
  std::vector<admin::PeerPoolRow> peer_pools() const override;
  std::vector<admin::DnsHostRow> dns_hosts() const override;
  admin::State state() const override;
  std::vector<admin::MemoryRow> memory() const override;
  std::vector<admin::NodeRow> nodes() const override;
  std::vector<admin::RoutingRow> routing() const override;
  std::vector<std::pair<std::string, std::string>> facts() const override;
  std::vector<admin::ExplainRow> explain_route(std::string_view sql) const override;
  std::vector<admin::TableRow> tables() const override;
  std::vector<admin::MisrouteRow> misroutes() const override;
  std::vector<admin::DependencyRow> dependencies(std::string_view table) const override;

  // orders.cpp
  Result<admin::Progress> begin(const admin::Order& order, admin::ConsoleSession& asker) override;
  Status set(std::string_view name, std::string_view value) override;
  void forget(admin::ConsoleSession& asker) noexcept override;

  /// In the turn: carries out what was ordered and tells who waits for an end that has come.
  void turn();
  /// Whether turn() has anything to do.
  bool busy() const noexcept { return !waiting_.empty(); }

  /// A cancel request for a client of the console.
  void cancel(Client& client);
  void opened(ConsoleSeat& seat) { seats_.push_back(&seat); }
  void closed(ConsoleSeat& seat) noexcept { std::erase(seats_, &seat); }

 private:
  struct Waiting {
    admin::Order order;
    admin::ConsoleSession*
        asker;  ///< null: nobody waits any more, the order is carried out all the same
    bool begun = false;
  };

  void judge(const DatabaseEntry& database, sql::TableKey table, admin::TableRow& row) const;
  Status check(const admin::Order& order) const;
  void carry_out(const admin::Order& order, Status& how);
  bool done(const admin::Order& order) const;
  void complete(admin::ConsoleSession& asker, const Status& how);

  Pooler::Impl& impl_;
  std::vector<ConsoleSeat*> seats_;
  std::vector<Waiting> waiting_;
};

}  // namespace pgweir::app
