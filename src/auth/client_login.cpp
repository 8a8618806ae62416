#include "auth/client_login.h"

#include <array>
#include <span>

#include "auth/digest.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

namespace pgweir::auth {
namespace {

struct MethodWord {
  Method method;
  std::string_view word;
};
constexpr MethodWord kMethods[] = {
    {Method::trust, "trust"},
    {Method::any, "any"},
    {Method::plain, "plain"},
    {Method::md5, "md5"},
    {Method::scram_sha_256, "scram-sha-256"},
    {Method::cert, "cert"},
    {Method::peer, "peer"},
    {Method::pam, "pam"},
    {Method::ldap, "ldap"},
    {Method::reject, "reject"},
};

// The SQLSTATEs that PostgreSQL gives: no password was wrong, one was, the exchange was not
// followed.
constexpr std::string_view kInvalidAuthorization = "28000";
constexpr std::string_view kInvalidPassword = "28P01";
constexpr std::string_view kProtocolViolation = "08P01";

/// Of a SCRAM secret that a password in clear text is compared with; PostgreSQL's default is 4,096.
constexpr std::uint32_t kPlainIterationsMax = 100'000;

/// What an unknown user's password is compared with: nothing matches it, at the cost of what most users have.
Secret mock_secret(SecretForm form, const std::string& salt, std::uint32_t iterations) {
  switch (form) {
    case SecretForm::none:
    case SecretForm::plain:
      return {};
    case SecretForm::md5:
      return Secret::parse("md5" + std::string(32, '0'));
    case SecretForm::scram:
      return Secret::parse(to_text({.iterations = iterations, .salt = salt}));
  }
  return {};
}

bool password_matches(const Secret& secret, std::string_view password, std::string_view user) {
  switch (secret.form()) {
    case SecretForm::none:
      return false;
    case SecretForm::plain:
      return same_secret(secret.text(), password);
    case SecretForm::md5:
      return same_secret(secret.text(), "md5" + md5_of_password(password, user));
    case SecretForm::scram:
      // A role may store any count, and hashing it would hold up everybody.
      return secret.verifier().iterations <= kPlainIterationsMax && matches(secret.verifier(), password);
  }
  return false;
}

/// The hash that an md5 answer is made of; nullopt when the secret has no such form.
std::optional<std::string> md5_form(const Secret& secret, std::string_view user) {
  switch (secret.form()) {
    case SecretForm::none:
      return std::nullopt;
    case SecretForm::plain:
      return md5_of_password(secret.text(), user);
    case SecretForm::md5:
      return secret.text().substr(3);
    case SecretForm::scram:
      return std::nullopt;
  }
  return std::nullopt;
}

/// nullopt: no SCRAM exchange can succeed with this secret.
std::optional<ScramVerifier> scram_form(const Secret& secret, const std::string& salt,
                                        const LoginContext& context) {
  switch (secret.form()) {
    case SecretForm::none:
      return std::nullopt;
    case SecretForm::plain:
      return verifier_of(context.cache.get(secret.text(), salt, context.scram_iterations), salt,
                         context.scram_iterations);
    case SecretForm::md5:
      return std::nullopt;
    case SecretForm::scram:
      return secret.verifier();
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Method method) noexcept {
  for (const MethodWord& row : kMethods) {
    if (row.method == method) return row.word;
  }
  return "?";
}

std::optional<Method> parse_method(std::string_view auth_type) noexcept {
  for (const MethodWord& row : kMethods) {
    if (row.word == auth_type) return row.method;
  }
  return std::nullopt;
}

ClientLogin::ClientLogin(LoginTask task, const LoginContext& context)
    : method_(task.method),
      user_(std::move(task.user)),
      known_(task.secret != nullptr),
      secret_(task.secret ? *task.secret : Secret()),
      context_(context),
      server_end_point_(std::move(task.server_end_point)),
      refusal_(std::move(task.refusal)) {}

ClientLogin::~ClientLogin() {
  if (password_) wipe(*password_);
  if (keys_) wipe(keys_->client_key);
}

/// The form of the secret, or the one that a user who has none, or is unknown, is treated as having.
SecretForm ClientLogin::shown_form() const noexcept {
  return secret_.form() == SecretForm::none ? context_.usual_form : secret_.form();
}

Step ClientLogin::start() {
  switch (method_) {
    case Method::trust:
      return known_ ? accept() : refuse(PoolerError::not_trusted);
    case Method::any:
      return accept();
    case Method::plain:
      return ask_password();
    case Method::md5:
      return shown_form() == SecretForm::scram ? ask_scram() : ask_md5();
    case Method::scram_sha_256:
      return ask_scram();
    case Method::cert:  // Whoever starts this login has looked at the certificate, or at the socket's peer.
      return known_ ? accept() : refuse(PoolerError::wrong_certificate);
    case Method::peer:
      return known_ ? accept() : refuse(PoolerError::wrong_peer);
    case Method::pam:
    case Method::ldap:
      return ask_password();
    case Method::reject:
      return refuse(kInvalidAuthorization, refusal_.empty() ? text_of(PoolerError::login_rejected) : refusal_);
  }
  return refuse(PoolerError::no_method);
}

Step ClientLogin::on_password_message(Bytes body) {
  switch (state_) {
    case State::created:
      break;
    case State::wants_password:
      return check_password(body);
    case State::wants_md5:
      return check_md5(body);
    case State::wants_client_first:
      return check_client_first(body);
    case State::wants_client_final:
      return check_client_final(body);
    case State::wants_verdict:
    case State::ended:
      break;
  }
  return refuse(kProtocolViolation, "unexpected password message");
}

Step ClientLogin::on_verdict(const Status& verdict) {
  ENSURE(state_ == State::wants_verdict);
  if (!verdict) return refuse(kInvalidPassword, verdict.error().text());
  return accept();
}

Step ClientLogin::ask_password() {
  Step step;
  protocol::append_auth_cleartext(step.send);
  state_ = State::wants_password;
  return step;
}

Step ClientLogin::ask_md5() {
  if (!md5_available()) return refuse(PoolerError::no_md5);
  std::array<char, 4> salt;
  context_.random.fill(salt);
  md5_salt_.assign(salt.data(), salt.size());
  Step step;
  protocol::append_auth_md5(step.send, md5_salt_);
  state_ = State::wants_md5;
  return step;
}

Step ClientLogin::ask_scram() {
  // The salt for unknown users and for plain passwords comes from the same place, so that nothing
  // in the exchange tells them apart.
  const std::string salt = context_.server_secret.salt_for(user_);
  std::optional<ScramVerifier> verifier = scram_form(secret_, salt, context_);
  const ScramServer::Fate fate = verifier ? ScramServer::Fate::checked : ScramServer::Fate::doomed;
  if (!verifier) {
    verifier = ScramVerifier{.iterations = context_.scram_iterations, .salt = salt};
    // The first login of a known user with a plain password pays for its hash; so does this one.
    if (shown_form() == SecretForm::plain) {
      SaltedPasswordCache& work = context_.strangers ? *context_.strangers : context_.cache;
      verifier = verifier_of(work.get(salt, salt, context_.scram_iterations), salt, context_.scram_iterations);
    }
  }
  scram_.emplace(*std::move(verifier), fate, context_.random, server_end_point_);
  Step step;
  const std::array<Bytes, 2> mechanisms = {kScramPlusMechanism, kScramMechanism};
  const std::span<const Bytes> offered(mechanisms);
  protocol::append_auth_sasl(step.send, server_end_point_.empty() ? offered.subspan(1) : offered);
  state_ = State::wants_client_first;
  return step;
}

Step ClientLogin::check_password(Bytes body) {
  protocol::Reader reader(body);
  const Bytes password = reader.cstring();
  if (reader.failed() || !reader.at_end()) return refuse(kProtocolViolation, text_of(PoolerError::wrong_password));
  if (password.empty()) return refuse(PoolerError::empty_password);
  password_.emplace(password);
  if (method_ == Method::pam || method_ == Method::ldap) {
    state_ = State::wants_verdict;
    return {.state = Step::State::outside, .send = {}, .why = std::nullopt};
  }
  // Known or not: nobody learns from it who is.
  if (shown_form() == SecretForm::md5 && !md5_available()) {
    wipe(*password_);
    password_.reset();
    return refuse(PoolerError::no_md5);
  }
  // Checking takes its time, which would say whether there is something to check.
  const Secret mock = mock_secret(shown_form(), context_.server_secret.salt_for(user_), context_.scram_iterations);
  const bool comparable = secret_.form() != SecretForm::none;
  const bool matches = password_matches(comparable ? secret_ : mock, password, user_);
  if (!matches || !comparable) {
    wipe(*password_);
    password_.reset();
    return refuse(PoolerError::wrong_password);
  }
  return accept();
}

Step ClientLogin::check_md5(Bytes body) {
  protocol::Reader reader(body);
  const Bytes answer = reader.cstring();
  if (reader.failed() || !reader.at_end()) return refuse(kProtocolViolation, text_of(PoolerError::wrong_password));
  const std::optional<std::string> hash = md5_form(secret_, user_);
  // Without a secret the same work is done, for nothing.
  const bool hashes = secret_.form() == SecretForm::none && shown_form() == SecretForm::plain;
  const std::string wanted = md5_answer(hash ? *hash : hashes ? md5_of_password({}, user_) : std::string(32, '0'), md5_salt_);
  if (!same_secret(wanted, answer) || !hash) return refuse(PoolerError::wrong_password);
  return accept();
}

Step ClientLogin::check_client_first(Bytes body) {
  protocol::Reader reader(body);
  const Bytes mechanism = reader.cstring();
  const Bytes message = reader.bytes(reader.u32());
  const bool plus = mechanism == kScramPlusMechanism && !server_end_point_.empty();
  if (reader.failed() || !reader.at_end() || (!plus && mechanism != kScramMechanism)) {
    return refuse(kProtocolViolation, text_of(PoolerError::wrong_proof));
  }
  const Result<std::string> server_first = scram_->on_client_first(message, plus);
  if (!server_first) return refuse(server_first.error().sqlstate(), text_of(PoolerError::wrong_proof));
  Step step;
  protocol::append_auth_sasl_continue(step.send, *server_first);
  state_ = State::wants_client_final;
  return step;
}

Step ClientLogin::check_client_final(Bytes body) {
  const Result<std::string> server_final = scram_->on_client_final(body);
  if (!server_final) return refuse(server_final.error().sqlstate(), text_of(PoolerError::wrong_proof));
  // The key of a verifier that was made here for a plain password fits no server.
  if (secret_.form() == SecretForm::scram) keys_ = scram_->keys();
  std::string send;
  protocol::append_auth_sasl_final(send, *server_final);
  return accept(std::move(send));
}

Step ClientLogin::accept(std::string send) {
  state_ = State::ended;
  return {.state = Step::State::accepted, .send = std::move(send), .why = std::nullopt};
}

Step ClientLogin::refuse(PoolerError why) {
  const Error error = error_of(why);
  return refuse(error.sqlstate(), error.text());
}

Step ClientLogin::refuse(std::string_view sqlstate, std::string_view text) {
  state_ = State::ended;
  if (!known_ && !refusal_.empty() && sqlstate != kProtocolViolation) text = refusal_;
  return {.state = Step::State::refused,
          .send = {},
          .why = Error(std::string(sqlstate), std::string(text))};
}

Credentials ClientLogin::credentials() const {
  Credentials credentials = credentials_of(secret_);
  if (password_) credentials.password = password_;
  credentials.scram = keys_;
  return credentials;
}

}  // namespace pgweir::auth
