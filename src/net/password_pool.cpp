#include "net/password_pool.h"

#include <pwd.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "net/password_judges.h"

namespace pgweir::net {
namespace {

void forget(std::string& secret) noexcept {
  explicit_bzero(secret.data(), secret.size());
  secret.clear();
}

}  // namespace

struct PasswordPool::Job {
  uv_work_t uv{};
  PasswordPool* pool = nullptr;  ///< null: the pool is gone
  Check* check = nullptr;        ///< null: nobody wants to know any more
  auth::PasswordQuestion question;
  Judgement judgement;

  ~Job() { clear(); }
  void clear() noexcept {
    forget(question.password);
    if (question.ldap) forget(question.ldap->bind_password);
  }
};

class PasswordPool::Check final : public auth::PasswordCheck {
 public:
  Check(Job& job, auth::PasswordCheckUser& user) : job_(&job), user_(user) {}
  ~Check() override {
    if (job_) job_->check = nullptr;
  }
  void answer(const Status& verdict) noexcept {
    job_ = nullptr;
    user_.on_checked(verdict);
  }
  void orphan() noexcept { job_ = nullptr; }

 private:
  Job* job_;
  auth::PasswordCheckUser& user_;
};

PasswordPool::PasswordPool(Loop& loop, Log& log) : loop_(loop), log_(log) {}

PasswordPool::~PasswordPool() {
  for (Job* job : under_way_) {
    if (job->check) job->check->orphan();
    job->check = nullptr;
    job->pool = nullptr;
    (void)uv_cancel(reinterpret_cast<uv_req_t*>(&job->uv));
  }
  for (const auto& job : waiting_) {
    if (job->check) job->check->orphan();
  }
}

std::unique_ptr<auth::PasswordCheck> PasswordPool::ask(auth::PasswordQuestion question, auth::PasswordCheckUser& user) {
  auto job = std::make_unique<Job>();
  job->pool = this;
  job->question = std::move(question);
  auto check = std::make_unique<Check>(*job, user);
  job->check = check.get();
  // Beyond the bound nobody is forgotten: who has waited for longest has most likely left.
  std::erase_if(waiting_, [](const auto& old) { return old->check == nullptr; });
  if (waiting_.size() >= kWaitingMax) {
    log_.warning("more than 1000 logins wait for PAM or LDAP: the oldest has to wait for its time-out");
    if (waiting_.front()->check) waiting_.front()->check->orphan();
    waiting_.pop_front();
  }
  waiting_.push_back(std::move(job));
  begin_next();
  return check;
}

void PasswordPool::begin_next() {
  while (under_way_.size() < kUnderWayMax && !waiting_.empty()) {
    std::unique_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    if (!job->check) continue;  // The client has left.
    job->uv.data = job.get();
    under_way_.push_back(job.get());
    const int status = uv_queue_work(
        loop_.uv(), &job->uv,
        [](uv_work_t* uv) {
          Job& todo = *static_cast<Job*>(uv->data);
          todo.judgement = todo.question.ldap ? judge_by_ldap(todo.question) : judge_by_pam(todo.question);
          todo.clear();
        },
        [](uv_work_t* uv, int) {
          const std::unique_ptr<Job> done(static_cast<Job*>(uv->data));
          if (done->pool) done->pool->finish(*done);
        });
    ENSURE(status == 0);
    (void)job.release();
  }
}

void PasswordPool::finish(Job& job) noexcept {
  std::erase(under_way_, &job);
  if (!job.judgement.for_log.empty()) log_.warning(job.judgement.for_log);
  if (job.check) job.check->answer(job.judgement.right ? Status() : Status(Error("28P01", job.judgement.for_client)));
  begin_next();
}

std::optional<std::string> PasswordPool::account_of(std::int64_t uid) {
  if (const auto known = accounts_.find(uid); known != accounts_.end()) return known->second;
  std::array<char, 16384> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) != 0 || !found) return std::nullopt;
  if (accounts_.size() >= kAccountsMax) accounts_.clear();
  return accounts_[uid] = found->pw_name;
}

}  // namespace pgweir::net
