#include "net/libpq_prober.h"

#include <libpq-fe.h>

#include <algorithm>
#include <deque>

#include "base/ip.h"
#include "base/text.h"
#include "net/cleartext_guard.h"
#include "net/handle.h"
#include "net/libpq_result.h"
#include "net/libpq_tls.h"

namespace pgweir::net {
namespace {

enum class ProbeState : std::uint8_t { away, resolving, connecting, ready };

constexpr std::string_view kAsksInClear =
    " asks for the password in clear text over a connection that is not encrypted (server_tls_sslmode, or "
    "server_cleartext_password = 1)";

std::string ip_text(const SocketAddress& address) { return to_address(address).host; }

/// One node. Connects when somebody asks and it is away.
class LibpqProbe final : public monitor::Probe, private NameUser {
 public:
  LibpqProbe(Loop& loop, Resolver& resolver, io::Address node, monitor::Login login,
             monitor::ProbeUser& user)
      : loop_(loop),
        resolver_(resolver),
        node_(std::move(node)),
        login_(std::move(login)),
        user_(user),
        timer_(make_handle<uv_timer_t>(
            this, [&](uv_timer_t* timer) { return uv_timer_init(loop.uv(), timer); })) {}
  ~LibpqProbe() {
    drop();
    if (destroyed_) *destroyed_ = true;
  }

  void ask(std::uint64_t question, std::string_view sql, Time deadline) override {
    put({question, std::string(sql), deadline, false});
  }
  void ask_by_row(std::uint64_t question, std::string_view sql, Time deadline) override {
    put({question, std::string(sql), deadline, true});
  }
  bool connected() const noexcept override { return state_ == ProbeState::ready; }

 private:
  struct Question {
    std::uint64_t number;
    std::string sql;
    Time deadline;
    bool by_row;
  };

  void put(Question question) {
    questions_.push_back(std::move(question));
    if (!busy_answering_) proceed();
  }

  // ---- what to do next

  void proceed() noexcept {
    switch (state_) {
      case ProbeState::away:
        if (!questions_.empty() && !failure_) connect();
        break;
      case ProbeState::resolving:
      case ProbeState::connecting:
        break;
      case ProbeState::ready:
        if (questions_.empty() || asked_) break;
        if (PQstatus(connection_.get()) == CONNECTION_OK) {
          send();
        } else {
          drop();
          connect();
        }
        break;
    }
    arm();
  }

  /// The timer stands for the earliest deadline, or for a failure that can't be told from within
  /// ask().
  void arm() noexcept {
    Time next = failure_ ? loop_.now() : kNever;
    for (const Question& question : questions_) next = std::min(next, question.deadline);
    if (next == kNever) {
      uv_timer_stop(timer_.get());
      return;
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
        std::max(next - loop_.now(), Duration::zero()));
    uv_timer_start(
        timer_.get(), [](uv_timer_t* timer) { static_cast<LibpqProbe*>(timer->data)->on_timer(); },
        static_cast<std::uint64_t>(wait.count()), 0);
  }

  void on_timer() noexcept {
    loop_.hurry();
    if (failure_) {
      const Error why = *std::exchange(failure_, std::nullopt);
      answer_all(why);
      return;
    }
    const Time now = loop_.now();
    const bool late =
        std::any_of(questions_.begin(), questions_.end(),
                    [now](const Question& question) { return question.deadline <= now; });
    if (!late) {
      arm();
      return;
    }
    const bool stood = state_ == ProbeState::ready;
    std::deque<Question> expired;
    std::deque<Question> waiting;
    for (std::size_t at = 0; at < questions_.size(); ++at) {
      Question& question = questions_[at];
      const bool cut = question.deadline <= now || (at == 0 && asked_);
      (cut ? expired : waiting).push_back(std::move(question));
    }
    drop();
    questions_ = std::move(waiting);
    answer(std::move(expired), Error(concat({stood ? "no answer from " : "no connection to ",
                                             to_string(node_), " within the time allowed"})));
  }

  // ---- connecting

  void connect() noexcept {
    ++attempts_;
    if (node_.kind == io::Address::Kind::unix_socket) {
      start({});
    } else if (const SocketAddress literal = literal_address(node_.host, node_.port);
               literal.size > 0) {
      start(ip_text(literal));
    } else {
      // libpq would block the loop while it looks the name up.
      state_ = ProbeState::resolving;
      resolver_.resolve(node_.host, *this);
    }
  }

  void on_resolved(const Result<std::vector<SocketAddress>>& found) noexcept override {
    if (!found) {
      fail(found.error());
      return;
    }
    std::string addresses;
    for (const SocketAddress& address : *found) {
      addresses += addresses.empty() ? "" : ",";
      addresses += ip_text(address);
    }
    start(addresses);
    arm();
  }

