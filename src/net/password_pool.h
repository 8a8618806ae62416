// Password questions for PAM and LDAP, in libuv's thread pool.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "auth/password_checker.h"
#include "base/log.h"
#include "net/loop.h"

namespace pgweir::net {

class PasswordPool final : public auth::PasswordChecker {
 public:
  PasswordPool(Loop& loop, Log& log);
  PasswordPool(const PasswordPool&) = delete;
  PasswordPool& operator=(const PasswordPool&) = delete;
  ~PasswordPool() override;

  std::unique_ptr<auth::PasswordCheck> ask(auth::PasswordQuestion question, auth::PasswordCheckUser& user) override;
  std::unique_ptr<auth::PasswordCheck> account_of(std::int64_t uid, auth::AccountUser& user) override;

 private:
  static constexpr std::size_t kWaitingMax = 1000;

  struct Job;
  class Check;
  /// Jobs of one kind, of which the others are not to hold up each other: who looks at a pooler whose
  /// directory hangs comes by a Unix socket.
  struct Lane {
    std::size_t under_way_max;
    std::string_view what;
    std::deque<std::unique_ptr<Job>> waiting;
    std::vector<Job*> under_way;  ///< libuv's until its callback
  };

  void enqueue(Lane& lane, std::unique_ptr<Job> job);
  void begin_next(Lane& lane);
  void finish(Job& job) noexcept;

  Loop& loop_;
  Log& log_;
  /// Of the pool's four threads: one is left for accounts and names of hosts.
  Lane judges_;
  Lane accounts_;
};

}  // namespace pgweir::net
