#include "net/password_pool.h"

#include <pwd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "net/password_judges.h"

namespace pgweir::net {
namespace {

/// The system's accounts may be kept far away: on a thread only.
std::optional<std::string> name_of_account(std::int64_t uid) {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  int failed = 0;
  while ((failed = getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < std::size_t{1} << 22)
    buffer.resize(buffer.size() * 2);
  if (failed != 0 || !found) return std::nullopt;
  return found->pw_name;
}

}  // namespace

struct PasswordPool::Job {
  uv_work_t uv{};
  PasswordPool* pool = nullptr;  ///< null: the pool is gone
  Lane* lane = nullptr;
  Check* check = nullptr;        ///< null: nobody wants to know any more
  auth::PasswordQuestion question;
  Judgement judgement;
  std::int64_t uid = -1;         ///< not -1: whose account is asked for
  std::optional<std::string> account;
};

class PasswordPool::Check final : public auth::PasswordCheck {
 public:
  Check(Job& job, auth::PasswordCheckUser* user, auth::AccountUser* account_user)
      : job_(&job), user_(user), account_user_(account_user) {}
  ~Check() override {
    if (job_) job_->check = nullptr;
  }
  void answer(Job& job) noexcept {
    job_ = nullptr;
    if (account_user_) return account_user_->on_account(std::move(job.account));
    user_->on_checked(job.judgement.right ? Status() : Status(Error("28P01", job.judgement.for_client)));
  }
  void orphan() noexcept { job_ = nullptr; }

 private:
  Job* job_;
  auth::PasswordCheckUser* user_;     ///< null where an account is asked for
  auth::AccountUser* account_user_;
};

PasswordPool::PasswordPool(Loop& loop, Log& log)
    : loop_(loop),
      log_(log),
      judges_{.under_way_max = 3, .what = "PAM or LDAP", .waiting = {}, .under_way = {}},
      accounts_{.under_way_max = 1, .what = "the name of an account", .waiting = {}, .under_way = {}} {}

PasswordPool::~PasswordPool() {
  for (Lane* lane : {&judges_, &accounts_}) {
    for (Job* job : lane->under_way) {
      if (job->check) job->check->orphan();
      job->check = nullptr;
      job->pool = nullptr;
      (void)uv_cancel(reinterpret_cast<uv_req_t*>(&job->uv));
    }
    for (const auto& job : lane->waiting) {
      if (job->check) job->check->orphan();
    }
  }
}

std::unique_ptr<auth::PasswordCheck> PasswordPool::ask(auth::PasswordQuestion question, auth::PasswordCheckUser& user) {
  auto job = std::make_unique<Job>();
  job->question = std::move(question);
  auto check = std::make_unique<Check>(*job, &user, nullptr);
  job->check = check.get();
  enqueue(judges_, std::move(job));
  return check;
}

std::unique_ptr<auth::PasswordCheck> PasswordPool::account_of(std::int64_t uid, auth::AccountUser& user) {
  auto job = std::make_unique<Job>();
  job->uid = uid;
  auto check = std::make_unique<Check>(*job, nullptr, &user);
  job->check = check.get();
  enqueue(accounts_, std::move(job));
  return check;
}

void PasswordPool::enqueue(Lane& lane, std::unique_ptr<Job> job) {
  job->pool = this;
  job->lane = &lane;
  // Beyond the bound nobody is forgotten: who has waited for longest has most likely left.
  std::erase_if(lane.waiting, [](const auto& old) { return old->check == nullptr; });
  if (lane.waiting.size() >= kWaitingMax) {
    log_.warning(concat({"more than 1000 logins wait for ", lane.what, ": the oldest has to wait for its time-out"}));
    if (lane.waiting.front()->check) lane.waiting.front()->check->orphan();
    lane.waiting.pop_front();
  }
  lane.waiting.push_back(std::move(job));
  begin_next(lane);
}

void PasswordPool::begin_next(Lane& lane) {
  while (lane.under_way.size() < lane.under_way_max && !lane.waiting.empty()) {
    std::unique_ptr<Job> job = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    if (!job->check) continue;  // The client has left.
    job->uv.data = job.get();
    lane.under_way.push_back(job.get());
    const int status = uv_queue_work(
        loop_.uv(), &job->uv,
        [](uv_work_t* uv) {
          Job& todo = *static_cast<Job*>(uv->data);
          if (todo.uid >= 0) {
            todo.account = name_of_account(todo.uid);
          } else {
            todo.judgement = todo.question.ldap ? judge_by_ldap(todo.question) : judge_by_pam(todo.question);
          }
          todo.question.forget();
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
  Lane& lane = *job.lane;
  std::erase(lane.under_way, &job);
  if (!job.judgement.for_log.empty()) log_.warning(job.judgement.for_log);
  if (job.check) job.check->answer(job);
  begin_next(lane);
}

}  // namespace pgweir::net
