#include "net/transport.h"

#include <netinet/in.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace pgweir::net {

std::string_view to_string(SocketState state) noexcept {
  switch (state) {
    case SocketState::resolving:
      return "resolving";
    case SocketState::connecting:
      return "connecting";
    case SocketState::open:
      return "open";
    case SocketState::flushing:
      return "flushing";
    case SocketState::closed:
      return "closed";
  }
  return "?";
}

SocketTransport::SocketTransport(Loop& loop, io::TransportUser& user, io::Address peer,
                                 SocketOptions options)
    : loop_(loop),
      user_(&user),
      state_(SocketState::resolving),
      options_(options),
      peer_(std::move(peer)) {}

SocketTransport::SocketTransport(Loop& loop, io::TransportUser& user, Fd socket, io::Address peer,
                                 std::optional<io::Address> local, std::int64_t peer_uid)
    : loop_(loop),
      user_(&user),
      socket_(std::move(socket)),
      state_(SocketState::open),
      peer_(std::move(peer)),
      local_(std::move(local)),
      peer_uid_(peer_uid) {
  if (start_watching()) {
    watch();
  } else {
    end_with_notice(Error("the loop can't watch the socket"));
  }
}

SocketTransport::~SocketTransport() {
  drop_gathered();
  release_socket();
  loop_.forget(*this);
}

// ---- connecting

void SocketTransport::connect(std::vector<SocketAddress> candidates) noexcept {
  ENSURE(state_ == SocketState::resolving);
  candidates_.assign(candidates.rbegin(), candidates.rend());
  if (candidates_.empty()) {
    fail(Error(concat({"resolve ", peer_.host, ": no address"})), io::DialFailure::name);
    return;
  }
  enter(SocketState::connecting);
  try_next_address();
}

void SocketTransport::expect_bytes() noexcept {
  bytes_expected_ = true;
  loop_.notice(*this);
}

void SocketTransport::fail(Error why, io::DialFailure at) noexcept {
  dial_failure_ = at;
  end_with_notice(std::move(why));
}

void SocketTransport::try_next_address() noexcept {
  int error = 0;
  while (!candidates_.empty()) {
    const SocketAddress address = candidates_.back();
    candidates_.pop_back();
    release_socket();
    socket_ = Fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) {
      error = errno;
      continue;
    }
    if (address.family() != AF_UNIX) {
      apply(options_, socket_.get());
      // The IP that is tried, so that SHOW SERVERS and the log name the machine, not the name.
      peer_.host = to_address(address).host;
    }
    if (::connect(socket_.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
      error = errno;
      continue;
    }
    if (!start_watching()) {
      error = EBADF;
      continue;
    }
    watch();
    return;
  }
  fail(Error(concat({"connect to ", to_string(peer_), ": ", error_text(error)})), io::DialFailure::connect);
}

void SocketTransport::finish_connecting() noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) {
    if (!candidates_.empty()) {
      try_next_address();
    } else {
      dial_failure_ = io::DialFailure::connect;
      end(Error(concat({"connect to ", to_string(peer_), ": ", error_text(error)})));
    }
    return;
  }
  candidates_.clear();
  candidates_.shrink_to_fit();
  enter(SocketState::open);
  watch();
  user_->on_connected();
  if (state_ == SocketState::open && !kept_.empty()) write_kept();
}

// ---- watching

bool SocketTransport::start_watching() noexcept {
  interest_ = 0;
  poll_ = make_handle<uv_poll_t>(
      this, [this](uv_poll_t* poll) { return uv_poll_init(loop_.uv(), poll, socket_.get()); });
  return poll_ != nullptr;
}

/// Registers what the state wants to hear of; a system call only when that changed.
void SocketTransport::watch() noexcept {
  if (!poll_) return;
  int wanted = 0;
  switch (state_) {
    case SocketState::resolving:
    case SocketState::closed:
      break;
    case SocketState::connecting:
    case SocketState::flushing:
      wanted = UV_WRITABLE;
      break;
    case SocketState::open:
      if (!reading_dropped_) wanted |= UV_READABLE;
      if (congested_) wanted |= UV_WRITABLE;
      break;
  }
  if (wanted == interest_) return;
  interest_ = wanted;
  if (wanted == 0) {
    uv_poll_stop(poll_.get());
    return;
  }
  uv_poll_start(poll_.get(), wanted, [](uv_poll_t* poll, int status, int events) {
    static_cast<SocketTransport*>(poll->data)->on_poll(status, events);
  });
}

