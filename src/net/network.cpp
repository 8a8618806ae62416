#include "net/network.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>

#include "base/text.h"
#include "net/handle.h"
#include "net/port_group.h"
#include "net/transport.h"

namespace pgweir::net {
namespace {

/// An accepted socket that nobody has admitted yet; destroying it hangs up.
class SocketDoor final : public io::Door {
 public:
  SocketDoor(Loop& loop, Fd socket, io::Address peer, std::optional<io::Address> local,
             std::int64_t uid, bool has_spoken)
      : loop_(loop),
        socket_(std::move(socket)),
        peer_(std::move(peer)),
        local_(std::move(local)),
        uid_(uid),
        has_spoken_(has_spoken) {}

  std::unique_ptr<io::Transport> admit(io::TransportUser& user) noexcept override {
    auto transport = std::make_unique<SocketTransport>(loop_, user, std::move(socket_), std::move(peer_),
                                                       std::move(local_), uid_);
    if (has_spoken_) transport->expect_bytes();
    return transport;
  }

 private:
  Loop& loop_;
  Fd socket_;
  io::Address peer_;
  std::optional<io::Address> local_;
  std::int64_t uid_;
  bool has_spoken_;
};

/// One listening descriptor with its place in the loop.
class ListeningSocket {
 public:
  /// `defers`: the system lets nobody through before his first bytes.
  ListeningSocket(Loop& loop, Log& log, const SocketOptions& accepted, io::Acceptor& acceptor,
                  Fd socket, io::Address address, bool defers)
      : loop_(loop),
        log_(log),
        accepted_(accepted),
        acceptor_(acceptor),
        socket_(std::move(socket)),
        address_(std::move(address)),
        defers_(defers),
        poll_(make_handle<uv_poll_t>(
            this, [&](uv_poll_t* poll) { return uv_poll_init(loop.uv(), poll, socket_.get()); })),
        pause_(make_handle<uv_timer_t>(
            this, [&](uv_timer_t* timer) { return uv_timer_init(loop.uv(), timer); })) {
    ENSURE(poll_ && pause_);
    resume();
  }

  const io::Address& address() const noexcept { return address_; }

  /// The others on the port get who comes from now on. The system does not say which of the port's
  /// sockets is this one, so each is tried with a connection of our own.
  bool turn_away() noexcept {
    settle_.reset();
    defers_ = false;
    const int off = 0;  // Who has been let wait for his first bytes is let in now.
    (void)setsockopt(socket_.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &off, sizeof off);
    const std::size_t size = group_size(socket_.get());
    for (std::size_t number = 0; size > 1 && number < size; ++number) {
      if (!steer_to(socket_.get(), number)) return false;
      if (probe_comes_in()) return steer_past(socket_.get(), number, size);
    }
    stop_steering(socket_.get());
    return false;
  }

  /// Whoever left the port before may have had connections steered past him: after a while, when he
  /// is gone, all sockets are equal again, and this one gets its share.
  void join_group() {
    settle_ = make_handle<uv_timer_t>(
        this, [&](uv_timer_t* timer) { return uv_timer_init(loop_.uv(), timer); });
    if (!settle_) return;
    uv_timer_start(
        settle_.get(),
        [](uv_timer_t* timer) {
          stop_steering(static_cast<ListeningSocket*>(timer->data)->socket_.get());
        },
        kSettleMs, 0);
  }

  void accept_waiting() noexcept {
    for (int accepts = 0; accepts < kLastAcceptsMax && accept_one(); ++accepts) {
    }
  }

 private:
  /// Bounded, so that a storm of new clients does not starve those who are in.
  static constexpr int kAcceptsMax = 64;
  static constexpr int kLastAcceptsMax = 10'000;
  static constexpr std::uint64_t kPauseMs = 500;
  static constexpr std::uint64_t kSettleMs = 3'000;
  static constexpr int kProbePatienceMs = 10;

