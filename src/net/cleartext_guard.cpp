#include "net/cleartext_guard.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/bytes.h"

namespace pgweir::net {
namespace {

constexpr std::size_t kHeaderBytes = 5;  // a type and a length that counts itself
/// libpq takes no longer ones for a request to authenticate.
constexpr std::size_t kRequestBytesMax = 2000;
constexpr std::uint32_t kSslRequest = 80877103;
constexpr std::size_t kSslRequestBytes = 8;

enum class Request : std::uint8_t { harmless, success, refused };

/// A whole request to authenticate, `R` and length included. libpq reads of each kind what belongs to it and takes
/// what is behind for the next message, so a length that says otherwise could hide one in it.
Request judge(std::string_view message) noexcept {
  const std::string_view body = message.substr(kHeaderBytes + 4);
  switch (load_u32(message.data() + kHeaderBytes)) {
    case 0:
      return body.empty() ? Request::success : Request::refused;
    case 5:  // md5 and its salt
      return body.size() == 4 ? Request::harmless : Request::refused;
    case 7:  // GSSAPI
      return body.empty() ? Request::harmless : Request::refused;
    case 10: {  // SASL: names, and an empty one behind them
      constexpr std::string_view kEnd("\0\0", 2);
      const std::size_t end = body.find(kEnd);
      return end != std::string_view::npos && end + kEnd.size() == body.size() ? Request::harmless : Request::refused;
    }
    case 8:   // what the exchange of GSSAPI goes on with
    case 11:  // and that of SASL, all of it
    case 12:
      return Request::harmless;
    default:  // 3 is the password in clear text
      return Request::refused;
  }
}

/// Whether bytes wait in the socket to be read.
bool something_waits_in(int descriptor) noexcept {
  int count = 0;
  return ::ioctl(descriptor, FIONREAD, &count) != 0 || count != 0;
}

}  // namespace

std::size_t LoginWatch::passes(std::string_view bytes) noexcept {
  std::size_t passed = 0;
  while (passed < bytes.size()) {
    const std::string_view rest = bytes.substr(passed);
    switch (next_) {
      case Next::answer_to_ssl_request:
        // S is the beginning of TLS, E the first byte of an error, and behind N all goes on unencrypted.
        next_ = rest[0] == 'S' ? Next::anything : Next::message;
        if (rest[0] != 'E') ++passed;
        break;
      case Next::message: {
        if (rest.size() < kHeaderBytes) return passed;
        const std::size_t size = std::size_t{1} + load_u32(rest.data() + 1);
        if (rest[0] != 'R') {
          left_of_message_ = std::max(size, kHeaderBytes);
          next_ = Next::rest_of_message;
          break;
        }
        if (size < kHeaderBytes + 4 || size > kRequestBytesMax) {
          next_ = Next::nothing;
          return passed;
        }
        if (rest.size() < size) return passed;
        const Request request = judge(rest.substr(0, size));
        if (request == Request::refused) {
          next_ = Next::nothing;
          return passed;
        }
        if (request == Request::success) next_ = Next::anything;
        passed += size;
        break;
      }
      case Next::rest_of_message: {
        const std::size_t part = std::min(left_of_message_, rest.size());
        passed += part;
        left_of_message_ -= part;
        if (left_of_message_ == 0) next_ = Next::message;
        break;
      }
      case Next::anything:
        return bytes.size();
      case Next::nothing:
        return passed;
    }
  }
  return passed;
}

bool CleartextGuard::stand_between(int descriptor, LoginWatch::Next next, bool libpq_has_spoken) noexcept {
  leave();
  std::array<int, 2> pair{-1, -1};
  Fd server(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!server || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return false;
  const Fd for_libpq(pair[0]);
  libpq_.socket = Fd(pair[1]);
  if (::dup3(for_libpq.get(), descriptor, O_CLOEXEC) < 0) return false;
  server_.socket = std::move(server);
  watch_ = LoginWatch(next);
  libpq_has_spoken_ = libpq_has_spoken || next != LoginWatch::Next::message;
  for (End* end : {&server_, &libpq_}) {
    end->poll = make_handle<uv_poll_t>(
        this, [&](uv_poll_t* poll) { return uv_poll_init(loop_.uv(), poll, end->socket.get()); });
    if (!end->poll) return false;
  }
  pump();
  return true;
}

bool CleartextGuard::step_aside(int descriptor) noexcept {
  const bool empty = server_.said.empty() && server_.owed.empty() && libpq_.said.empty() && libpq_.owed.empty();
  if (!server_.socket || server_.silent || !empty || something_waits_in(libpq_.socket.get()) ||
      something_waits_in(descriptor))
    return false;
  server_.poll.reset();  // Somebody else is going to watch the connection.
  if (::dup3(server_.socket.get(), descriptor, O_CLOEXEC) < 0) return false;
  leave();
  return true;
}

void CleartextGuard::pump() noexcept {
  hear(libpq_, server_);
  if (!libpq_has_spoken_ && libpq_.said.size() >= kSslRequestBytes) {
    libpq_has_spoken_ = true;
    if (load_u32(libpq_.said.data() + 4) == kSslRequest)
      watch_ = LoginWatch(LoginWatch::Next::answer_to_ssl_request);
  }
  // What the server's first byte means hangs on that, and before it has no reason to speak.
  if (libpq_has_spoken_) {
    pass(libpq_, libpq_.said.size(), server_);
    hear(server_, libpq_);
    pass(server_, watch_.passes(server_.said), libpq_);
    if (refuses()) return leave();
  }
  pass(libpq_, 0, server_);
  watch(server_, libpq_);
  watch(libpq_, server_);
}

/// Reads what has come, unless the other end has enough to do.
void CleartextGuard::hear(End& end, const End& other) noexcept {
  std::array<char, kReadBytes> buffer;
  while (!end.silent && end.said.size() < kReadBytes && other.owed.size() < kReadBytes) {
    const ssize_t got = ::recv(end.socket.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      end.said.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      end.silent = true;
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void CleartextGuard::pass(End& from, std::size_t size, End& to) noexcept {
  to.owed.append(from.said, 0, size);
  from.said.erase(0, size);
  while (!to.owed.empty()) {
    const ssize_t sent = ::send(to.socket.get(), to.owed.data(), to.owed.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) {  // Nobody hears it any more; what it has said itself may still be of interest.
      to.owed.clear();
      return;
    }
    to.owed.erase(0, static_cast<std::size_t>(sent));
  }
  // What is left unjudged will never be complete.
  if (from.silent) (void)::shutdown(to.socket.get(), SHUT_WR);
}

void CleartextGuard::watch(End& end, const End& other) noexcept {
  const bool listens = !end.silent && end.said.size() < kReadBytes && other.owed.size() < kReadBytes;
  const int events = (listens ? UV_READABLE : 0) | (end.owed.empty() ? 0 : UV_WRITABLE);
  if (events == 0) {
    (void)uv_poll_stop(end.poll.get());
  } else {
    (void)uv_poll_start(end.poll.get(), events, [](uv_poll_t* poll, int, int) {
      static_cast<CleartextGuard*>(poll->data)->pump();
    });
  }
}

void CleartextGuard::leave() noexcept {
  for (End* end : {&server_, &libpq_}) {
    end->poll.reset();
    end->socket.reset();
    end->said.clear();
    end->owed.clear();
    end->silent = false;
  }
}

}  // namespace pgweir::net
