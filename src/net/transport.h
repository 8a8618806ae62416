// transport: one socket as an io::Transport, over uv_poll with plain recv and send.
//
//   resolving ─► connecting ─► open ─► flushing ─► closed        (accepted sockets begin at open)
//       └────────────┴───────────┴──────────────────▲
//
// A message that is passed on costs one recv and one send: a small send is gathered in a borrowed
// block and written when the callback that caused it has returned, a large one goes out at once
// behind what was gathered. Interest in writing is registered only while the socket is full,
// interest in reading is dropped only when bytes really came during a pause: neither costs a system
// call on the usual way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/io.h"
#include "net/handle.h"
#include "net/loop.h"
#include "net/socket.h"

namespace pgweir::net {

enum class SocketState : std::uint8_t { resolving, connecting, open, flushing, closed };

std::string_view to_string(SocketState state) noexcept;

class SocketTransport final : public io::Transport, public LoopUser {
 public:
  /// A transport that does not stand yet: connect() or fail() follows.
  SocketTransport(Loop& loop, io::TransportUser& user, io::Address peer, SocketOptions options);
  /// An accepted socket. `local` is what the listener knows of it; empty means: ask the system.
  SocketTransport(Loop& loop, io::TransportUser& user, Fd socket, io::Address peer,
                  std::optional<io::Address> local, std::int64_t peer_uid);
  ~SocketTransport() override;

  /// Tries the addresses one after another; the first that answers stands. Once, in `resolving`.
  void connect(std::vector<SocketAddress> candidates) noexcept;
  /// Bytes are there already: they are read before the next turn, without a wait for the loop to say so.
  void expect_bytes() noexcept;
  /// Ends a transport that never stood: on_closed() follows before the next turn.
  /// `at`: what dial_failure() says from now on.
  void fail(Error why, io::DialFailure at) noexcept;

  void send(Bytes bytes) noexcept override;
  bool congested() const noexcept override { return congested_; }
  void pause(bool on) noexcept override;
  void close() noexcept override;
  io::Address peer() const override { return peer_; }
  io::Address local() const override;
  std::int64_t peer_uid() const noexcept override { return peer_uid_; }
  void hand_to(io::TransportUser& user) noexcept override { user_ = &user; }

  void flush() noexcept override;
  void deliver() noexcept override;
  void give_up_closing() noexcept override;

  SocketState state() const noexcept { return state_; }
  io::DialFailure dial_failure() const noexcept override { return dial_failure_; }
  const SocketOptions& options() const noexcept { return options_; }

 private:
  /// Sends up to this size are copied and gathered; larger ones are cheaper to write than to copy.
  static constexpr std::size_t kGatherBytesMax = std::size_t{8} * 1024;
  /// Reads of one readiness: one busy peer must not keep the others waiting.
  static constexpr int kReadsMax = 4;
  /// A receive queue is bounded, so is what can come after the peer is gone.
  static constexpr int kLastReadsMax = 1024;
  static constexpr std::chrono::seconds kFlushTime{5};

  enum class Reading : std::uint8_t { more, drained, ended };

  void enter(SocketState to) noexcept { state_ = to; }
  bool start_watching() noexcept;
  void watch() noexcept;
  void on_poll(int status, int events) noexcept;

  void try_next_address() noexcept;
  void finish_connecting() noexcept;

  void read(int reads_max) noexcept;
  Reading read_once() noexcept;
  void write_now(Bytes bytes) noexcept;
  std::size_t write_some(Bytes first, Bytes second) noexcept;
  void keep(Bytes bytes) { kept_.append(bytes); }
  void write_kept() noexcept;
  void writing_broke(int error) noexcept;

  void release_socket() noexcept;
  void drop_gathered() noexcept;
  void end(Error why) noexcept;
  void end_with_notice(Error why) noexcept;

  Loop& loop_;
  io::TransportUser* user_;
  Fd socket_;
  Handle<uv_poll_t> poll_;
  SocketState state_;
  io::DialFailure dial_failure_ = io::DialFailure::none;
  int interest_ = 0;
  bool paused_ = false;
  bool reading_dropped_ = false;
  bool congested_ = false;
  bool writing_broken_ = false;
  bool bytes_expected_ = false;

  std::unique_ptr<Block> gathered_;
  std::size_t gathered_bytes_ = 0;
  std::string kept_;
  std::size_t kept_sent_ = 0;

  SocketOptions options_;
  io::Address peer_;
  std::optional<io::Address> local_;
  std::int64_t peer_uid_ = -1;
  std::vector<SocketAddress> candidates_;  ///< not tried yet, the next one at the back
  std::optional<Error> why_;
};

}  // namespace pgweir::net
