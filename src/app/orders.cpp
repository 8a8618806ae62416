// What the console orders: taken in at once, carried out in the turn, answered when it is done.
#include <algorithm>

#include "app/encryption.h"
#include "app/impl.h"
#include "app/world.h"
#include "base/text.h"

namespace pgweir::app {

using admin::Verb;

Result<admin::Progress> ConsoleWorld::begin(const admin::Order& order,
                                            admin::ConsoleSession& asker) {
  if (Status ok = check(order); !ok) return ok.error();
  if (order.verb == Verb::shutdown) {
    impl_.request_shutdown(Shutdown::now);
    return admin::Progress::done;
  }
  waiting_.push_back({order, &asker, false});
  return admin::Progress::later;
}

Status ConsoleWorld::check(const admin::Order& order) const {
  const DatabaseEntry* database =
      order.database.empty() ? nullptr : impl_.find_database(order.database);
  if (!order.database.empty() && !database)
    return Error(concat({"no such database: ", order.database}));
  switch (order.verb) {
    case Verb::pause:
      if (impl_.suspended_ || (!database && impl_.paused_))
        return Error("already suspended/paused");
      return {};
    case Verb::suspend:
      if (impl_.suspended_ || impl_.paused_) return Error("already suspended/paused");
      for (const auto& [name, each] : impl_.databases_) {
        if (each->paused) return Error("cannot suspend with paused databases");
      }
      return {};
    case Verb::resume:
      if (impl_.shutting_down_) return Error("pooler is shutting down");
      if (!database && !impl_.paused_ && !impl_.suspended_) {
        // Databases that were paused one by one are resumed together, too.
        for (const auto& [name, each] : impl_.databases_) {
          if (each->paused) return {};
        }
        return Error("pooler is not paused/suspended");
      }
      if (database && !database->paused)
        return Error(concat({"database ", order.database, " is not paused"}));
      return {};
    case Verb::kill_client:
      if (impl_.clients_.count(order.client_id) == 0) return Error("client not found");
      return {};
    case Verb::shutdown_wait_for_servers:
    case Verb::shutdown_wait_for_clients:
      if (impl_.shutting_down_) return Error("already shutting down");
      return {};
    case Verb::kill:
      if (impl_.suspended_) return Error("already suspended/paused");
      return {};
    case Verb::reload:
    case Verb::disable:
    case Verb::enable:
    case Verb::reconnect:
    case Verb::wait_close:
    case Verb::shutdown:
      return {};
  }
  return {};
}

void ConsoleWorld::turn() {
  for (std::size_t i = 0; i < waiting_.size();) {
    Status how;
    if (!waiting_[i].begun) {
      waiting_[i].begun = true;
      const admin::Order order = waiting_[i].order;
      carry_out(order, how);
    }
    if (i >= waiting_.size()) return;
    if (how.ok() && waiting_[i].asker && !done(waiting_[i].order)) {
      ++i;
      continue;
    }
    admin::ConsoleSession* asker = waiting_[i].asker;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    if (asker) complete(*asker, how);
  }
}

void ConsoleWorld::carry_out(const admin::Order& order, Status& how) {
  DatabaseEntry* database = order.database.empty() ? nullptr : impl_.find_database(order.database);
  if (!order.database.empty() && !database) {
    how = Error(concat({"no such database: ", order.database}));
    return;
  }
  const auto each = [&](auto&& what) {
    if (database) return what(*database);
    for (const auto& [name, one] : impl_.databases_) what(*one);
  };
  const std::string_view named = database ? std::string_view(order.database) : "all databases";
  switch (order.verb) {
    case Verb::reload:
      impl_.log().log("RELOAD command issued");
      if (!impl_.reload()) how = error_of(PoolerError::reload_failed);
      return;
    case Verb::pause:
      impl_.log().log(concat({"PAUSE command issued: ", named}));
      if (!database) impl_.paused_ = true;
      return each([&](DatabaseEntry& one) { impl_.pause(one); });
    case Verb::resume:
      impl_.log().log(concat({"RESUME command issued: ", named}));
      if (!database) return impl_.resume_all();
      return impl_.resume(*database);
    case Verb::suspend:
      impl_.log().log("SUSPEND command issued");
      return impl_.suspend();
    case Verb::kill:
      impl_.log().log(concat({"KILL command issued: ", named}));
      if (!database) impl_.paused_ = true;
      return each([&](DatabaseEntry& one) { impl_.kill(one); });
    case Verb::kill_client: {
      const auto found = impl_.clients_.find(order.client_id);
      if (found == impl_.clients_.end())
        how = Error("client not found");
      else
        found->second->session.close(error_of(PoolerError::disconnected_by_admin));
      return;
    }
    case Verb::disable:
    case Verb::enable:
      if (database) database->disabled = order.verb == Verb::disable;
      return;
    case Verb::reconnect:
      impl_.log().log(concat({"RECONNECT command issued: ", named}));
      return each([&](DatabaseEntry& one) {
        for (const auto& pool : one.pools)
          impl_.retire_servers(*pool, PoolerError::database_changed);
      });
    case Verb::wait_close:
      return;
    case Verb::shutdown:
      return impl_.request_shutdown(Shutdown::now);
    case Verb::shutdown_wait_for_servers:
      return impl_.begin_shutdown(Shutdown::wait_for_servers);
    case Verb::shutdown_wait_for_clients:
      return impl_.begin_shutdown(Shutdown::wait_for_clients);
  }
}

bool ConsoleWorld::done(const admin::Order& order) const {
  const DatabaseEntry* database =
      order.database.empty() ? nullptr : impl_.find_database(order.database);
  if (!order.database.empty() && !database) return true;
  switch (order.verb) {
    case Verb::pause:
      return !impl_.servers_left(database);
    case Verb::suspend:
      return !impl_.suspended_ || impl_.flushed();
    case Verb::wait_close: {
      bool left = false;
      for (const auto& [id, server] : impl_.servers_) {
        left = left || (server->close_needed && !server->gone &&
                        (!database || &server->pool.database == database));
      }
      return !left;
    }
    case Verb::reload:
    case Verb::resume:
    case Verb::kill:
    case Verb::kill_client:
    case Verb::disable:
    case Verb::enable:
    case Verb::reconnect:
    case Verb::shutdown:
    case Verb::shutdown_wait_for_servers:
    case Verb::shutdown_wait_for_clients:
      return true;
  }
  return true;
}

void ConsoleWorld::complete(admin::ConsoleSession& asker, const Status& how) {
  for (ConsoleSeat* seat : seats_) {
    if (&seat->session() != &asker) continue;
    seat->complete(how);
    impl_.wants_turn(seat->client().session);
    return;
  }
}

void ConsoleWorld::cancel(Client& client) {
  for (ConsoleSeat* seat : seats_) {
    if (&seat->client() != &client) continue;
    seat->cancel();
    impl_.wants_turn(client.session);
    return;
  }
}

void ConsoleWorld::forget(admin::ConsoleSession& asker) noexcept {
  for (std::size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].asker != &asker) {
      ++i;
      continue;
    }
    const admin::Order order = waiting_[i].order;
    const bool halts = order.verb == Verb::pause || order.verb == Verb::suspend;
    const bool undo = waiting_[i].begun && halts;
    if (waiting_[i].begun || halts || order.verb == Verb::wait_close) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      waiting_[i].asker = nullptr;
      ++i;
    }
    if (!undo) continue;
    if (order.database.empty()) {
      impl_.resume_all();
    } else if (DatabaseEntry* database = impl_.find_database(order.database)) {
      impl_.resume(*database);
    }
  }
}