  void resume() noexcept {
    (void)uv_poll_start(poll_.get(), UV_READABLE, [](uv_poll_t* poll, int, int) {
      static_cast<ListeningSocket*>(poll->data)->accept_some();
    });
  }

  void accept_some() noexcept {
    for (int accepts = 0; accepts < kAcceptsMax && accept_one(); ++accepts) {
    }
  }

  /// False when there is nothing more to accept now.
  bool accept_one() noexcept {
    SocketAddress from;
    from.size = sizeof from.storage;
    Fd socket(::accept4(socket_.get(), from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      complained_ = false;
      knock(std::move(socket), from);
      return true;
    }
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) rest(errno);
    return false;
  }

  bool probe_comes_in() noexcept {
    const Probe probe = knock_at_own_port(socket_.get());
    if (!probe.connection) return false;
    probe_ = to_address(probe.from);
    pollfd queue{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    while (probe_ && ::poll(&queue, 1, kProbePatienceMs) == 1 && accept_one()) {
    }
    return !std::exchange(probe_, std::nullopt);
  }

  void knock(Fd socket, const SocketAddress& from) noexcept {
    io::Address peer = to_address(from);
    if (probe_ && *probe_ == peer) return probe_.reset();
    std::optional<io::Address> local;
    std::int64_t uid = -1;
    if (address_.kind == io::Address::Kind::unix_socket) {
      ucred who{};
      socklen_t size = sizeof who;
      if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) {
        uid = static_cast<std::int64_t>(who.uid);
        peer.host = concat({"unix(", std::to_string(who.pid), ")"});
      } else {
        peer.host = "unix";
      }
      peer.port = address_.port;
      local = address_;
    } else {
      apply(accepted_, socket.get());
    }
    acceptor_.on_accepted(std::make_unique<SocketDoor>(loop_, std::move(socket), std::move(peer),
                                                       std::move(local), uid, defers_));
  }

  /// Out of descriptors or memory: the waiting connection stays readable, so without a rest the
  /// loop would spin. Said once until an accept works again.
  void rest(int error) noexcept {
    if (!complained_) {
      log_.error(concat({"accept on ", to_string(address_), ": ", error_text(error),
                         "; trying again in a moment"}));
      complained_ = true;
    }
    uv_poll_stop(poll_.get());
    uv_timer_start(
        pause_.get(),
        [](uv_timer_t* timer) { static_cast<ListeningSocket*>(timer->data)->resume(); }, kPauseMs,
        0);
  }

  Loop& loop_;
  Log& log_;
  const SocketOptions& accepted_;
  io::Acceptor& acceptor_;
  Fd socket_;
  io::Address address_;
  bool defers_;
  Handle<uv_poll_t> poll_;
  Handle<uv_timer_t> pause_;
  Handle<uv_timer_t> settle_;
  std::optional<io::Address> probe_;  ///< our own connection, not found in the queue yet
  bool complained_ = false;
};

/// Takes the path of a Unix socket away when the listener goes, unless somebody else put his there.
class SocketPath {
 public:
  explicit SocketPath(std::string path) : path_(std::move(path)) {
    known_ = ::lstat(path_.c_str(), &made_) == 0;
  }
  SocketPath(const SocketPath&) = delete;
  SocketPath& operator=(const SocketPath&) = delete;
  ~SocketPath() {
    struct stat now {};
    if (known_ && ::lstat(path_.c_str(), &now) == 0 && now.st_dev == made_.st_dev &&
        now.st_ino == made_.st_ino) {
      ::unlink(path_.c_str());
    }
  }

 private:
  std::string path_;
  struct stat made_ {};
  bool known_;
};

class SocketListener final : public io::Listener {
 public:
  std::string name() const override {
    std::string names;
    for (const auto& socket : sockets) {
      if (!names.empty()) names += ", ";
      names += to_string(socket->address());
    }
    return names;
  }

