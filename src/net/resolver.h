// resolver: host names to addresses, in libuv's thread pool, with a small cache.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/list.h"
#include "net/loop.h"
#include "net/socket.h"

namespace pgweir::net {

/// Who waits for a name. Dying takes him out of the queue.
class NameUser {
 public:
  /// Addresses without a port, in the order to try them. May come from within resolve().
  virtual void on_resolved(const Result<std::vector<SocketAddress>>& found) noexcept = 0;

  ListHook<NameUser> hook;
  List<NameUser, &NameUser::hook>* queue = nullptr;

 protected:
  NameUser() = default;
  ~NameUser() {
    if (queue) queue->remove(*this);
  }
};

class Resolver {
 public:
  explicit Resolver(Loop& loop) : loop_(loop) {}
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  /// How long answers, and failures, are believed.
  void configure(Duration ttl, Duration failure_ttl) noexcept {
    ttl_ = ttl;
    failure_ttl_ = failure_ttl;
  }

  void resolve(const std::string& host, NameUser& user);
  std::vector<io::KnownName> names() const;

 private:
  static constexpr std::size_t kNamesMax = 1024;

  struct Name {
    std::string host;
    Result<std::vector<SocketAddress>> found = Error("not asked yet");
    Time believed_until{};
    List<NameUser, &NameUser::hook> waiting;
    bool asked = false;
  };
  /// Belongs to libuv until its callback; the resolver may be gone by then.
  struct Request {
    uv_getaddrinfo_t uv;
    Resolver* resolver;
    Name* name;
  };

  void ask(Name& name);
  void answered(Name& name, int status, const addrinfo* found) noexcept;
  void forget_old() noexcept;

  Loop& loop_;
  Duration ttl_ = std::chrono::seconds(15);
  Duration failure_ttl_ = std::chrono::seconds(15);
  std::unordered_map<std::string, std::unique_ptr<Name>> names_;
  std::vector<Request*> requests_;
};

}  // namespace pgweir::net
