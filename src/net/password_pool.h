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
  std::optional<std::string> account_of(std::int64_t uid) override;

 private:
  /// Of the pool's four threads: one is left for names of hosts.
  static constexpr std::size_t kUnderWayMax = 3;
  static constexpr std::size_t kWaitingMax = 1000;
  static constexpr std::size_t kAccountsMax = 1000;

  struct Job;
  class Check;

  void begin_next();
  void finish(Job& job) noexcept;

  Loop& loop_;
  Log& log_;
  std::deque<std::unique_ptr<Job>> waiting_;
  std::vector<Job*> under_way_;  ///< libuv's until its callback
  std::unordered_map<std::int64_t, std::string> accounts_;
};

}  // namespace pgweir::net
