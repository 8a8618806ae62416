// Peers: the other processes that clients may reach under the same address. A cancel request comes
// over a connection of its own, which any of them may get; it is passed on to the one whose client
// it is about.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

#include "admin/world.h"
#include "app/canceller.h"
#include "base/log.h"
#include "config/settings.h"
#include "session/cancel_key.h"

namespace pgweir::app {

/// Who sent a request hears that it has been delivered, or will not be.
class CancelAskers {
 public:
  virtual void cancel_answered(ClientId asker) noexcept = 0;

 protected:
  ~CancelAskers() = default;
};

class Peers final : private CancellerUser {
 public:
  Peers(io::Dialer& dialer, Log& log, CancelAskers& askers) noexcept
      : log_(log), askers_(askers), canceller_(dialer, *this) {}

  void configure(const config::Settings& settings);
  /// A request for no client of ours. What can't be passed on is dropped, and the log says why.
  void pass_on(const session::CancelKey& key, ClientId asker, Time now);
  bool busy() const noexcept { return canceller_.under_way() > 0; }
  /// Answers when it wants to be called next.
  Time turn(Time now);

  /// What SHOW PEER_POOLS shows.
  std::vector<admin::PeerPoolRow> rows() const;

 private:
  static constexpr std::size_t kWaitingMax = 1000;

  struct Waiting {
    session::CancelKey key;
    ClientId asker;
    Time deadline;
  };
  struct Link {
    io::Address address;
    std::size_t connections_max = 0;
    std::size_t connections = 0;
    std::deque<Waiting> waiting;
  };

  void cancel_ended(std::uint64_t peer_id, ClientId asker, bool timed_out) noexcept override;
  void drop(ClientId asker, std::string_view why);
  void send_waiting(int peer_id, Link& link, Time now);

  Log& log_;
  CancelAskers& askers_;
  Canceller canceller_;
  int own_id_ = 0;
  config::NetworkList proxied_;  ///< whom peers, configured like us, take for proxies
  Duration patience_{};
  std::map<int, Link> links_;
};

}  // namespace pgweir::app
