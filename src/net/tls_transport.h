// tls_transport: an encrypted connection as a transport over a transport. Sessions see no
// difference.
//
//   under.on_bytes ─► [SSL_read] ─► the loop's plain buffer ─► user.on_bytes
//   send ─► gathered for one record ─► [SSL_write] ─► under.send
//
//   handshaking ─► open ─► closed        fail(): an alert goes out, under is closed, the user hears
//   why
//        └───────────┴───────▲
//
// OpenSSL reads from the very bytes that came in and writes to the transport below: no memory is
// kept between, and what an idle connection holds is OpenSSL's own few kilobytes.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <string>

#include "io/io.h"
#include "net/loop.h"
#include "net/tls_context.h"

namespace pgweir::net {

enum class TlsState : std::uint8_t { handshaking, open, closed };

/// What one side wants of the other, besides what the context says.
struct TlsTerms {
  /// No SSLRequest came before: then ALPN has to name the protocol, so that no other one's bytes
  /// are taken for ours.
  bool direct = false;
  std::string server_name = {};   ///< of the server, where we are the client
  std::string session_name = {};  ///< "host:port", under which a session to resume is looked for
};

class TlsTransport final : public io::Transport, private io::TransportUser, public LoopUser {
 public:
  /// Puts itself between `under`, which stands and outlives it, and `user`.
  TlsTransport(Loop& loop, std::shared_ptr<TlsContext> context, io::Transport& under,
               io::TransportUser& user, TlsTerms terms);
  /// The same, with a transport of its own.
  TlsTransport(Loop& loop, std::shared_ptr<TlsContext> context,
               std::unique_ptr<io::Transport> under, io::TransportUser& user, TlsTerms terms);
  ~TlsTransport() override;

  /// Once: begins the handshake; `read` is what has come of it.
  void start(Bytes read) noexcept;

  void send(Bytes bytes) noexcept override;
  bool congested() const noexcept override { return under_.congested(); }
  void pause(bool on) noexcept override { under_.pause(on); }
  void close() noexcept override;
  io::Address peer() const override { return under_.peer(); }
  io::Address local() const override { return under_.local(); }
  std::int64_t peer_uid() const noexcept override { return under_.peer_uid(); }
  void hand_to(io::TransportUser& user) noexcept override { user_ = &user; }
  const io::TlsInfo* tls() const noexcept override { return info_ ? &*info_ : nullptr; }

  TlsState state() const noexcept { return state_; }
  /// Whether the handshake took up an earlier session; once it is done.
  bool resumed() const noexcept { return ssl_ && SSL_session_reused(ssl_.get()) == 1; }

  // LoopUser
  void flush() noexcept override;
  void deliver() noexcept override {}
  void give_up_closing() noexcept override {}

 private:
  /// Larger sends are encrypted where they are instead of being copied together first.
  static constexpr std::size_t kGatherBytesMax = std::size_t{4} * 1024;
  /// What may wait for the end of a handshake.
  static constexpr std::size_t kEarlyBytesMax = std::size_t{1} << 20;

  // io::TransportUser
  void on_bytes(Bytes bytes) noexcept override;
  void on_drained() noexcept override;
  void on_closed(const Error& why) noexcept override;

  void go_on() noexcept;
  bool shake_hands() noexcept;
  std::optional<Error> objection() noexcept;
  void read_records() noexcept;
  void encrypt(Bytes bytes) noexcept;
  void drop_gathered() noexcept;
  void fail(Error why) noexcept;
  std::string handshake_error(int code) noexcept;

  friend struct TlsBio;
  friend struct TlsSessions;

  Loop& loop_;
  std::shared_ptr<TlsContext> context_;
  std::unique_ptr<io::Transport> own_;
  io::Transport& under_;
  io::TransportUser* user_;
  TlsTerms terms_;
  TlsState state_ = TlsState::handshaking;
  Bytes input_;  ///< of the span that came, what OpenSSL has not read yet
  std::string early_;
  std::unique_ptr<Block> gathered_;
  std::size_t gathered_bytes_ = 0;
  std::optional<io::TlsInfo> info_;
  std::optional<Error> why_;
  SslPointer ssl_;  ///< dies before what its BIO reaches for
};

}  // namespace pgweir::net