Status ConsoleWorld::set(std::string_view name, std::string_view value) {
  config::Settings changed = *impl_.settings_;
  if (Status ok = config::apply_set(changed, name, value); !ok) {
    impl_.log().warning(concat({"SET ", name, " failed: ", ok.error().text()}));
    return ok;
  }
  if (name.starts_with("auth_") && name != "auth_file") {
    Result<Access> access = read_access(impl_.parts_.files, changed, impl_.access_->users);
    if (!access) {
      impl_.log().warning(concat({"SET ", name, " failed: ", access.error().text()}));
      return access.error();
    }
    impl_.use_access(std::move(*access));
  }
  Status tls = same_tls(changed, *impl_.settings_) ? Status() : impl_.use_tls(changed);
  if (!tls) {
    impl_.log().warning(concat({"SET ", name, " failed: ", tls.error().text()}));
    return tls;
  }
  impl_.adopt(std::make_shared<const config::Settings>(std::move(changed)));
  return {};
}

// --- what orders and signals do
// ----------------------------------------------------------------------------------------

bool Pooler::Impl::servers_left(const DatabaseEntry* database) const noexcept {
  if (database) return database->servers() > 0;
  return std::any_of(databases_.begin(), databases_.end(),
                     [](const auto& each) { return each.second->servers() > 0; });
}

