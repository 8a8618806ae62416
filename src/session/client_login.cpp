// From the startup packet to the first ReadyForQuery, and the way to the console.
#include "auth/client_login.h"

#include <algorithm>

#include "base/ip.h"
#include "base/pooler_error.h"
#include "base/text.h"
#include "protocol/framer.h"
#include "protocol/message.h"
#include "protocol/proxy_header.h"
#include "protocol/startup.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/search_path.h"

namespace pgweir::session {
namespace {

/// A password message longer than this is nobody's.
constexpr std::uint64_t kPasswordMessageMax = 66'000;
constexpr std::uint64_t kConsoleMessageMax = 64U << 10;

}  // namespace

bool ClientSession::comes_from_proxy() const {
  const config::NetworkList& proxies = hub_.settings().proxy_protocol_networks;
  if (proxies.empty() || !transport_) return false;
  const io::Address from = transport_->peer();
  const std::optional<IpAddress> ip = from.kind == io::Address::Kind::tcp ? parse_ip(from.host) : std::nullopt;
  return ip && proxies.holds(*ip);
}

/// A proxy that is trusted has to speak: taking the client's own words for a header, or doing without
/// one, would let him choose where he comes from.
std::size_t ClientSession::read_proxy_header(Bytes input) {
  const Result<std::optional<protocol::ProxyHeader>> header = protocol::parse_proxy_header(input);
  if (!header) {
    close(header.error());
    return 0;
  }
  if (!*header) {
    starving_ = true;
    return 0;
  }
  proxy_header_due_ = false;
  if (!(*header)->host.empty()) {
    proxied_for_ = std::make_unique<io::Address>(io::Address{.kind = io::Address::Kind::tcp, .host = (*header)->host, .port = (*header)->port});
    hub_.client_named(*this);
  }
  return (*header)->size;
}

std::size_t ClientSession::read_startup(Bytes input) {
  if (proxy_header_due_) return read_proxy_header(input);
  // No packet is long enough to begin with this byte: it is the record type of a TLS handshake.
  constexpr char kTlsHandshake = 0x16;
  const bool can_encrypt =
      hub_.offers_tls() && !transport_->tls() && transport_->peer().kind == io::Address::Kind::tcp;
  if (can_encrypt && !input.empty() && input[0] == kTlsHandshake) {
    transport_ = hub_.encrypt(std::move(transport_), *this, io::TlsStart::direct, input);
    return input.size();
  }
  const Result<std::optional<std::uint32_t>> size = protocol::startup_size(input);
  if (!size) {
    close(size.error());
    return 0;
  }
  if (!*size || input.size() < **size) {
    starving_ = true;
    return 0;
  }
  const Bytes packet = input.substr(0, **size);
  const Result<protocol::StartupPacket> parsed = protocol::parse_startup(packet);
  if (!parsed) {
    close(parsed.error());
  } else if (std::holds_alternative<protocol::SslRequest>(*parsed) && transport_->tls()) {
    close(Error("08P01", "SSL request on an encrypted connection"));
  } else if (std::holds_alternative<protocol::SslRequest>(*parsed) && can_encrypt) {
    // Whoever sits on the wire could have put it there, to be taken for what comes encrypted.
    if (input.size() > packet.size()) {
      close(Error("08P01", "received unencrypted data after SSL request"));
    } else {
      transport_->send("S");
      transport_ = hub_.encrypt(std::move(transport_), *this, io::TlsStart::requested, {});
    }
  } else if (std::holds_alternative<protocol::SslRequest>(*parsed) ||
             std::holds_alternative<protocol::GssRequest>(*parsed)) {
    transport_->send("N");
  } else if (const auto* cancel = std::get_if<protocol::CancelRequest>(&*parsed)) {
    enter(ClientEvent::cancel_asked);
    hub_.cancel(*this, {cancel->pid, cancel->key});
  } else {
    start(std::get<protocol::Startup>(*parsed));
  }
  return packet.size();
}

void ClientSession::on_connected() noexcept {
  if (state_ != ClientState::closed) hub_.client_encrypted(*this);
}

void ClientSession::start(const protocol::Startup& startup) {
  if (hub_.settings().client_tls_sslmode >= config::TlsMode::require && !transport_->tls() &&
      transport_->peer().kind == io::Address::Kind::tcp) {
    return close(Error("08P01", "SSL required"));
  }
  if (startup.asks_for_more()) {
    scratch_.clear();
    protocol::append_negotiate_version(scratch_, 0, startup.protocol_options);
    transport_->send(scratch_);
  }
  const std::string* user = startup.find("user");
  if (!user || user->empty()) return close(error_of(PoolerError::no_user_name));
  user_ = *user;
  const std::string* database = startup.find("database");
  database_ = database && !database->empty() ? *database : user_;
  if (!ask_for_replication(startup)) return;
  admission_ = std::make_unique<Admission>(hub_.admit(*this, database_, user_, transport_->peer_uid()));
  for (const auto& [name, value] : startup.parameters) {
    if (name == "user" || name == "database" || name == "replication") continue;
    if (name == "options") {
      if (replication_) {  // The server is this client's own: it may have whatever it asks for.
        replication_->options = value;
        continue;
      }
      if (listed_as_ignored("options")) continue;
      const Result<std::vector<protocol::Parameter>> options = protocol::parse_options(value);
      if (!options) return close(options.error());
      for (const auto& [option, setting] : *options) {
        if (!take_parameter(option, setting)) {
          return close(error_of(PoolerError::unsupported_option, option));
        }
        if (state_ == ClientState::closed) return;
      }
    } else if (!take_parameter(name, value)) {
      return close(error_of(PoolerError::unsupported_parameter, name));
    }
    if (state_ == ClientState::closed) return;
  }
  if (hub_.settings().application_name_add_host && !admission_->console) {
    const io::Address from = peer();
    const std::string* name = settings_->find("application_name");
    settings_ = hub_.interner().with(settings_, "application_name",
                                     concat({name ? *name : "app", " - ", from.host, ":", std::to_string(from.port)}));
  }
  startup_settings_ = settings_;
  read_dialect();
  enter(ClientEvent::startup_read);
  if (!admission_->pending) begin_login();
}

void ClientSession::begin_login() {
  if (!admission_->user.empty()) user_ = admission_->user;
  const io::TlsInfo* tls = transport_->tls();
  login_ = std::make_unique<auth::ClientLogin>(
      auth::LoginTask{.method = admission_->method,
                      .user = user_,
                      .secret = admission_->user_known ? &admission_->secret : nullptr,
                      .server_end_point = tls ? tls->server_end_point : std::string(),
                      .refusal = admission_->stranger_text},
      hub_.login_context());
  step(login_->start());
}

void ClientSession::admitted(Admission admission) {
  if (state_ != ClientState::authenticating || login_) return;
  admission_ = std::make_unique<Admission>(std::move(admission));
  begin_login();
  work();  // A client may have sent its answer ahead.
  regulate();
}

void ClientSession::password_judged(const Status& verdict, Admission admission) {
  if (state_ != ClientState::authenticating || !login_) return;
  if (verdict) admission_ = std::make_unique<Admission>(std::move(admission));
  step(login_->on_verdict(verdict));
  work();
  regulate();
}

/// False: the client was turned away.
bool ClientSession::ask_for_replication(const protocol::Startup& startup) {
  const std::string* value = startup.find("replication");
  if (!value) return true;
  const std::optional<Replication> asked = replication_asked(*value);
  if (!asked) {
    close(Error("22023", concat({"invalid value for parameter \"replication\": \"", *value, "\""})));
    return false;
  }
  if (*asked == Replication::none) return true;
  replication_ = std::make_unique<ReplicationLink>();
  replication_->kind = *asked;
  replication_->value = *value;
  replication_->from_client.limit(static_cast<std::uint32_t>(std::clamp<std::int64_t>(hub_.settings().max_packet_size, 4, 0x7fffffff)));
  return true;
}

namespace {

bool listed(const std::string& comma_list, std::string_view name) {
  for (std::string_view one : pgweir::split(comma_list, ',')) {
    if (equals_ignoring_case(one, name)) return true;
  }
  return false;
}

}  // namespace

bool ClientSession::listed_as_ignored(std::string_view name) const {
  return listed(hub_.settings().ignore_startup_parameters, name);
}

bool ClientSession::follows(std::string_view name) const {
  return is_tracked(name) || listed(hub_.settings().track_extra_parameters, name);
}

/// False: the parameter is refused.
bool ClientSession::take_parameter(std::string_view name, std::string_view value) {
  const std::string_view tracked = tracked_name(name);
  if (tracked.empty() || equals_ignoring_case(tracked, "search_path")) {
    if (listed_as_ignored(name)) return true;
  }
  if (admission_->console) return true;
  if (const std::optional<OwnSetting> own = own_setting(name)) {
    const Status taken = take_own_at_login(*own, value);
    if (!taken) close(taken.error());
    return true;
  }
  if (hub_.settings().unknown_startup_parameters == config::UnknownStartupParameters::refuse && !follows(name)) {
    return false;
  }
  settings_ = hub_.interner().with(settings_, tracked.empty() ? name : tracked, value);
  return true;
}

void ClientSession::read_dialect() {
  const std::string* strings = settings_->find("standard_conforming_strings");
  const std::string* encoding = settings_->find("client_encoding");
  dialect_.standard_conforming_strings =
      !strings || !(equals_ignoring_case(*strings, "off") || *strings == "0" || equals_ignoring_case(*strings, "false") ||
                    equals_ignoring_case(*strings, "no"));
  dialect_.encoding = encoding ? sql::encoding_named(*encoding) : sql::Encoding::ascii_safe;
}

void ClientSession::step(const auth::Step& step) {
  if (!step.send.empty()) transport_->send(step.send);
  switch (step.state) {
    case auth::Step::State::more: return;
    case auth::Step::State::outside: return hub_.judge_password(*this, *login_->plain_password());
    case auth::Step::State::refused:
      hub_.login_refused(*this);
      return close(*step.why);
    case auth::Step::State::accepted: return authenticated();
  }
}

void ClientSession::authenticated() {
  if (admission_->refusal) return close(Error(*admission_->refusal));
  const bool console = admission_->console;
  pool_ = admission_->pool;
  auth::Credentials credentials = login_->credentials();
  login_.reset();
  admission_.reset();
  if (!console) {
    enter(ClientEvent::authenticated);
    if (own_state_ && tracks()) reset_all_own();
    hub_.logged_in(*this, std::move(credentials));
    if (state_ == ClientState::closed) return;
    if (replication_) return hub_.wants_own_server(*this);
    if (pool_->welcome.empty()) return hub_.wants_welcome(*this);
    return welcome();
  }
  console_ = hub_.console(*this);
  if (!console_) return close(error_of(PoolerError::console_not_allowed));
  enter(ClientEvent::console_opened);
  scratch_.clear();
  protocol::append_auth_ok(scratch_);
  console_->append_welcome(scratch_);
  protocol::append_backend_key(scratch_, cancel_key_.pid, cancel_key_.key);
  protocol::append_ready(scratch_, 'I');
  transport_->send(scratch_);
}

void ClientSession::welcome() {
  if (state_ != ClientState::welcoming) return;
  send_welcome(pool_->welcome);
  enter(ClientEvent::welcomed);
  work();  // A client may have sent its first query ahead.
  regulate();
}

void ClientSession::send_welcome(const std::vector<std::pair<std::string, std::string>>& reported) {
  scratch_.clear();
  protocol::append_auth_ok(scratch_);
  for (const auto& [name, value] : reported) {
    const std::string* own = settings_->find(name);
    protocol::append_parameter_status(scratch_, name, own ? *own : value);
  }
  protocol::append_backend_key(scratch_, cancel_key_.pid, cancel_key_.key);
  if (!hub_.settings().login_notify_message.empty()) {
    protocol::append_notice(scratch_, "NOTICE", "00000", hub_.settings().login_notify_message);
  }
  protocol::append_ready(scratch_, 'I');
  transport_->send(scratch_);
  scratch_.shrink_to_fit();
}

std::size_t ClientSession::read_password(Bytes input) {
  if (!login_ || login_->waits_for_verdict()) return 0;  // Who this is, or whether it is true, is being asked.
  const std::optional<std::uint64_t> size = protocol::peek_wire_size(input);
  if (!size) {
    starving_ = true;
    return 0;
  }
  if (input[0] != protocol::frontend::kPassword || *size < protocol::kHeaderSize || *size > kPasswordMessageMax) {
    close(Error("08P01", "expected a password message"));
    return 0;
  }
  if (input.size() < *size) {
    starving_ = true;
    return 0;
  }
  const auth::Step next = login_->on_password_message(input.substr(protocol::kHeaderSize, *size - protocol::kHeaderSize));
  auth::wipe_in_place(input.substr(0, *size));
  step(next);
  return *size;
}

std::size_t ClientSession::read_console(Bytes input) {
  const std::optional<std::uint64_t> size = protocol::peek_wire_size(input);
  if (!size) {
    starving_ = true;
    return 0;
  }
  if (*size < protocol::kHeaderSize || *size > kConsoleMessageMax) {
    close(Error("08P01", "bad packet header"));
    return 0;
  }
  if (input.size() < *size) {
    starving_ = true;
    return 0;
  }
  request_at_ = hub_.now();
  std::string out;  // A command may answer other sessions: scratch_ is not to be held meanwhile.
  console_->on_message(input[0], input.substr(protocol::kHeaderSize, *size - protocol::kHeaderSize), out);
  if (state_ == ClientState::closed) return 0;
  if (!out.empty()) transport_->send(out);
  if (console_->finished()) {
    end(Error("client close request"));
    return 0;
  }
  return *size;
}

}  // namespace pgweir::session
