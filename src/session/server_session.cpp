#include "session/server_session.h"

#include "base/pooler_error.h"
#include "base/text.h"
#include "protocol/error_fields.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"

namespace pgweir::session {
namespace {

/// What a function, DO or CALL may have made that is the session's and no setting.
constexpr std::string_view kLeftoversQuery =
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_listening_channels()) OR EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql)"
    " OR EXISTS (SELECT FROM pg_catalog.pg_cursors)"
    " OR EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid())"
    " OR CASE WHEN pg_catalog.pg_my_temp_schema() = 0 THEN false"
    " ELSE EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema()) END";
/// Settings of an extension's own are shown by no view: they go unasked.
constexpr std::string_view kResetSettings = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL";

/// Nobody is a member of more roles.
constexpr std::size_t kLookupRowsMax = 100'000;

}  // namespace

ServerSession::ServerSession(Hub& hub, PoolContext& pool, ServerId id, NodeId node, ServerLoginParams login,
                             auth::SaltedPasswordCache& cache)
    : hub_(hub),
      pool_(pool),
      id_(id),
      node_(node),
      settings_(hub.interner().empty()),
      params_(std::move(login)),
      login_(std::make_unique<auth::ServerLogin>(params_.user, params_.credentials, hub.random(), cache)),
      connected_at_(hub.now()),
      state_since_(hub.now()) {
  params_.credentials.forget();  // The login has its own.
}

ServerSession::~ServerSession() { ENSURE(client_ == nullptr); }

void ServerSession::enter(ServerEvent event) {
  const std::optional<ServerState> to = next(state_, event);
  ENSURE(to.has_value());
  state_ = *to;
  state_since_ = hub_.now();
}

void ServerSession::attach(std::unique_ptr<io::Transport> transport) {
  transport_ = std::move(transport);
  enter(ServerEvent::attached);
}

void ServerSession::on_connected() noexcept {
  connected_ = true;
  std::vector<std::pair<std::string, std::string>> parameters{{"user", params_.user}, {"database", params_.database}};
  parameters.insert(parameters.end(), params_.parameters.begin(), params_.parameters.end());
  scratch_.clear();
  protocol::append_startup(scratch_, parameters);
  transport_->send(scratch_);
}

/// What the connection is good for. Within this machine nobody reads along who could not read more.
auth::Channel ServerSession::channel() const {
  const io::TlsInfo* tls = transport_->tls();
  const io::Address peer = transport_->peer();
  const std::optional<IpAddress> ip =
      peer.kind == io::Address::Kind::tcp ? parse_ip(peer.host) : std::nullopt;
  const bool within = peer.kind == io::Address::Kind::unix_socket || (ip && is_loopback(*ip));
  return {.safe = tls || within || params_.cleartext_allowed,
          .encrypted = tls != nullptr,
          .server_end_point = tls ? std::string_view(tls->server_end_point) : std::string_view()};
}

void ServerSession::on_login_message(char type, Bytes body) {
  using namespace protocol;
  switch (type) {
    case backend::kAuthentication: {
      Result<auth::ServerLogin::Answer> answer = login_->on_authentication(body, channel());
      if (!answer) return close(answer.error());
      if (!answer->send.empty()) transport_->send(answer->send);
      auth::wipe(answer->send);
      return;
    }
    case backend::kParameterStatus: {
      Reader fields(body);
      const Bytes name = fields.cstring();
      reported_.emplace_back(name, fields.cstring());
      return;
    }
    case backend::kBackendKeyData: {
      Reader fields(body);
      pid_ = fields.u32();
      key_ = fields.u32();
      return;
    }
    case backend::kErrorResponse: {
      const ErrorFields fields = parse_error(body);
      hub_.log().warning(concat({hub_.log_name(*this), "server login failed: ", fields.severity, " ", fields.message}));
      return close(Error::of_server(std::string(fields.sqlstate), std::string(fields.message)));
    }
    case backend::kReadyForQuery:
      login_.reset();
      enter(ServerEvent::logged_in);
      return identify();
    case backend::kNoticeResponse:
    case backend::kNegotiateProtocolVersion: return;
    default: return lose_protocol("an unexpected message during login");
  }
}

