// io: the whole outside world of sessions, pooler and monitor, as interfaces only. src/net implements
// them over libuv, the simulator over virtual time. Everything runs on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "io/tls.h"

namespace pgweir::io {

/// Where to connect to, or who connected.
struct Address {
  enum class Kind : std::uint8_t { tcp, unix_socket };

  Kind kind = Kind::tcp;
  std::string host;          ///< Name or IP; for a Unix socket its directory ("@name" is an abstract one).
  std::uint16_t port = 0;    ///< For a Unix socket: the number in .s.PGSQL.<port>.

  bool operator==(const Address&) const = default;
  auto operator<=>(const Address&) const = default;
};

/// What encryption says of a connection, from the moment its handshake is done. The same for both
/// sides: `peer` is the client where we are the server, and the server where we are the client.
struct TlsInfo {
  std::string version;           ///< "TLSv1.3"
  std::string cipher;            ///< "TLS_AES_256_GCM_SHA384"
  std::string server_name;       ///< the name that was asked for in the handshake (SNI); empty without
  bool peer_has_certificate = false;
  /// The peer's certificate leads to an authority that is trusted, and is in time. Nothing else about
  /// the peer may be believed without it.
  bool peer_verified = false;
  std::string peer_common_name;  ///< empty: none, or one that holds a NUL byte
  std::string peer_dn;           ///< the subject as of RFC 2253: "CN=anna,OU=sales"
  /// The hash of the server's certificate for the channel binding tls-server-end-point (RFC 5929): of
  /// ours where we are the server, else of the peer's. Empty when none is defined for its signature.
  std::string server_end_point;
  bool resumed = false;  ///< an earlier session was taken up again

  /// "TLSv1.3/TLS_AES_256_GCM_SHA384", for the log and SHOW.
  std::string text() const { return version + "/" + cipher; }
};

/// What a transport tells its user. Callbacks must not destroy the transport: they note what is to be
/// done and the next turn does it.
class TransportUser {
 public:
  /// A dialled connection stands, encrypted if it was to be. Of accepted ones: the encryption stands.
  virtual void on_connected() noexcept {}
  /// A view of the loop's buffer, valid during the call; keep a copy only of a partial message.
  virtual void on_bytes(Bytes bytes) noexcept = 0;
  /// What was kept for a slow peer has gone out; congested() is false again.
  virtual void on_drained() noexcept = 0;
  /// The connection is gone (peer, network, failed dial, or one's own close). Once, and last.
  virtual void on_closed(const Error& why) noexcept = 0;

 protected:
  ~TransportUser() = default;
};

/// At which step a dial failed, for who tells the steps apart in a word; the cause is in what on_closed() gets.
enum class DialFailure : std::uint8_t { none, name, connect };

/// One connection. Destroying it closes it without a further callback.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Takes all of `bytes`: gathered, and written at the end of the turn or sooner. What the socket does not
  /// take is copied once; the caller keeps that bounded by pausing the source while congested().
  virtual void send(Bytes bytes) noexcept = 0;
  /// The peer is behind: stop reading the other side until on_drained().
  virtual bool congested() const noexcept = 0;
  /// Stops or resumes reading. Advice, not a switch: bytes that are already here may still come.
  virtual void pause(bool on) noexcept = 0;
  /// Sends what was given, then closes. Asynchronous: on_closed() follows.
  virtual void close() noexcept = 0;
  virtual Address peer() const = 0;
  virtual Address local() const = 0;
  /// The user id of the process behind a Unix socket, -1 when not known (TCP).
  virtual std::int64_t peer_uid() const noexcept = 0;
  /// From now on `user` is told, nobody else. For who puts himself between a connection and its user.
  virtual void hand_to(TransportUser& user) noexcept = 0;
  /// Null: not encrypted. Stays the same object until the transport dies.
  virtual const TlsInfo* tls() const noexcept { return nullptr; }
  /// None too where it was accepted, where it ended by one's own close, and where only its encryption failed.
  virtual DialFailure dial_failure() const noexcept { return DialFailure::none; }
};

/// A host name that has been looked up, or is being.
struct KnownName {
  std::string host;
  Duration believed_for{};  ///< zero when it would be looked up anew
  std::vector<std::string> addresses;  ///< none when it does not exist
  bool pending = false;
};

class Dialer {
 public:
  virtual ~Dialer() = default;
  /// What is remembered of names, in their order.
  virtual std::vector<KnownName> names() const { return {}; }
  /// Begins to connect; names are resolved without blocking the loop. on_connected() or on_closed() follows,
  /// never from within this call. Bytes may be sent at once: they go out when the connection stands.
  virtual std::unique_ptr<Transport> dial(const Address& address, TransportUser& user, const DialTls& tls) = 0;
  std::unique_ptr<Transport> dial(const Address& address, TransportUser& user) { return dial(address, user, {}); }
};

class Door;

/// Who takes accepted connections.
class Acceptor {
 public:
  /// Takes the door: admits it (see Door), or destroys it to refuse.
  virtual void on_accepted(std::unique_ptr<Door> door) noexcept = 0;

 protected:
  ~Acceptor() = default;
};

/// An accepted connection whose user is not known yet: admit() turns it into a transport.
class Door {
 public:
  virtual ~Door() = default;
  virtual std::unique_ptr<Transport> admit(TransportUser& user) noexcept = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// "127.0.0.1:6432" or "unix:/tmp/.s.PGSQL.6432", for the log.
  virtual std::string name() const = 0;
  /// Before it is closed without a loss: who comes from now on is taken by another process on the same port, who is
  /// on the way still arrives here. False where that can't be done: close it at once.
  virtual bool turn_away() noexcept { return false; }
  /// Accepts all who stand in the queue now. Closing would reset them.
  virtual void accept_waiting() noexcept {}
};

class Network {
 public:
  virtual ~Network() = default;
  /// Listens until the Listener is destroyed. An error names the address and the cause.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address, Acceptor& acceptor) = 0;

  struct Inherited {
    Address::Kind kind;
    std::unique_ptr<Listener> listener;
  };
  /// The listening sockets that whoever started the process opened for it (socket activation); to be asked once.
  virtual std::vector<Inherited> inherited(Acceptor& acceptor) {
    (void)acceptor;
    return {};
  }
};

class Clock {
 public:
  virtual ~Clock() = default;
  /// Read once per loop turn.
  virtual Time now() const noexcept = 0;
  virtual WallTime wall() const noexcept = 0;
};

/// What the loop drives: turn() is called once after each poll that had events, and when the time it asked for has come.
class Turner {
 public:
  /// Does what was noted; returns when it wants to be called at the latest (kNever: only after events).
  virtual Time turn() noexcept = 0;

 protected:
  ~Turner() = default;
};

}  // namespace pgweir::io