void Pooler::Impl::pause(DatabaseEntry& database) {
  database.paused = true;
  for (const auto& pool : database.pools) {
    pool->seats.paused = true;
    close_idle(*pool, PoolerError::pause_mode);
  }
}

void Pooler::Impl::resume(DatabaseEntry& database) {
  if (!database.paused) return;
  database.paused = false;
  for (const auto& pool : database.pools) {
    pool->seats.paused = false;
    route_waiters_again(*pool);
  }
  lower(now());
}

void Pooler::Impl::resume_all() {
  end_suspension();
  paused_ = false;
  for (const auto& [name, database] : databases_) resume(*database);
}

/// Clients that are still logging in go on with that, as far as they get without a server: one of
/// them may be the console that will say RESUME. The others are suspended then. Servers that log in
/// are not handed out.
void Pooler::Impl::suspend() {
  suspended_ = true;
  suspend_until_ = settings_->suspend_timeout > Duration{} ? now() + settings_->suspend_timeout
                                                           : kNever;
  lower(suspend_until_);
  for (Client* client = all_clients_.front(); client;
       client = List<Client, &Client::all_hook>::next(*client)) {
    switch (client->session.state()) {
      case session::ClientState::startup:
      case session::ClientState::authenticating:
      case session::ClientState::welcoming:
      case session::ClientState::console:
      case session::ClientState::cancelling:
      case session::ClientState::closed:
        break;
      case session::ClientState::idle:
      case session::ClientState::collecting:
      case session::ClientState::waiting:
      case session::ClientState::active:
      case session::ClientState::replicating:
        client->session.suspend(true);
        break;
    }
  }
  for (const PoolEntry* pool : every_pool()) {
    each_server(*pool, [](Server& server) {
      if (server.ever_idle) server.session.suspend(true);
    });
  }
}

void Pooler::Impl::end_suspension() {
  if (!std::exchange(suspended_, false)) return;
  suspend_until_ = kNever;
  for (Client* client = all_clients_.front(); client;
       client = List<Client, &Client::all_hook>::next(*client)) {
    client->session.suspend(false);
  }
  for (const PoolEntry* pool : every_pool())
    each_server(*pool, [](Server& server) { server.session.suspend(false); });
  lower(now());
}

/// Whether every peer has taken what it was sent.
bool Pooler::Impl::flushed() const noexcept {
  const auto behind = [](const auto& session) {
    return session.transport() && session.transport()->congested();
  };
  for (const Client* client = all_clients_.front(); client;
       client = List<Client, &Client::all_hook>::next(*client)) {
    if (!client->is_console && behind(client->session)) return false;
  }
  return std::none_of(servers_.begin(), servers_.end(), [&](const auto& server) {
    return !server.second->gone && behind(server.second->session);
  });
}