  /// `addresses` is a comma list of IPs, empty for a Unix socket.
  void start(const std::string& addresses) noexcept {
    // libpq wants one host for each address.
    std::string hosts = node_.host;
    for (const char c : addresses) {
      if (c == ',') hosts += "," + node_.host;
    }
    const std::string port = std::to_string(node_.port);
    const LibpqTls tls = tls_options(login_.tls.get());
    const char* names[] = {"host",
                           "hostaddr",
                           "port",
                           "user",
                           "password",
                           "dbname",
                           "application_name",
                           "client_encoding",
                           "gssencmode",
                           "sslmode",
                           "sslrootcert",
                           "sslcert",
                           "sslkey",
                           "ssl_min_protocol_version",
                           "ssl_max_protocol_version",
                           nullptr};
    const char* values[] = {hosts.c_str(),
                            addresses.c_str(),
                            port.c_str(),
                            login_.user.c_str(),
                            login_.password.c_str(),
                            login_.dbname.c_str(),
                            "pgweir monitor",
                            "UTF8",
                            "disable",
                            tls.mode,
                            tls.ca_file.c_str(),
                            tls.cert_file.c_str(),
                            tls.key_file.c_str(),
                            tls.lowest,
                            tls.highest,
                            nullptr};
    connection_.reset(PQconnectStartParams(names, values, 0));
    if (!connection_ || PQstatus(connection_.get()) == CONNECTION_BAD) {
      fail(connection_error(connection_.get()));
      return;
    }
    PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);
    PQsetNoticeReceiver(
        connection_.get(), [](void*, const PGresult*) {}, nullptr);
    state_ = ProbeState::connecting;
    guard_password();
    if (!watch(UV_WRITABLE))
      fail(Error("the loop can't watch the connection to " + to_string(node_)));
  }

  /// Whether a password could go out in clear text on this connection, and must not.
  bool is_unsafe(int descriptor) const noexcept {
    const bool encrypted = login_.tls && login_.tls->mode >= io::TlsMode::require;
    if (login_.password.empty() || encrypted || login_.cleartext == monitor::Cleartext::anywhere) return false;
    SocketAddress peer;
    peer.size = sizeof peer.storage;
    // Not connected yet, or over a Unix socket: of the node's, or of a guard.
    if (::getpeername(descriptor, peer.get(), &peer.size) != 0 || peer.family() == AF_UNIX) return false;
    const std::optional<IpAddress> ip = parse_ip(ip_text(peer));
    return login_.cleartext == monitor::Cleartext::nowhere || !ip || !is_loopback(*ip);
  }

  /// Once for each connection that libpq makes on its way, before it has read anything from it.
  void guard_password() noexcept {
    const int descriptor = PQsocket(connection_.get());
    if (descriptor < 0 || !is_unsafe(descriptor)) return;
    using Next = LoginWatch::Next;
    const Next next = PQstatus(connection_.get()) == CONNECTION_SSL_STARTUP ? Next::answer_to_ssl_request : Next::message;
    const bool has_spoken = PQstatus(connection_.get()) == CONNECTION_AWAITING_RESPONSE;
    if (!guard_.stand_between(descriptor, next, has_spoken)) fail(Error("the login can't be guarded: no descriptors left"));
  }

  void go_on_connecting() noexcept {
    // libpq may close the socket here and open another one under the same number; a handle that
    // still watched the old one would make watching the new one fail.
    poll_.reset();
    guard_password();
    if (state_ != ProbeState::connecting) return;
    int wanted = 0;
    switch (PQconnectPoll(connection_.get())) {
      case PGRES_POLLING_OK:
        state_ = ProbeState::ready;
        (void)guard_.step_aside(PQsocket(connection_.get()));
        (void)PQsetnonblocking(connection_.get(), 1);
        wanted = UV_READABLE;
        break;
      case PGRES_POLLING_READING:
        wanted = UV_READABLE;
        break;
      case PGRES_POLLING_WRITING:
      case PGRES_POLLING_ACTIVE:
        wanted = UV_WRITABLE;
        break;
      case PGRES_POLLING_FAILED:
        fail(guard_.refuses() ? Error("28000", concat({"the server ", to_string(node_), kAsksInClear}))
                              : connection_error(connection_.get()));
        return;
    }
    if (!watch(wanted)) {
      fail(Error("the loop can't watch the connection to " + to_string(node_)));
      return;
    }
    proceed();
  }

  bool watch(int events) noexcept {
    const int fd = PQsocket(connection_.get());
    if (fd < 0) return false;
    if (!poll_) {
      poll_ = make_handle<uv_poll_t>(
          this, [&](uv_poll_t* poll) { return uv_poll_init(loop_.uv(), poll, fd); });
    }
    return poll_ &&
           uv_poll_start(poll_.get(), events, [](uv_poll_t* poll, int status, int happened) {
             static_cast<LibpqProbe*>(poll->data)->on_poll(status, happened);
           }) == 0;
  }

  // ---- asking

  void send() noexcept {
    asked_ = true;
    rows_.reset();
    error_.reset();
    if (PQsendQuery(connection_.get(), questions_.front().sql.c_str()) == 0) {
      fail(connection_error(connection_.get()));
      return;
    }
    if (questions_.front().by_row) (void)PQsetSingleRowMode(connection_.get());
    flush();
  }

