#include "app/peers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"

namespace pgweir::app {

void Peers::configure(const config::Settings& settings) {
  own_id_ = settings.peer_id;
  proxied_ = settings.proxy_protocol_networks;
  patience_ = settings.cancel_wait_timeout > Duration{} ? settings.cancel_wait_timeout
                                                        : std::chrono::hours(1);
  std::map<int, Link> before = std::exchange(links_, {});
  for (const auto& [id, peer] : settings.peers) {
    if (id == own_id_) continue;
    Link& link = links_[id];
    if (const auto known = before.find(id); known != before.end()) link = std::move(known->second);
    const config::HostPort host{peer.host, peer.port};
    link.address = {host.is_unix() ? io::Address::Kind::unix_socket : io::Address::Kind::tcp,
                    host.host, static_cast<std::uint16_t>(host.port)};
    const int size = peer.pool_size > 0 ? peer.pool_size : settings.default_pool_size;
    link.connections_max = size > 0 ? static_cast<std::size_t>(size) : kWaitingMax;
    before.erase(id);
  }
  for (const auto& [id, link] : before) {
    for (const Waiting& waiting : link.waiting)
      drop(waiting.asker, concat({"peer ", std::to_string(id), " is configured no more"}));
  }
}

void Peers::drop(ClientId asker, std::string_view why) {
  log_.log(concat({"failed cancel request: ", why}));
  askers_.cancel_answered(asker);
}

void Peers::pass_on(const session::CancelKey& key, ClientId asker, Time now) {
  const int id = key.peer_id();
  const auto found = own_id_ > 0 && id != own_id_ ? links_.find(id) : links_.end();
  if (found == links_.end()) return drop(asker, "no such client");
  // Two processes that take each other for the owner would pass it on for ever.
  if (key.hops_left() == 0) {
    return drop(asker, concat({"it has been passed on ",
                               std::to_string(session::CancelKey::kHopsMax), " times"}));
  }
  Link& link = found->second;
  if (link.waiting.size() >= kWaitingMax)
    return drop(asker, concat({"too many wait for peer ", std::to_string(id)}));
  link.waiting.push_back({key.after_hop(), asker, now + patience_});
  send_waiting(id, link, now);
}

void Peers::send_waiting(int peer_id, Link& link, Time now) {
  while (!link.waiting.empty() && link.connections < link.connections_max) {
    const Waiting next = link.waiting.front();
    link.waiting.pop_front();
    if (next.deadline <= now) {
      drop(next.asker, concat({"peer ", std::to_string(peer_id), " had no time for it"}));
    } else if (canceller_.send(static_cast<std::uint64_t>(peer_id), next.asker, link.address, {},
                               next.key, next.deadline, proxied_)) {
      ++link.connections;
    } else {
      drop(next.asker, "too many are under way");
    }
  }
}

Time Peers::turn(Time now) {
  const Time next = canceller_.turn(now);
  for (auto& [id, link] : links_) send_waiting(id, link, now);
  return canceller_.under_way() > 0 ? std::min(next, now + patience_) : kNever;
}

void Peers::cancel_ended(std::uint64_t peer_id, ClientId asker, bool timed_out) noexcept {
  const auto found = links_.find(static_cast<int>(peer_id));
  if (found != links_.end() && found->second.connections > 0) --found->second.connections;
  if (timed_out)
    log_.warning(
        concat({"peer ", std::to_string(peer_id), " did not take a cancel request in time"}));
  askers_.cancel_answered(asker);
}

std::vector<admin::PeerPoolRow> Peers::rows() const {
  std::vector<admin::PeerPoolRow> rows;
  for (const auto& [id, link] : links_) {
    const int standing = static_cast<int>(canceller_.standing(static_cast<std::uint64_t>(id)));
    rows.push_back({.peer_id = id,
                    .cl_active_cancel_req = standing,
                    .cl_waiting_cancel_req = static_cast<int>(link.waiting.size()),
                    .sv_active_cancel = standing,
                    .sv_login = static_cast<int>(link.connections) - standing});
  }
  return rows;
}

}  // namespace pgweir::app