  bool turn_away() noexcept override {
    if (!alone) return false;
    for (const auto& socket : sockets) {
      if (!socket->turn_away()) return false;
    }
    return true;
  }

  void accept_waiting() noexcept override {
    for (const auto& socket : sockets) socket->accept_waiting();
  }

  /// Other processes have sockets of their own on this port, and this socket is nobody else's.
  bool alone = false;
  std::unique_ptr<SocketPath> path;
  std::vector<std::unique_ptr<ListeningSocket>> sockets;
};

Error listen_error(const io::Address& address, int error) {
  return Error(concat({"listen on ", to_string(address), ": ", error_text(error)}));
}

/// The addresses to bind for `host`; blocking, which is fine at start.
Result<std::vector<SocketAddress>> addresses_to_bind(const io::Address& address) {
  const bool any = address.host == "*";
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(any ? nullptr : address.host.c_str(), any ? "0" : nullptr, &hints, &found);
  if (failed != 0) {
    return Error(concat({"listen on ", to_string(address), ": ", gai_strerror(failed)}));
  }
  std::vector<SocketAddress> out = all_addresses(found, address.port);
  freeaddrinfo(found);
  return out;
}

/// Directory and port of a Unix socket that somebody else named; its name may have another form.
io::Address passed_unix_address(const SocketAddress& bound) {
  io::Address address{.kind = io::Address::Kind::unix_socket, .host = {}, .port = 0};
  const auto* un = reinterpret_cast<const sockaddr_un*>(&bound.storage);
  std::string path(un->sun_path, bound.size - offsetof(sockaddr_un, sun_path));
  if (!path.empty() && path.front() == '\0') path.front() = '@';
  path = path.c_str();  // A path is followed by a NUL that counts.
  const std::size_t slash = path.rfind("/.s.PGSQL.");
  address.host = slash == std::string::npos ? path : path.substr(0, slash);
  if (slash != std::string::npos) {
    const char* digits = path.c_str() + slash + std::string_view("/.s.PGSQL.").size();
    (void)std::from_chars(digits, path.c_str() + path.size(), address.port);
  }
  return address;
}

/// Whether a process answers at that Unix socket.
bool somebody_answers(const SocketAddress& address) noexcept {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A full queue (EAGAIN) is somebody, too.
  return probe && (::connect(probe.get(), address.get(), address.size) == 0 || errno == EAGAIN);
}

Result<gid_t> group_id(const std::string& group) {
  gid_t id = 0;
  const auto [end, error] = std::from_chars(group.data(), group.data() + group.size(), id);
  if (error == std::errc() && end == group.data() + group.size()) return id;
  if (const struct group* entry = ::getgrnam(group.c_str())) return entry->gr_gid;
  return Error(concat({"unix_socket_group = \"", group, "\": no such group"}));
}

}  // namespace

Result<std::unique_ptr<io::Listener>> SocketNetwork::listen(const io::Address& address,
                                                            io::Acceptor& acceptor) {
  auto listener = std::make_unique<SocketListener>();
  const auto add = [&](Fd socket, io::Address bound) {
    listener->sockets.push_back(std::make_unique<ListeningSocket>(
        loop_, log_, accepted_, acceptor, std::move(socket), std::move(bound), listening_.defer_accept && address.kind == io::Address::Kind::tcp));
  };
  if (address.kind == io::Address::Kind::unix_socket) {
    Result<Fd> socket = open_unix(address);
    if (!socket) return socket.error();
    if (address.host.front() != '@')
      listener->path = std::make_unique<SocketPath>(unix_path(address));
    add(*std::move(socket), address);
    return std::unique_ptr<io::Listener>(std::move(listener));
  }
  Result<std::vector<SocketAddress>> addresses = addresses_to_bind(address);
  if (!addresses) return addresses.error();
  listener->alone = listening_.reuse_port;
  std::vector<Error> refused;
  for (const SocketAddress& candidate : *addresses) {
    Result<Fd> socket = open_tcp(candidate);
    if (!socket) {
      refused.push_back(socket.error());
      continue;
    }
    SocketAddress bound;
    bound.size = sizeof bound.storage;
    const bool named = getsockname(socket->get(), bound.get(), &bound.size) == 0;
    add(*std::move(socket), to_address(named ? bound : candidate));
  }
  if (listener->sockets.empty()) {
    return refused.empty() ? Error("no address to listen on") : refused.back();
  }
  if (listening_.reuse_port) {
    for (const auto& socket : listener->sockets) socket->join_group();
  }
  // A machine without IPv6 is no reason not to serve IPv4.
  for (const Error& error : refused) log_.warning(error.text());
  return std::unique_ptr<io::Listener>(std::move(listener));
}

std::vector<io::Network::Inherited> SocketNetwork::inherited(io::Acceptor& acceptor) {
  std::vector<Inherited> listeners;
  for (Fd& socket : std::exchange(passed_, {})) {
    SocketAddress bound;
    bound.size = sizeof bound.storage;
    int type = 0;
    int listens = 0;
    socklen_t size = sizeof type;
    const bool usable =
        getsockname(socket.get(), bound.get(), &bound.size) == 0 &&
        (bound.family() == AF_INET || bound.family() == AF_INET6 || bound.family() == AF_UNIX) &&
        getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
        getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) == 0;
    if (!usable) {
      log_.warning(concat({"descriptor ", std::to_string(socket.get()),
                           " from the service manager is not used: expected a listening stream "
                           "socket, TCP or Unix"}));
      continue;
    }
    io::Address address = to_address(bound);
    if (address.kind == io::Address::Kind::unix_socket) address = passed_unix_address(bound);
    auto listener = std::make_unique<SocketListener>();
    listener->sockets.push_back(std::make_unique<ListeningSocket>(loop_, log_, accepted_, acceptor,
                                                                  std::move(socket), address, false));
    listeners.push_back({address.kind, std::move(listener)});
  }
  return listeners;
}