  void flush() noexcept {
    const int left = PQflush(connection_.get());
    // A failure to write shows when reading, behind what the node had to say.
    if (left > 0) {
      writing_ = watch(UV_READABLE | UV_WRITABLE);
    } else if (writing_) {
      writing_ = false;
      (void)watch(UV_READABLE);
    }
  }

  void on_poll(int status, int events) noexcept {
    if (state_ == ProbeState::connecting) {
      go_on_connecting();
      return;
    }
    if ((events & UV_WRITABLE) != 0) flush();
    if (status >= 0 && (events & UV_READABLE) == 0) return;
    const std::uint64_t attempt = attempts_;
    const bool lives = PQconsumeInput(connection_.get()) == 1;
    if (!take_results() || attempts_ != attempt) return;
    if (!lives || status < 0 || PQstatus(connection_.get()) == CONNECTION_BAD) lost();
  }

  /// False when this object is gone, or its connection.
  bool take_results() noexcept {
    while (asked_ && state_ == ProbeState::ready && PQisBusy(connection_.get()) == 0) {
      const Answer result(PQgetResult(connection_.get()));
      if (!result) {
        if (!question_done()) return false;
        continue;
      }
      if (!take(*result)) {
        lost();
        return false;
      }
    }
    return true;
  }

  /// False when the connection is of no use after this result.
  bool take(const PGresult& result) {
    const ExecStatusType status = PQresultStatus(&result);
    if (status == PGRES_SINGLE_TUPLE) {
      const monitor::Rows rows = rows_of(&result);
      for (const monitor::ProbeRow& row : rows) user_.on_row(questions_.front().number, row);
    } else if (status == PGRES_TUPLES_OK) {
      rows_ = rows_of(&result);
    } else if (status == PGRES_FATAL_ERROR && !error_) {
      error_ = answer_error(&result);
    } else if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
      error_ = Error("a question can't be a COPY");
      return false;
    }
    return true;
  }

  bool question_done() noexcept {
    asked_ = false;
    const bool failed = error_.has_value();
    std::deque<Question> done;
    done.push_back(std::move(questions_.front()));
    questions_.pop_front();
    if (failed) return answer(std::move(done), *std::exchange(error_, std::nullopt));
    monitor::Rows rows = rows_ ? *std::exchange(rows_, std::nullopt) : monitor::Rows();
    return answer(std::move(done), std::move(rows));
  }

  // ---- answering, and the ends

  /// False when a callback destroyed this object.
  bool answer(std::deque<Question> questions, const Result<monitor::Rows>& what) noexcept {
    bool gone = false;
    destroyed_ = &gone;
    busy_answering_ = true;
    for (const Question& question : questions) {
      user_.on_answer(question.number, what);
      if (gone) return false;
    }
    destroyed_ = nullptr;
    busy_answering_ = false;
    proceed();
    return true;
  }

  bool answer_all(const Error& why) noexcept { return answer(std::exchange(questions_, {}), why); }

  /// The connection broke: the question that was asked fails, those behind it try again.
  void lost() noexcept {
    const Error why =
        error_ ? *std::exchange(error_, std::nullopt) : connection_error(connection_.get());
    const bool had_asked = asked_;
    drop();
    if (!had_asked) {
      proceed();
      return;
    }
    std::deque<Question> broken;
    broken.push_back(std::move(questions_.front()));
    questions_.pop_front();
    answer(std::move(broken), why);
  }

  /// Nothing that waits can be asked; told when the loop comes by.
  void fail(Error why) noexcept {
    drop();
    failure_ = std::move(why);
    arm();
  }

  void drop() noexcept {
    poll_.reset();
    connection_.reset();
    guard_.forget();
    if (queue) std::exchange(queue, nullptr)->remove(*this);
    state_ = ProbeState::away;
    asked_ = writing_ = false;
    rows_.reset();
    error_.reset();
  }

  Loop& loop_;
  Resolver& resolver_;
  io::Address node_;
  monitor::Login login_;
  monitor::ProbeUser& user_;
  Handle<uv_timer_t> timer_;
  Handle<uv_poll_t> poll_;
  Connection connection_;
  CleartextGuard guard_{loop_};
  ProbeState state_ = ProbeState::away;
  std::deque<Question> questions_;  ///< The first one is being asked while asked_.
  std::uint64_t attempts_ = 0;      ///< Tells a new connection from the one an event was for.
  bool asked_ = false;
  bool writing_ = false;
  bool busy_answering_ = false;
  bool* destroyed_ = nullptr;
  std::optional<monitor::Rows> rows_;
  std::optional<Error> error_;
  std::optional<Error> failure_;
};

}  // namespace

std::unique_ptr<monitor::Probe> LibpqProber::probe(const io::Address& node,
                                                   const monitor::Login& login,
                                                   monitor::ProbeUser& user) {
  return std::make_unique<LibpqProbe>(loop_, resolver_, node, login, user);
}

}  // namespace pgweir::net