void ServerSession::identify() {
  if (params_.identify) return run_errand(Errand::identify, routing::kIdentityQuery);
  errand_done(Errand::identify);
}

void ServerSession::run_errand(Errand errand, Bytes sql) {
  errand_error_.reset();
  errand_row_.clear();
  scratch_.clear();
  protocol::append_query(scratch_, sql);
  transport_->send(scratch_);
  unnamed_.reset();  // A simple query drops the server's unnamed statement.
  expect({.answer = Answer::query, .fate = Fate::swallow, .errand = errand, .statement = nullptr, .unit = 0, .text = {}});
}

void ServerSession::errand_done(Errand errand) {
  switch (errand) {
    case Errand::none: return;
    case Errand::identify:
      if (errand_row_.size() == 2) {
        started_at_ = errand_row_[1];
        instance_ = routing::instance_of(started_at_);
        hub_.server_identified(*this, errand_row_[0], started_at_);
      }
      if (!params_.connect_query.empty()) return run_errand(Errand::connect_query, params_.connect_query);
      enter(ServerEvent::identified);
      return became_idle();
    case Errand::connect_query:
      if (errand_error_) hub_.log().warning(concat({hub_.log_name(*this), "connect_query failed: ", errand_error_->text()}));
      enter(ServerEvent::identified);
      return became_idle();
    case Errand::check:
    case Errand::reset:
      if (errand_error_) {
        return close(Error(concat({errand == Errand::check ? "server_check_query" : "server_reset_query", " failed: ",
                                   errand_error_->text()})));
      }
      enter(ServerEvent::answered);
      return became_idle();
    case Errand::settings:
      if (errand_error_) {
        wanted_settings_.reset();
        const Error why = *std::exchange(errand_error_, std::nullopt);
        if (client_) client_->on_settings_refused(*this, why);
        return;
      }
      settings_ = std::move(wanted_settings_);
      if (client_) client_->on_settings_brought(*this);
      return;
    case Errand::open_block:
      if (const std::optional<Error> problem = std::exchange(errand_error_, std::nullopt); client_) {
        client_->on_block_opened(*this, problem ? &*problem : nullptr);
      }
      return;
    case Errand::wait:
      // Whether it was in vain tells the position that is asked next.
      errand_error_.reset();
      errand_row_.clear();
      return;
    case Errand::position: {
      const Bytes lsn = !errand_error_ && !errand_row_.empty() ? Bytes(errand_row_.front()) : Bytes();
      const Bytes timeline = errand_row_.size() > 1 ? Bytes(errand_row_[1]) : Bytes();
      errand_error_.reset();
      if (client_) client_->on_position(*this, tokens::parse_lsn(lsn), timeline);
      return;
    }
    case Errand::leftovers: {
      const bool sure = !errand_error_ && errand_row_.size() == 1;
      errand_error_.reset();
      if (client_) client_->on_leftovers(sure ? std::optional(errand_row_.front() == "t") : std::nullopt);
      return;
    }
    case Errand::look_up: {
      hub_.looked_up(*this, errand_error_ ? &*errand_error_ : nullptr, std::exchange(lookup_rows_, {}));
      enter(ServerEvent::answered);
      return became_idle();
    }
  }
}

void ServerSession::became_idle() {
  ENSURE(owed_.empty() && client_ == nullptr);
  copying_in_ = false;
  hub_.server_idle(*this);
}

void ServerSession::check(std::string_view query) {
  enter(ServerEvent::check);
  run_errand(Errand::check, query == "<empty>" ? std::string_view() : query);
}

