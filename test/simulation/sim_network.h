// The network in virtual time: connections that split, delay, stall, break at any byte, hang or are
// refused.
//
// One face (io::Network and io::Dialer) is the pooler's; connect() and open() are for clients and
// nodes, who use the same transports. Each direction of a link is a pipe:
//
//   send() ─► gathered ─(end of the turn)─► queue: what the kernel took (window) and what is kept
//   ─(latency, split)─► on_bytes()
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dice.h"
#include "io/io.h"
#include "sim_loop.h"

namespace pgweir::sim {

class Link;
class SimNetwork;

/// Whose end of a link.
enum class Party : std::uint8_t { pooler, client, node };

struct Conditions {
  Duration latency_min = Duration{20};
  Duration latency_max = Duration{300};
  /// Of 1000 deliveries, those that bring only a part of what is there.
  int split = 300;
  /// Of 1000 links, those that break when a random number of bytes has come.
  int reset = 0;
  /// Bytes that the kernel takes before the sender is congested.
  std::size_t window = 32768;
};

class SimTransport final : public io::Transport {
 public:
  SimTransport(std::shared_ptr<Link> link, int side, io::TransportUser& user);
  ~SimTransport() override;

  void send(Bytes bytes) noexcept override;
  bool congested() const noexcept override { return congested_; }
  void pause(bool on) noexcept override;
  void close() noexcept override;
  io::Address peer() const override;
  io::Address local() const override;
  /// Whether the other side still holds its end.
  bool peer_holds() const noexcept;
  std::int64_t peer_uid() const noexcept override { return -1; }
  void hand_to(io::TransportUser& user) noexcept override { user_ = &user; }

 private:
  friend class Link;
  enum class State : std::uint8_t { connecting, open, closing, closed };

  std::shared_ptr<Link> link_;
  int side_;
  io::TransportUser* user_;
  State state_ = State::connecting;
  bool congested_ = false;
  bool paused_ = false;
};

/// One connection, alive as long as an end or an event refers to it.
class Link final : public std::enable_shared_from_this<Link> {
 public:
  Link(SimNetwork& network, std::uint64_t number, std::array<io::Address, 2> addresses,
       std::array<Party, 2> parties);

  void reset(const char* why);
  /// Nothing arrives any more and nobody is told until the kernel gives up.
  void vanish(Duration give_up_after);
  bool alive() const noexcept { return ends_[0] != nullptr || ends_[1] != nullptr; }
  Party party(int side) const noexcept { return parties_[static_cast<std::size_t>(side)]; }
  const io::Address& address(int side) const noexcept {
    return addresses_[static_cast<std::size_t>(side)];
  }
  std::uint64_t number() const noexcept { return number_; }
  /// Whether that side still holds its end open (connecting counts).
  bool held(int side) const noexcept;

 private:
  friend class SimTransport;
  friend class SimNetwork;

  struct Pipe {
    std::string gathered;
    std::string queue;
    std::size_t sent = 0;  ///< Of `queue`, what has been delivered.
    bool fin = false;      ///< The sender closed: ends when the queue is empty.
    bool scheduled = false;
    bool slipped = false;           ///< A span has come during this pause.
    std::uint64_t reset_after = 0;  ///< Bytes until the link breaks; 0 is never.
    std::size_t waiting() const noexcept { return queue.size() - sent; }
  };
  Pipe& from(int side) noexcept { return pipes_[static_cast<std::size_t>(side)]; }
  SimTransport*& end(int side) noexcept { return ends_[static_cast<std::size_t>(side)]; }

  void attach(SimTransport& transport, int side) noexcept;
  void detach(int side) noexcept;
  void established();
  void flush(int side) noexcept;
  void schedule(int from_side);
  void deliver(int from_side);
  void close_of(int side);
  void finish_close(int side);
  void tell_closed(int side, const std::string& why);
  void touch(int side) noexcept;

  SimNetwork& network_;
  std::uint64_t number_;
  std::array<io::Address, 2> addresses_;  ///< Side 0 dialled.
  std::array<Party, 2> parties_;
  std::array<SimTransport*, 2> ends_{};
  std::array<Pipe, 2> pipes_;
  bool established_ = false;
  bool dead_ = false;
  bool vanished_ = false;
};

class SimNetwork final : public io::Network, public io::Dialer {
 public:
  SimNetwork(SimLoop& loop, Dice dice) noexcept;

  // The pooler's face.
  Result<std::unique_ptr<io::Listener>> listen(const io::Address& address,
                                               io::Acceptor& acceptor) override;
  std::unique_ptr<io::Transport> dial(const io::Address& address, io::TransportUser& user,
                                      const io::DialTls& tls) override;

  // Clients and nodes.
  std::unique_ptr<io::Transport> connect(const io::Address& from, const io::Address& to,
                                         io::TransportUser& user);
  void open(const io::Address& address, io::Acceptor& acceptor) {
    doors_[address] = {&acceptor, Party::node};
  }
  void shut(const io::Address& address) { doors_.erase(address); }

  Conditions& conditions() noexcept { return conditions_; }
  /// Connects to that host hang from now on (false: as before); what is open vanishes.
  void cut_off(const std::string& host, bool on, Duration give_up_after = std::chrono::seconds{15});
  void hang_connects(const std::string& host, bool on) { hanging_[host] = on; }
  bool hangs(const std::string& host) const {
    return hanging_.count(host) != 0 && hanging_.at(host);
  }
  /// Breaks every link to or from that host.
  void reset_host(const std::string& host, const char* why);
  /// Breaks one random link of the pooler with a peer of that kind.
  void reset_one(Party peer);
  void vanish_one(Party peer, Duration give_up_after);

  /// Links that the pooler dialled to that host and still holds.
  int pooler_links_to(const std::string& host) const;
  /// The most bytes that were kept for a slow peer of one pooler transport.
  std::size_t kept_max() const noexcept { return kept_max_; }
  void flush() noexcept;

 private:
  friend class Link;
  friend class SimTransport;
  friend class SimListener;
  struct DoorPlace {
    io::Acceptor* acceptor = nullptr;
    Party party = Party::node;
  };

  std::unique_ptr<SimTransport> start(const io::Address& from, Party who, const io::Address& to,
                                      io::TransportUser& user);
  void arrive(const std::shared_ptr<Link>& link);
  Duration latency() noexcept {
    return dice_.between(conditions_.latency_min, conditions_.latency_max);
  }
  std::vector<std::shared_ptr<Link>> links_of(Party peer);

  SimLoop& loop_;
  Dice dice_;
  Conditions conditions_;
  std::map<io::Address, DoorPlace> doors_;
  std::map<std::string, bool> hanging_;
  std::vector<std::weak_ptr<Link>> links_;
  std::vector<std::weak_ptr<Link>> staged_;
  std::uint64_t last_number_ = 0;
  std::uint16_t last_port_ = 40000;
  std::size_t kept_max_ = 0;
};

}  // namespace pgweir::sim
