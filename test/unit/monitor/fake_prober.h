// Nodes that a test sets up and the monitor asks; nothing happens but when the test says so.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "monitor/prober.h"
#include "monitor/queries.h"
#include "routing/catalog_queries.h"
#include "tokens/lsn.h"

namespace pgweir::monitor {

constexpr Time at_ms(int ms) {
  return Time{std::chrono::seconds{1000} + std::chrono::milliseconds{ms}};
}

struct FakeNode {
  bool in_recovery = false;
  std::uint64_t lsn = 0x1000100;
  std::uint32_t timeline = 1;
  bool timeline_certain = true;
  std::string system_id = "7";
  std::string started_at = "100/100";
  std::string configured_at = "100";
  std::string time_zone = "UTC";
  Rows catalog;
  std::optional<Error> error;  ///< Answered to everything.
  std::optional<Error> settings_error;
  bool silent = false;  ///< Does not answer at all.

  Rows poll() const {
    const std::string lsn_text = tokens::to_string(tokens::Lsn{lsn});
    return {{in_recovery ? "t" : "f", lsn_text,
             in_recovery ? std::optional(lsn_text) : std::nullopt, system_id,
             std::to_string(timeline), timeline_certain ? "t" : "f", started_at, "8192", "16777216",
             configured_at}};
  }
  Result<Rows> answer(std::string_view sql) const {
    if (error) return *error;
    if (sql == kPollQuery) return poll();
    if (sql == kSettingsQuery && settings_error) return *settings_error;
    if (sql == kSettingsQuery) return Rows{{"TimeZone", time_zone}, {"server_version", "15"}};
    if (sql == kCaptureQuery) {
      if (in_recovery) return Rows{{"t", std::nullopt, started_at}};
      return Rows{{"f", tokens::to_string(tokens::Lsn{lsn}), started_at}};
    }
    if (sql.find(routing::kCatalogQuery) != std::string_view::npos) return catalog;
    return Error("the fake node does not know this question");
  }
};

class FakeProber final : public Prober {
 public:
  struct Asked {
    std::string host;
    std::string sql;
    std::uint64_t question;
    ProbeUser* user;
    const void* probe;
    bool by_row = false;
  };

  std::unique_ptr<Probe> probe(const io::Address& node, const Login&, ProbeUser& user) override {
    return std::make_unique<FakeProbe>(*this, node.host, user);
  }

  /// Answers what was asked until now; with `only`, just that question.
  void answer_all(std::string_view only = {}) {
    std::vector<Asked> asked = std::move(asked_);
    asked_.clear();
    for (Asked& one : asked) {
      const FakeNode& node = nodes[one.host];
      if (node.silent || (!only.empty() && one.sql.find(only) == std::string::npos)) {
        asked_.push_back(std::move(one));
        continue;
      }
      Result<Rows> answer = node.answer(one.sql);
      if (one.by_row && answer) {
        for (const ProbeRow& row : *answer) one.user->on_row(one.question, row);
        answer = Rows();
      }
      one.user->on_answer(one.question, std::move(answer));
    }
  }
  std::size_t count(std::string_view host, std::string_view sql) const {
    return static_cast<std::size_t>(
        std::count_if(asked_.begin(), asked_.end(), [&](const Asked& one) {
          return one.host == host && one.sql.find(sql) != std::string::npos;
        }));
  }

  const Asked& last_asked(std::string_view host) const {
    return *std::find_if(asked_.rbegin(), asked_.rend(),
                         [host](const Asked& one) { return one.host == host; });
  }

  std::map<std::string, FakeNode, std::less<>> nodes;
  std::vector<Asked> asked_;
  std::size_t asked_in_all = 0;

 private:
  class FakeProbe final : public Probe {
   public:
    FakeProbe(FakeProber& prober, std::string host, ProbeUser& user)
        : prober_(prober), host_(std::move(host)), user_(user) {}
    ~FakeProbe() override {
      std::erase_if(prober_.asked_, [this](const Asked& one) { return one.probe == this; });
    }
    void ask(std::uint64_t question, std::string_view sql, Time) override {
      ++prober_.asked_in_all;
      prober_.asked_.push_back({host_, std::string(sql), question, &user_, this});
    }
    void ask_by_row(std::uint64_t question, std::string_view sql, Time deadline) override {
      ask(question, sql, deadline);
      prober_.asked_.back().by_row = true;
    }
    bool connected() const noexcept override { return true; }

   private:
    FakeProber& prober_;
    std::string host_;
    ProbeUser& user_;
  };
};

class FakeLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message) noexcept override {
    if (level != LogLevel::debug) lines.emplace_back(message);
  }
  bool wants(LogLevel) const noexcept override { return true; }
  std::size_t count(std::string_view part) const {
    return static_cast<std::size_t>(std::count_if(
        lines.begin(), lines.end(),
        [part](const std::string& line) { return line.find(part) != std::string::npos; }));
  }

  std::vector<std::string> lines;
};

}  // namespace pgweir::monitor
