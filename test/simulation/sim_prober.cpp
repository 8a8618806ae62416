#include "sim_prober.h"

#include <algorithm>

#include "base/text.h"
#include "sim_catalog.h"

namespace pgweir::sim {

class SimProbe final : public monitor::Probe {
 public:
  SimProbe(SimProber& prober, io::Address address, monitor::ProbeUser& user)
      : prober_(prober),
        address_(std::move(address)),
        alive_(std::make_shared<bool>(true)),
        user_(user) {}
  ~SimProbe() override { *alive_ = false; }

  void ask(std::uint64_t question, std::string_view sql, Time deadline) override {
    put(question, sql, deadline, false);
  }
  void ask_by_row(std::uint64_t question, std::string_view sql, Time deadline) override {
    put(question, sql, deadline, true);
  }
  bool connected() const noexcept override { return connected_; }

 private:
  void put(std::uint64_t question, std::string_view sql, Time deadline, bool by_row) {
    SimLoop& loop = prober_.cluster_.loop();
    const bool late = sql.find("pg_current_wal_insert_lsn") != std::string_view::npos && sql.find("concat(") != std::string_view::npos &&
                      prober_.dice_.chance(prober_.late_captures);
    if (late && prober_.dice_.chance(100)) return time_out(question, deadline);
    if (late) return put_late(question, sql);
    // Answers come in the order of the questions.
    const Time when = std::max(
        last_answer_, loop.now() + prober_.dice_.between(Duration{150}, prober_.delay_max));
    last_answer_ = when;
    if (prober_.cluster_.network().hangs(address_.host)) return time_out(question, deadline);
    loop.at(when, [this, alive = alive_, question, by_row, text = std::string(sql)] {
      if (!*alive) return;
      Result<monitor::Rows> rows = answer(text);
      if (by_row && rows) {
        for (const monitor::ProbeRow& row : *rows) user_.on_row(question, row);
        rows = monitor::Rows();
      }
      tell(alive, question, std::move(rows));
    });
  }
  void time_out(std::uint64_t question, Time deadline) {
    prober_.cluster_.loop().at(deadline, [this, alive = alive_, question] {
      if (*alive) tell(alive, question, Error("timed out"));
    });
  }
  void put_late(std::uint64_t question, std::string_view sql) {
    SimLoop& loop = prober_.cluster_.loop();
    const Time asked = std::max(last_answer_, loop.now() + prober_.dice_.between(Duration{150}, prober_.delay_max));
    last_answer_ = asked + prober_.dice_.between(Duration{1000}, Duration{300'000});
    loop.at(asked, [this, alive = alive_, question, when = last_answer_, text = std::string(sql)] {
      if (!*alive) return;
      prober_.cluster_.loop().at(when, [this, alive, question, rows = answer(text)] {
        if (*alive) tell(alive, question, rows);
      });
    });
  }
  Result<monitor::Rows> answer(const std::string& sql) {
    std::string host = address_.host;
    if (const auto redirect = prober_.redirects.find(host); redirect != prober_.redirects.end())
      host = redirect->second;
    SimNode* node = prober_.cluster_.find(host);
    connected_ = node && node->up();
    if (!connected_) return Error(concat({"connection to ", host, " failed: Connection refused"}));
    if (node->habits.refuses_logins) return Error("28P01", "password authentication failed");
    std::optional<monitor::Rows> rows = system_answer(*node, sql);
    if (!rows) {
      prober_.cluster_.truth().fail("the monitor asks what no simulated node knows: " + sql);
      return Error("42601", "syntax error");
    }
    return *std::move(rows);
  }

  void tell(const std::shared_ptr<bool>& alive, std::uint64_t question,
            Result<monitor::Rows> rows) {
    if (!*alive) return;
    prober_.cluster_.loop().touch();
    user_.on_answer(question, std::move(rows));
  }

  SimProber& prober_;
  io::Address address_;
  std::shared_ptr<bool> alive_;
  monitor::ProbeUser& user_;
  Time last_answer_{};
  bool connected_ = false;
};

std::unique_ptr<monitor::Probe> SimProber::probe(const io::Address& node, const monitor::Login&,
                                                 monitor::ProbeUser& user) {
  return std::make_unique<SimProbe>(*this, node, user);
}

}  // namespace pgweir::sim
