// Monitor: asks every node of one cluster who it is and how far, and says what it saw as a
// ClusterView; asks the primary for its insert LSN when a group capture wants one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "monitor/cluster_model.h"
#include "monitor/prober.h"
#include "routing/cluster_view.h"

namespace pgweir::monitor {

/// Who asked for a capture.
class CaptureUser {
 public:
  /// The answer, from within Monitor::turn(): `covers` is contained in `lsn`. No LSN: the primary
  /// did not answer, or is not who it was when the question went out.
  virtual void on_captured(std::uint64_t covers, std::optional<tokens::Lsn> lsn) noexcept = 0;

 protected:
  ~CaptureUser() = default;
};

struct MonitorOptions {
  Duration poll_interval = std::chrono::milliseconds{200};
  Duration fast_interval = std::chrono::milliseconds{5};  ///< While somebody waits, at first.
  Duration answer_timeout =
      std::chrono::seconds{2};  ///< To connect and answer; past it the node is down.
  Duration retry_min =
      std::chrono::milliseconds{200};            ///< A node that is down is asked again after this,
  Duration retry_max = std::chrono::seconds{5};  ///< doubled each time up to this.
  Duration settings_interval = std::chrono::seconds{
      60};  ///< Settings are compared anew after this, and after a reload or restart.
};

class Monitor final : private ProbeUser {
 public:
  struct Deps {
    Prober& prober;
    Log& log;
  };
  struct Node {
    NodeId id;
    io::Address address;
    std::string name;  ///< host:port
  };

  /// With an empty user there is no login yet: nothing is asked, the first node counts as primary,
  /// no replica is used.
  Monitor(Deps deps, std::vector<Node> nodes, Login login, MonitorOptions options = {});

  /// Takes in what was answered and asks what is due; returns when it wants to be called at the
  /// latest. To be called in every turn of the loop.
  Time turn(Time now) noexcept;
  /// Never null. A change of its `identity` means: clamp tokens before asking for another capture.
  const routing::ClusterSnapshot& view() const noexcept { return view_; }
  /// Every node has answered, or failed, once; until then an unknown primary is a matter of
  /// moments.
  bool ready() const noexcept { return !logged_in() || model_.round_done(); }

  void use_login(Login login);
  /// Somebody waits for a replica to get further, or for a primary: nodes are asked often at first,
  /// ever less while it goes on, and those that are down at least each retry_min.
  void want_fast(bool on) noexcept;
  /// Somebody waits for a replica to replay what a capture has told: those that are behind are asked as often as they can answer.
  /// True when that makes a call of turn() due now.
  bool want_replay(bool on) noexcept { return !std::exchange(replay_wanted_, on) && on; }
  /// A server of this node failed or behaved oddly: ask it now. A question that does not come back
  /// meanwhile is dropped with its connection.
  void suspect(NodeId node) noexcept;
  /// What a new server connection answered to routing::kIdentityQuery.
  void server_seen(NodeId node, std::string system_id, std::string started_at, Time now);
  /// Asks the primary for its insert LSN on a connection of its own, so that it never waits behind
  /// something long.
  void capture(CaptureUser& user, std::uint64_t covers, Time now);
  /// `user` is about to die: what it asked is dropped.
  void forget(const CaptureUser& user) noexcept;
  /// Null when no such node.
  const io::Address* address(NodeId node) const noexcept;

 private:
  enum class Kind : std::uint8_t { poll, settings, capture };
  struct Question {
    Kind kind;
    std::size_t node = 0;  ///< Index.
    Time asked;
    CaptureUser* user = nullptr;
    std::uint64_t covers = 0;
    std::uint64_t identity = 0;  ///< The primary's when the capture was asked for.
  };
  struct Answer {
    std::uint64_t question;
    Result<Rows> rows;
  };
  static constexpr Duration kPatienceMin = std::chrono::milliseconds{20};
  struct Watched {
    Node node;
    std::unique_ptr<Probe> probe;
    bool polling = false;
    bool comparing = false;
    bool comparison_failed = false;
    bool refused = false;  ///< Does not let the login in.
    Time asked{};          ///< The last poll.
    Time next_poll{};
    Time next_comparison{};
    Duration retry{};        ///< Zero while it answers.
    bool suspected = false;  ///< Since the poll under way was sent.
    /// How old such a poll gets before it is dropped. Longer after each: many failing servers must
    /// not keep a slow node from ever answering.
    Duration patience = kPatienceMin;
  };

  void on_answer(std::uint64_t question, Result<Rows> answer) noexcept override;
  void take(Question question, Result<Rows> rows, Time now);
  void take_poll(const Question& question, Result<Rows> rows, Time now);
  void take_settings(const Question& question, Result<Rows> rows, Time now);
  void take_capture(const Question& question, Result<Rows> rows, Time now);
  void node_failed(Watched& watched, const Error& why, Time asked, Time now);
  void ask_now(Watched& watched) noexcept;
  void log_failure(const Watched& watched, const Error& why, bool was_refused);
  void ask(Watched& watched, Kind kind, std::string_view sql, Time now);
  void drop_questions(Watched& watched);
  Time due_at(const Watched& watched, Time now);
  Duration interval(Time now) const noexcept;
  void publish(Time now);
  void deliver_failed_captures();
  bool logged_in() const noexcept { return !login_.user.empty(); }
  Watched* find(NodeId node) noexcept;

  Deps deps_;
  MonitorOptions options_;
  Login login_;
  ClusterModel model_;
  std::vector<Watched> watched_;
  std::map<std::uint64_t, Question>
      questions_;              ///< At most two for each node, and the captures in flight.
  std::vector<Answer> inbox_;  ///< Arrived since the last turn.
  std::uint64_t last_question_ = 0;
  std::unique_ptr<Probe> capture_probe_;
  NodeId capture_node_;
  std::vector<Question> failed_captures_;
  bool fast_ = false;
  bool replay_wanted_ = false;
  Time fast_since_ = kNever;  ///< Set by the next turn.
  bool changed_ = true;
  bool refusal_logged_ = false;
  std::uint64_t version_ = 0;
  routing::ClusterSnapshot view_;
};

}  // namespace pgweir::monitor