Result<Fd> SocketNetwork::open_tcp(const SocketAddress& address) const {
  const io::Address name = to_address(address);
  Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return listen_error(name, errno);
  const int on = 1;
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6)
    (void)setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (listening_.reuse_port &&
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
    return listen_error(name, errno);
  }
  if (listening_.defer_accept)
    (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.size) != 0 ||
      ::listen(socket.get(), listening_.backlog) != 0) {
    return listen_error(name, errno);
  }
  return socket;
}

Result<Fd> SocketNetwork::open_unix(const io::Address& address) const {
  if (address.host.empty()) return Error("unix_socket_dir is empty: expected a directory or @name");
  Result<SocketAddress> where = unix_address(address);
  if (!where) return where.error();
  const std::string path = unix_path(address);
  const bool in_file_system = path.front() != '@';
  if (in_file_system) {
    if (somebody_answers(*where)) return Error("unix socket is in use, cannot continue: " + path);
    ::unlink(path.c_str());  // Left behind by a process that died; when there is none, this does
                             // nothing.
  }
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return listen_error(address, errno);
  if (::bind(socket.get(), where->get(), where->size) != 0) return listen_error(address, errno);
  if (in_file_system) {
    // Mode and group before listen(): nobody may get in under the wrong ones.
    if (!listening_.unix_socket_group.empty()) {
      Result<gid_t> group = group_id(listening_.unix_socket_group);
      if (!group) return group.error();
      if (::chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0)
        return listen_error(address, errno);
    }
    if (::chmod(path.c_str(), static_cast<mode_t>(listening_.unix_socket_mode)) != 0) {
      return listen_error(address, errno);
    }
  }
  if (::listen(socket.get(), listening_.backlog) != 0) return listen_error(address, errno);
  return socket;
}

}  // namespace pgweir::net