void SocketTransport::on_poll(int status, int events) noexcept {
  if (status < 0) interest_ = 0;  // An error on the socket: libuv has stopped watching it.
  switch (state_) {
    case SocketState::resolving:
    case SocketState::closed:
      return;
    case SocketState::connecting:
      finish_connecting();
      break;
    case SocketState::flushing:
      if (status < 0) {
        end(Error("connection lost while closing"));
      } else {
        write_kept();
      }
      break;
    case SocketState::open:
      if (status < 0) {
        // What the peer sent before it went is still here, usually the reason why.
        reading_dropped_ = false;
        writing_broken_ = true;
        read(kLastReadsMax);
        // A false alarm, if we are still here and no write failed.
        writing_broken_ = why_.has_value();
        watch();
        break;
      }
      if ((events & UV_WRITABLE) != 0 && congested_) write_kept();
      if ((events & UV_READABLE) != 0 && state_ == SocketState::open) {
        if (paused_ && !writing_broken_) {
          reading_dropped_ = true;
          watch();
        } else {
          read(kReadsMax);
        }
      }
      break;
  }
  loop_.flush_staged();
}

void SocketTransport::pause(bool on) noexcept {
  paused_ = on;
  if (on || !reading_dropped_) return;
  reading_dropped_ = false;
  watch();
}

// ---- reading

void SocketTransport::read(int reads_max) noexcept {
  for (int reads = 0; reads < reads_max; ++reads) {
    if (read_once() != Reading::more) return;
    if (state_ != SocketState::open) return;
    if (paused_ && !writing_broken_) return;
  }
}