void ServerSession::look_up(std::string_view sql, std::string_view parameter) {
  enter(ServerEvent::check);
  errand_error_.reset();
  lookup_rows_.clear();
  unnamed_.reset();
  const std::optional<Bytes> parameters[] = {parameter};
  scratch_.clear();
  protocol::append_parse(scratch_, {}, sql);
  protocol::append_bind(scratch_, {}, {}, parameters);
  protocol::append_execute(scratch_, {});
  protocol::append_sync(scratch_);
  transport_->send(scratch_);
  for (const Answer answer : {Answer::parse, Answer::bind, Answer::execute, Answer::sync})
    expect({.answer = answer, .fate = Fate::swallow, .errand = Errand::look_up, .statement = nullptr, .unit = 0, .text = {}});
}

void ServerSession::take_row(Bytes body) {
  if (lookup_rows_.size() >= kLookupRowsMax) return;
  auto& row = lookup_rows_.emplace_back();
  protocol::Reader fields(body);
  for (int left = fields.i16(); left > 0 && !fields.failed(); --left) {
    const std::int32_t size = fields.i32();
    if (size < 0) {
      row.emplace_back();
    } else {
      row.emplace_back(std::string(fields.bytes(static_cast<std::size_t>(size))));
    }
  }
  auth::wipe_in_place(body);  // It may be a secret.
}

void ServerSession::bind(ClientSession& client) {
  ENSURE(owes_nothing() && client_ == nullptr);
  enter(ServerEvent::bound);
  client_ = &client;
}

void ServerSession::dedicate(ClientSession& client) {
  ENSURE(owes_nothing() && client_ == nullptr);
  enter(ServerEvent::dedicated);
  client_ = &client;
}

/// Passes on `bytes` as they are; the framer tells what is in them.
void ServerSession::relay(Bytes bytes) {
  Bytes rest = bytes;
  while (const std::optional<protocol::Slice> slice = framer_.next(rest)) client_->on_relayed(*slice);
  if (framer_.broken()) return lose_protocol("a length that can't be");
  client_->deliver(bytes);
  client_->note_part(framer_.in_message());
}

void ServerSession::unbind(Leave how) {
  client_ = nullptr;
  if (state_ == ServerState::closed) return;
  if (state_ == ServerState::dedicated) return close(Error("08006", "replication client disconnected"));
  if (how == Leave::broken || !owes_nothing() || !run_.empty()) {
    return close(Error("08006", "client disconnect while server was not ready"));
  }
  if (doubtful_) return close(Error("08006", "a statement that was prepared there is gone"));
  pause(false);
  if (how == Leave::clean) return finish();
  enter(ServerEvent::dirty);
  if (how == Leave::settings) return run_errand(Errand::reset, kResetSettings);
  const std::string& own = hub_.settings().server_reset_query;
  const bool session_pooling = pool_.mode == config::PoolMode::session;
  if (session_pooling && own.empty()) {  // The operator wants no reset there.
    enter(ServerEvent::answered);
    return became_idle();
  }
  // A client that was pinned may have left anything, whatever the operator thinks sufficient in session pooling.
  const bool everything = own.empty() || (pool_.policy.split && !session_pooling);
  hub_.server_resetting(*this);
  run_errand(Errand::reset, everything ? std::string_view("DISCARD ALL") : std::string_view(own));
}

void ServerSession::unbind_unfinished() {
  client_ = nullptr;
  if (state_ == ServerState::closed) return;
  pause(false);
  if (owes_nothing()) return unbind(Leave::clean);
  hub_.server_unfinished(*this);
}

/// Nothing is owed, and nothing is left behind but perhaps a transaction that is to begin anew elsewhere.
void ServerSession::finish() {
  if (transaction_ != 'I') {
    enter(ServerEvent::dirty);
    return run_errand(Errand::reset, "ROLLBACK");
  }
  enter(ServerEvent::unbound);
  became_idle();
}

