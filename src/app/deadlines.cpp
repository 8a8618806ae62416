// What happens by time alone. Looked at only when the soonest of all deadlines has come.
#include <algorithm>

#include "app/impl.h"
#include "base/text.h"

namespace pgweir::app {
namespace {

/// How exact the time-outs of idle and busy clients are; they are looked for only when one is set.
constexpr Duration kClientLook = std::chrono::milliseconds(500);

/// How often a replica that keeps a read waiting is looked at again.
constexpr Duration kStuckLook = std::chrono::milliseconds(500);

/// How soon after its transaction a client is closed for server_fast_close.
constexpr Duration kFastCloseLook = std::chrono::milliseconds(100);

std::string stats_text(const stats::Counters& mean) {
  const auto number = [](auto value) { return std::to_string(value); };
  const auto us = [](Duration time) { return std::to_string(time.count()); };
  return concat({number(mean.xact_count),
                 " xacts/s, ",
                 number(mean.query_count),
                 " queries/s, ",
                 number(mean.client_parse_count),
                 " client parses/s, ",
                 number(mean.server_parse_count),
                 " server parses/s, ",
                 number(mean.bind_count),
                 " binds/s, in ",
                 number(mean.bytes_received),
                 " B/s, out ",
                 number(mean.bytes_sent),
                 " B/s, xact ",
                 us(mean.xact_time),
                 " us, query ",
                 us(mean.query_time),
                 " us, wait ",
                 us(mean.wait_time),
                 " us"});
}

}  // namespace

void Pooler::Impl::deadlines() {
  next_deadline_ = kNever;
  if (suspended_) {  // Nobody can be late while nobody is listened to.
    close_what_is_not_flushed();
    return roll_statistics();
  }
  for (PoolEntry* pool : every_pool()) pool_deadlines(*pool);
  cancel_unfinished();
  login_deadlines();
  client_deadlines();
  roll_statistics();
}

void Pooler::Impl::pool_deadlines(PoolEntry& pool) {
  pool::Pool& seats = pool.seats;
  while (pool::Waiter* waiter = seats.overdue(now())) {
    auto& client = static_cast<Client&>(*waiter);
    seats.leave(client);
    client.session.close(error_of(PoolerError::query_wait_timeout));
  }
  tell_waiters(pool);
  replication_deadlines(pool);
  if (settings_->server_fast_close) close_fast(pool);
  if (pool.database.cluster && settings_->replica_read_timeout > Duration{}) leave_stuck_replicas(pool);
  while (const pool::Expired expired = seats.next_expired(now()))
    close_server(static_cast<Server&>(*expired.seat), expired.why);
  // A pool without clients keeps its servers only when its user is forced: others would have no
  // credentials.
  if (seats.limits.min_pool_size > 0 && (!pool.clients.empty() || pool.forced_user) &&
      !pool.database.removed) {
    while (const pool::Opening next = seats.next_to_fill(now())) open(pool, *next.subpool, false);
    lower(now() + std::chrono::milliseconds(500));
  }
  if (seats.waiting() > 0 || !pool.welcoming.empty() || !pool.lookups.empty()) wants_pump(pool);
  lower(seats.next_deadline(now()));
}

/// In session pooling a server that is to be replaced would stay until its client leaves: the client
/// is closed instead, between two transactions.
void Pooler::Impl::close_fast(PoolEntry& pool) {
  if (pool.context.mode != config::PoolMode::session) return;
  each_server(pool, [&](Server& server) {
    if (!server.close_needed || server.gone || server.seat_place() != pool::Place::active) return;
    session::ClientSession* client = server.session.client();
    if (!client) return;
    if (client->busy() || client->in_transaction())
      return lower(now() + kFastCloseLook);  // Its transaction is not interrupted.
    client->close(Error("57P01", "database configuration changed"));
  });
}

/// Where replay stops behind an exclusive lock that it has taken, reads of that table hang without an error. A replica that is slow
/// but gets on is none of that, and neither is one that has nothing to replay.
void Pooler::Impl::leave_stuck_replicas(PoolEntry& pool) {
  const Duration patience = settings_->replica_read_timeout;
  const routing::ClusterSnapshot& view = pool.database.cluster->view();
  std::vector<Server*> stuck;
  for (const auto& subpool : pool.seats.subpools()) {
    if (subpool->side != pool::Side::replica) continue;
    const routing::NodeView* node = view ? view->find(subpool->node()) : nullptr;
    const bool stands = node && node->replayed < node->received && now() - node->advanced_at >= patience;
    for (pool::ServerSeat* seat = subpool->first(pool::Place::active); seat; seat = pool::Subpool::next(*seat)) {
      if (now() - seat->since < patience) {
        lower(seat->since + patience);
        break;
      }
      auto& server = static_cast<Server&>(*seat);
      const session::ClientSession* client = server.session.client();
      if (!client || !client->holding()) continue;  // A row is out: it is not run again.
      stands ? stuck.push_back(&server) : lower(now() + kStuckLook);
    }
  }
  for (Server* server : stuck) {
    server->session.client()->give_up_replica();
    send_cancel(*server, {});
    close_server(*server, PoolerError::replica_stuck);
  }
}

/// The queue is in order of time: whoever is not due yet ends the walk.
void Pooler::Impl::tell_waiters(PoolEntry& pool) {
  const Duration patience = settings_->query_wait_notify;
  if (patience <= Duration{}) return;
  for (pool::Waiter* waiter = pool.seats.front(); waiter; waiter = pool::Pool::next(*waiter)) {
    auto& client = static_cast<Client&>(*waiter);
    if (now() - client.since < patience) return lower(client.since + patience);
    if (!std::exchange(client.told_to_wait, true)) {
      client.session.tell(
          "No server connection available in postgres backend, client being queued");
    }
  }
}

void Pooler::Impl::cancel_unfinished() {
  while (Server* server = unfinished_.front()) {
    const Time due = server->unfinished_since + kUnfinishedTime;
    if (due > now()) return lower(due);
    unfinished_.remove(*server);
    if (!send_cancel(*server, {})) close_server(*server, Error("57014", "what it works on concerns nobody any more"));
  }
}

void Pooler::Impl::login_deadlines() {
  const Duration patience = settings_->client_login_timeout;
  while (Client* client = logging_in_.front()) {
    const session::ClientState state = client->session.state();
    const bool waits_for_server = state == session::ClientState::welcoming;
    if (!waits_for_server && state != session::ClientState::startup &&
        state != session::ClientState::authenticating) {
      logging_in_.remove(*client);
      continue;
    }
    if (patience <= Duration{}) return;
    if (now() - client->session.connected_at() < patience)
      return lower(client->session.connected_at() + patience);
    logging_in_.remove(*client);
    client->session.close(error_of(waits_for_server ? PoolerError::server_down
                                                    : PoolerError::client_login_timeout));
  }
}

/// Whether the configuration limits clients that are logged in at all; usually it does not, and
/// nobody is looked at.
bool Pooler::Impl::clients_have_deadlines() const noexcept {
  const auto any = [&](const config::User* user) {
    return config::client_idle_timeout(*settings_, user) > Duration{} ||
           config::idle_transaction_timeout(*settings_, user) > Duration{} ||
           config::transaction_timeout(*settings_, user) > Duration{} ||
           config::query_timeout(*settings_, user) > Duration{};
  };
  if (any(nullptr)) return true;
  return std::any_of(settings_->users.begin(), settings_->users.end(),
                     [&](const auto& user) { return any(&user.second); });
}

void Pooler::Impl::client_deadlines() {
  if (!clients_have_deadlines_) return;
  if (now() < next_client_look_) return lower(next_client_look_);
  next_client_look_ = now() + kClientLook;
  lower(next_client_look_);
  for (Client* client = all_clients_.front(); client;) {
    Client& each = *client;
    client = List<Client, &Client::all_hook>::next(each);
    if (!each.pool_entry) continue;
    const config::User* user = settings_->find_user(each.session.user());
    const Duration idle = config::client_idle_timeout(*settings_, user);
    const Duration in_transaction = config::idle_transaction_timeout(*settings_, user);
    const Duration transaction = config::transaction_timeout(*settings_, user);
    const Duration query = config::query_timeout(*settings_, user);
    const session::ClientSession& session = each.session;
    const Duration in_state = now() - session.state_since();
    const auto over = [](Duration limit, Duration time) {
      return limit > Duration{} && time >= limit;
    };
    // A block whose BEGIN is held back has no server, and is a transaction all the same.
    const bool in_held_block = session.state() == session::ClientState::idle && session.in_transaction();
    if (in_held_block && over(in_transaction, in_state)) {
      each.session.close(error_of(PoolerError::idle_transaction_timeout));
    } else if (in_held_block && over(transaction, now() - session.transaction_began_at())) {
      each.session.close(error_of(PoolerError::transaction_timeout));
    } else if (session.state() == session::ClientState::idle && !in_held_block && over(idle, in_state)) {
      each.session.close(error_of(PoolerError::client_idle_timeout));
    } else if (session.state() == session::ClientState::active) {
      const bool quiet = session.in_transaction() && !session.busy();
      // When it fell quiet is known as exactly as these looks are apart.
      if (!quiet || each.quiet_request_at != session.request_at()) {
        each.quiet_since = now();
        each.quiet_request_at = quiet ? session.request_at() : Time{};
      }
      if (quiet && over(in_transaction, now() - each.quiet_since)) {
        each.session.close(error_of(PoolerError::idle_transaction_timeout));
      } else if (!quiet && over(query, now() - session.request_at())) {
        each.session.close(error_of(PoolerError::query_timeout));
      } else if (session.in_transaction() &&
                 over(transaction, now() - session.transaction_began_at())) {
        each.session.close(error_of(PoolerError::transaction_timeout));
      }
    } else if (session.state() == session::ClientState::waiting && over(query, in_state)) {
      each.session.close(error_of(PoolerError::query_timeout_waiting));
    }
  }
}

void Pooler::Impl::roll_statistics() {
  if (now() < next_period_) return lower(next_period_);
  const Duration elapsed = now() - period_began_;
  stats::Counters all;
  for (const auto& [name, database] : databases_) {
    const stats::Counters totals = database->totals();
    database->averages.roll(totals, elapsed);
    all += totals;
  }
  averages_.roll(all, elapsed);
  period_began_ = now();
  next_period_ = now() + std::max<Duration>(settings_->stats_period, std::chrono::seconds(1));
  lower(next_period_);
  stats_line_ = stats_text(averages_.last());
  if (settings_->log_stats) log().log(concat({"stats: ", stats_line_}));
  drop_unused_databases();
}

}  // namespace pgweir::app