SocketTransport::Reading SocketTransport::read_once() noexcept {
  const std::span<char> buffer = loop_.read_buffer();
  ssize_t got = 0;
  do {
    got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    const auto size = static_cast<std::size_t>(got);
    const bool broken = writing_broken_;
    user_->on_bytes(Bytes(buffer.data(), size));
    loop_.flush_staged();
    // Less than asked for means the queue is empty: asking again would only cost the call. After
    // the peer broke off, the end of the stream has to be seen too.
    return size == buffer.size() || broken ? Reading::more : Reading::drained;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Reading::drained;
  if (why_) {
    end(*std::move(why_));
  } else {
    end(Error(got == 0 ? std::string("connection closed by the peer") : error_text(errno)));
  }
  return Reading::ended;
}

// ---- writing

void SocketTransport::send(Bytes bytes) noexcept {
  if (bytes.empty() || writing_broken_) return;
  switch (state_) {
    case SocketState::resolving:
    case SocketState::connecting:
      keep(bytes);
      return;
    case SocketState::flushing:
    case SocketState::closed:
      return;
    case SocketState::open:
      break;
  }
  if (!kept_.empty()) {
    keep(bytes);
    return;
  }
  if (bytes.size() > kGatherBytesMax || gathered_bytes_ + bytes.size() > Block::kBytes) {
    write_now(bytes);
    return;
  }
  if (!gathered_) gathered_ = loop_.borrow_block();
  std::memcpy(gathered_->bytes.data() + gathered_bytes_, bytes.data(), bytes.size());
  gathered_bytes_ += bytes.size();
  if (!staged_hook.linked) loop_.stage(*this);
}

void SocketTransport::flush() noexcept { write_now({}); }

/// Writes what was gathered and then `bytes`; keeps what the socket does not take.
void SocketTransport::write_now(Bytes bytes) noexcept {
  const Bytes gathered = gathered_ ? Bytes(gathered_->bytes.data(), gathered_bytes_) : Bytes();
  if (gathered.empty() && bytes.empty()) return;
  const std::size_t sent = write_some(gathered, bytes);
  if (!writing_broken_ && sent < gathered.size() + bytes.size()) {
    keep(gathered.substr(std::min(sent, gathered.size())));
    keep(bytes.substr(sent > gathered.size() ? sent - gathered.size() : 0));
    congested_ = true;
    watch();
  }
  drop_gathered();
}

/// Returns how many bytes the socket took of both together.
std::size_t SocketTransport::write_some(Bytes first, Bytes second) noexcept {
  ssize_t sent = 0;
  do {
    if (first.empty() || second.empty()) {
      const Bytes only = first.empty() ? second : first;
      sent = ::send(socket_.get(), only.data(), only.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      iovec pieces[2] = {{const_cast<char*>(first.data()), first.size()},
                         {const_cast<char*>(second.data()), second.size()}};
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno != EAGAIN && errno != EWOULDBLOCK) writing_broke(errno);
  return 0;
}

/// The socket takes bytes again, or stands at last.
void SocketTransport::write_kept() noexcept {
  if (kept_sent_ < kept_.size() && !writing_broken_) {
    kept_sent_ += write_some(Bytes(kept_).substr(kept_sent_), {});
  }
  if (!writing_broken_ && kept_sent_ < kept_.size()) {
    // What goes on being appended must not drag along what went out long ago.
    if (kept_sent_ >= Block::kBytes && kept_sent_ * 2 > kept_.size()) {
      kept_.erase(0, kept_sent_);
      kept_sent_ = 0;
    }
    congested_ = true;
    watch();
    return;
  }
  std::string().swap(kept_);
  kept_sent_ = 0;
  if (state_ == SocketState::flushing) {
    end(Error("closed"));
    return;
  }
  const bool was_congested = std::exchange(congested_, false);
  watch();
  if (was_congested) user_->on_drained();
}

/// The read side finds out by itself, and finds first what the peer had to say; this only makes
/// sure that it looks, also during a pause.
void SocketTransport::writing_broke(int error) noexcept {
  writing_broken_ = true;
  why_ = Error(error_text(error));
  std::string().swap(kept_);
  kept_sent_ = 0;
  congested_ = false;
  reading_dropped_ = false;
  if (state_ == SocketState::open) loop_.notice(*this);
}

// ---- the end

void SocketTransport::close() noexcept {
  switch (state_) {
    case SocketState::flushing:
    case SocketState::closed:
      return;
    case SocketState::resolving:
    case SocketState::connecting:
      end_with_notice(Error("closed"));
      return;
    case SocketState::open:
      break;
  }
  loop_.unstage(*this);
  flush();
  if (kept_.empty() || writing_broken_) {
    end_with_notice(Error("closed"));
    return;
  }
  enter(SocketState::flushing);
  watch();
  loop_.close_until(*this, loop_.now() + kFlushTime);
}

void SocketTransport::give_up_closing() noexcept {
  end(Error("closed, the peer did not take all of it"));
}

void SocketTransport::deliver() noexcept {
  if (state_ == SocketState::closed) {
    user_->on_closed(*why_);
    return;
  }
  if (state_ != SocketState::open) return;
  if (std::exchange(bytes_expected_, false) && !paused_ && !writing_broken_) read(kReadsMax);
  // Writing broke: read what is left, and end even if the socket claims that nothing happened.
  if (state_ != SocketState::open || !writing_broken_) return;
  read(kLastReadsMax);
  if (state_ != SocketState::open) return;
  end(why_ ? *std::move(why_) : Error("connection lost"));
}

void SocketTransport::release_socket() noexcept {
  poll_.reset();
  interest_ = 0;
  if (!socket_) return;
  // Unread bytes make close() send a reset, which can overtake our last words at the peer; taking
  // them off the queue lets a last error message arrive.
  if (state_ == SocketState::open || state_ == SocketState::flushing) {
    // Not into the loop's buffer: somebody further up the stack may be looking at it.
    char unread[4096];
    for (int reads = 0; reads < 4 && ::recv(socket_.get(), unread, sizeof unread, MSG_DONTWAIT) > 0;
         ++reads) {
    }
  }
  socket_.reset();
}

void SocketTransport::drop_gathered() noexcept {
  gathered_bytes_ = 0;
  loop_.return_block(std::move(gathered_));
}

/// Ends from within an event of the loop: the user may be called at once.
void SocketTransport::end(Error why) noexcept {
  drop_gathered();
  release_socket();
  enter(SocketState::closed);
  congested_ = false;
  loop_.forget(*this);
  why_ = std::move(why);
  user_->on_closed(*why_);
}

/// Ends from within a call of the user, who is told before the next turn.
void SocketTransport::end_with_notice(Error why) noexcept {
  drop_gathered();
  release_socket();
  enter(SocketState::closed);
  congested_ = false;
  std::string().swap(kept_);
  loop_.forget(*this);
  why_ = std::move(why);
  loop_.notice(*this);
}

io::Address SocketTransport::local() const {
  if (local_) return *local_;
  SocketAddress address;
  address.size = sizeof address.storage;
  if (!socket_ || getsockname(socket_.get(), address.get(), &address.size) != 0) return {};
  return to_address(address);
}

}  // namespace pgweir::net