void ServerSession::close(const Error& why) {
  if (state_ == ServerState::closed) return;
  const bool idle = state_ == ServerState::idle && owes_nothing();
  enter(ServerEvent::lost);
  if (idle && connected_) {
    scratch_.clear();
    protocol::append_terminate(scratch_);
    transport_->send(scratch_);
  }
  if (transport_) transport_->close();
  const Error reason = last_words_ ? *last_words_ : why;
  if (client_) client_->on_server_lost(*this, reason);
  client_ = nullptr;
  hub_.server_gone(*this, reason);
}

void ServerSession::suspend(bool on) {
  if (state_ == ServerState::closed || suspended_ == on) return;
  suspended_ = on;
  transport_->pause(paused_ || suspended_);
  if (!on && !came_while_suspended_.empty()) on_bytes(std::exchange(came_while_suspended_, {}));
}

void ServerSession::on_closed(const Error& why) noexcept { close(why); }

void ServerSession::on_drained() noexcept {
  if (client_) client_->on_server_drained(*this);
}

void ServerSession::lose_protocol(std::string_view what) {
  hub_.log().warning(concat({hub_.log_name(*this), "broke the protocol: ", what}));
  close(error_of(PoolerError::server_crashed));
}

void ServerSession::expect(Owed&& owed) {
  if (owed.answer == Answer::sync || owed.answer == Answer::query) ++unit_;
  owed_.push(std::move(owed));
  if (owed_.size() == 1) settle();
}

void ServerSession::ask_leftovers() { run_errand(Errand::leftovers, kLeftoversQuery); }

bool ServerSession::bring(const SharedSettings& wanted) {
  if (settings_ == wanted) return false;
  const std::string sql = difference(*settings_, *wanted);
  if (sql.empty()) {
    settings_ = wanted;
    return false;
  }
  wanted_settings_ = wanted;
  run_errand(Errand::settings, sql);
  return true;
}

void ServerSession::swallow_rest() noexcept {
  for (std::size_t i = 0; i < owed_.size(); ++i) {
    if (owed_[i].fate != Fate::invent) owed_[i].fate = Fate::swallow;
  }
  for (std::size_t i = owed_.size(); i-- > 0;) {
    if (owed_[i].fate == Fate::invent) owed_.erase(i);
  }
}

void ServerSession::prepare(const StatementRef& statement, bool unnamed) {
  if (unnamed) {
    if (unnamed_ == statement) return;
  } else {
    switch (prepared_.use(*statement, unit_)) {
      case ServerStatements::Known::yes: return;
      case ServerStatements::Known::unsure: unprepare(*statement); break;
      case ServerStatements::Known::no: break;
    }
  }
  scratch_.clear();
  std::vector<std::uint32_t> types(statement->types.size() / 4);
  for (std::size_t i = 0; i < types.size(); ++i) types[i] = load_u32(statement->types.data() + 4 * i);
  protocol::append_parse(scratch_, unnamed ? Bytes() : Bytes(statement->server_name), statement->text, types);
  transport_->send(scratch_);
  ++pool_.counters.server_parse_count;
  expect({.answer = Answer::parse, .fate = Fate::swallow, .errand = Errand::none, .statement = statement, .unit = unnamed ? 0 : unit_, .text = {}});
  parsed(statement, unnamed);
}

void ServerSession::parsed(const StatementRef& statement, bool unnamed) {
  if (unnamed) {
    unnamed_ = statement;
  } else {
    prepared_.add(statement, unit_);
  }
}

void ServerSession::unprepare(const PreparedStatement& statement) {
  scratch_.clear();
  protocol::append_close(scratch_, 'S', statement.server_name);
  transport_->send(scratch_);
  expect({.answer = Answer::close, .fate = Fate::swallow, .errand = Errand::none, .statement = nullptr, .unit = 0, .text = {}});
}

void ServerSession::trim_prepared() {
  const auto max = static_cast<std::size_t>(std::max(pool_.max_prepared_statements, 1));
  while (const StatementRef oldest = prepared_.over(max)) unprepare(*oldest);
}

}  // namespace pgweir::session
