// Cancel requests to nodes: a connection each, which says whose query to cancel and is closed by
// the node when it has been done.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "config/settings.h"
#include "io/io.h"
#include "session/cancel_key.h"

namespace pgweir::app {

class CancellerUser {
 public:
  /// The request of `asker` for this server (or peer, see Peers) has reached its end, or has not
  /// within the time given. A server is not given to another client before: a late cancel would hit
  /// that one's query.
  virtual void cancel_ended(std::uint64_t server_id, ClientId asker, bool timed_out) noexcept = 0;

 protected:
  ~CancellerUser() = default;
};

class Canceller {
 public:
  Canceller(io::Dialer& dialer, CancellerUser& user) noexcept : dialer_(dialer), user_(user) {}
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;

  /// False when too many are under way: then nothing is sent, and cancel_ended() does not follow. Whoever listens
  /// there takes connections from `proxied` for those of proxies, and expects a header in front of what they say.
  bool send(std::uint64_t server_id, ClientId asker, const io::Address& node, const io::DialTls& tls,
            const session::CancelKey& backend, Time deadline, const config::NetworkList& proxied = {});
  /// Tells of those that have ended. Answers when it wants to be called next.
  Time turn(Time now) noexcept;
  std::size_t under_way() const noexcept { return errands_.size(); }
  /// Of those for `id`: how many have their connection.
  std::size_t standing(std::uint64_t id) const noexcept;

 private:
  static constexpr std::size_t kErrandsMax = 1000;

  struct Errand final : io::TransportUser {
    void on_connected() noexcept override;
    void on_bytes(Bytes) noexcept override {}
    void on_drained() noexcept override {}
    void on_closed(const Error&) noexcept override { closed = true; }

    std::uint64_t server_id = 0;
    ClientId asker;
    std::string packet;
    config::NetworkList proxied;
    Time deadline{};
    bool connected = false;
    bool closed = false;
    std::unique_ptr<io::Transport> transport;
  };

  io::Dialer& dialer_;
  CancellerUser& user_;
  std::vector<std::unique_ptr<Errand>> errands_;
};

}  // namespace pgweir::app