void Pooler::Impl::close_what_is_not_flushed() {
  if (now() < suspend_until_) return lower(suspend_until_);
  suspend_until_ = kNever;
  for (Client* client = all_clients_.front(); client;) {
    Client& each = *client;
    client = List<Client, &Client::all_hook>::next(each);
    const io::Transport* transport = each.session.transport();
    if (!each.is_console && transport && transport->congested())
      each.session.close(Error("57P01", "suspend_timeout"));
  }
  for (const PoolEntry* pool : every_pool()) {
    each_server(*pool, [&](Server& server) {
      const io::Transport* transport = server.session.transport();
      if (!server.gone && transport && transport->congested())
        close_server(server, "suspend_timeout");
    });
  }
}

std::vector<PoolEntry*> Pooler::Impl::every_pool() const {
  std::vector<PoolEntry*> pools;
  for (const auto& [name, database] : databases_) {
    for (const auto& pool : database->pools) pools.push_back(pool.get());
  }
  for (const auto& database : removed_databases_) {
    for (const auto& pool : database->pools) pools.push_back(pool.get());
  }
  return pools;
}

void Pooler::Impl::kill(DatabaseEntry& database) {
  pause(database);
  for (const auto& pool : database.pools) {
    for (Client* client = pool->clients.front(); client;) {
      Client& each = *client;
      client = List<Client, &Client::pool_hook>::next(each);
      each.session.close(error_of(PoolerError::disconnected_by_admin));
    }
    each_server(*pool, [&](Server& server) { close_server(server, PoolerError::disconnected_by_admin); });
  }
}

/// With other processes on the port nobody's connection is lost: those under way are taken in first.
void Pooler::Impl::leave_tcp() {
  if (shutting_down_ != Shutdown::wait_for_clients) return tcp_listeners_.clear();
  bool turned_away = !tcp_listeners_.empty();
  for (const auto& listener : tcp_listeners_) turned_away = listener->turn_away() && turned_away;
  tcp_closes_at_ = turned_away ? now() + kHandshakeTime : now();
}

void Pooler::Impl::close_tcp_if_due() {
  if (now() < tcp_closes_at_) return lower(tcp_closes_at_);
  tcp_closes_at_ = kNever;
  for (const auto& listener : tcp_listeners_) listener->accept_waiting();
  tcp_listeners_.clear();
}

bool Pooler::Impl::somebody_logs_in_over_tcp() const noexcept {
  for (const Client* client = logging_in_.front(); client;
       client = List<Client, &Client::login_hook>::next(*client)) {
    const session::ClientState state = client->session.state();
    if (state != session::ClientState::startup && state != session::ClientState::authenticating)
      continue;
    const io::Transport* transport = client->session.transport();
    if (transport && transport->peer().kind == io::Address::Kind::tcp) return true;
  }
  return false;
}

void Pooler::Impl::begin_shutdown(Shutdown how) {
  end_suspension();  // Nobody could come to an end.
  shutting_down_ = how;
  switch (how) {
    case Shutdown::now:
      log().log("shutting down");
      break;
    case Shutdown::wait_for_servers:
      log().log("shutting down, waiting for servers to be given back");
      break;
    case Shutdown::wait_for_clients:
      log().log("shutting down, waiting for clients to leave");
      break;
  }
  // The Unix socket stays: the console can be reached to the end.
  leave_tcp();
  if (how != Shutdown::wait_for_servers) return;
  paused_ = true;
  for (const auto& [name, database] : databases_) {
    pause(*database);
    for (const auto& pool : database->pools) {
      refuse_welcome(*pool, error_of(PoolerError::server_shutting_down));
      refuse_replication(*pool, error_of(PoolerError::server_shutting_down));
      while (pool::Waiter* waiter = pool->seats.front()) {
        auto& client = static_cast<Client&>(*waiter);
        pool->seats.leave(client);
        client.session.close(error_of(PoolerError::server_shutting_down));
      }
    }
  }
}

}  // namespace pgweir::app
