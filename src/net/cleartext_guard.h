// cleartext_guard: sees to it that libpq gives no password in clear text to a server that asks for it over a
// connection that is not encrypted. libpq 15 can't be told so.
//
//   libpq ◄──► its descriptor = one end of a socket pair ◄──► guard ◄──► the connection to the server
//
// It lies between from before the first answer until the login has succeeded. What the server says is
// passed on once it is known to be no such request; behind TLS it is none of its business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/handle.h"
#include "net/loop.h"
#include "net/socket.h"

namespace pgweir::net {

/// What the server says during a login, in any pieces: how much of it may be passed on.
class LoginWatch {
 public:
  enum class Next : std::uint8_t { answer_to_ssl_request, message, rest_of_message, anything, nothing };
  explicit LoginWatch(Next next) noexcept : next_(next) {}

  /// Of all that has come and did not pass yet; what is left over is to be asked about again with more.
  std::size_t passes(std::string_view bytes) noexcept;
  /// The password was asked for in clear text, or in a way that libpq may take for that: nothing passes any more.
  bool refuses() const noexcept { return next_ == Next::nothing; }

 private:
  Next next_;
  std::size_t left_of_message_ = 0;
};

class CleartextGuard {
 public:
  explicit CleartextGuard(Loop& loop) : loop_(loop) {}
  CleartextGuard(const CleartextGuard&) = delete;
  CleartextGuard& operator=(const CleartextGuard&) = delete;

  /// Puts itself between `descriptor`, whose number stays libpq's, and its connection, on which nothing has been
  /// read yet. `libpq_has_spoken`: it has asked for encryption, or begun to log in, as `next` says. No handle of
  /// the loop may watch it meanwhile. False: the system has no descriptors left.
  bool stand_between(int descriptor, LoginWatch::Next next, bool libpq_has_spoken) noexcept;
  /// Gives the connection back to libpq's `descriptor`, unless something is still on its way through here.
  bool step_aside(int descriptor) noexcept;
  bool refuses() const noexcept { return watch_.refuses(); }
  /// libpq sees the end of its connection.
  void leave() noexcept;
  /// What the next connection fails of is its own affair.
  void forget() noexcept {
    leave();
    watch_ = LoginWatch(LoginWatch::Next::message);
  }

 private:
  struct End {
    Fd socket;
    Handle<uv_poll_t> poll;  ///< dies before the socket that it watches
    std::string said;        ///< it has said, and is not judged yet
    std::string owed;        ///< is to be said to it
    bool silent = false;     ///< it has closed its side
  };
  static constexpr std::size_t kReadBytes = 16384;

  void pump() noexcept;
  void hear(End& end, const End& other) noexcept;
  void pass(End& from, std::size_t size, End& to) noexcept;
  void watch(End& end, const End& other) noexcept;

  Loop& loop_;
  LoginWatch watch_{LoginWatch::Next::message};
  bool libpq_has_spoken_ = false;
  End server_;
  End libpq_;
};

}  // namespace pgweir::net
