#include "auth/server_login.h"

#include "auth/digest.h"
#include "base/pooler_error.h"
#include "base/text.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

namespace pgweir::auth {
namespace {

namespace asked = protocol::authentication;

constexpr std::size_t kMd5SaltSize = 4;
constexpr std::string_view kMd5Prefix = "md5";

Error failed(std::string_view reason) {
  return Error("08P01", concat({"server login failed: ", reason}));
}

/// It is us who can't or won't: trying again won't help, so who waits is told.
Error declined(std::string_view reason) {
  return Error("28000", concat({"server login failed: ", reason}));
}

}  // namespace

ServerLogin::ServerLogin(std::string user, Credentials credentials, Random& random,
                         SaltedPasswordCache& cache)
    : user_(std::move(user)),
      credentials_(std::move(credentials)),
      random_(random),
      cache_(cache) {}

ServerLogin::~ServerLogin() = default;

Result<ServerLogin::Answer> ServerLogin::on_authentication(Bytes body, const Channel& channel) {
  protocol::Reader reader(body);
  const std::uint32_t what = reader.u32();
  if (reader.failed()) return failed("malformed authentication request");
  switch (what) {
    case asked::kOk:
      return ok();
    case asked::kCleartext:
      return cleartext(channel);
    case asked::kMd5:
      return md5(reader.rest());
    case asked::kSasl:
      return sasl(reader.rest(), channel);
    case asked::kSaslContinue:
      return sasl_continue(reader.rest());
    case asked::kSaslFinal:
      return sasl_final(reader.rest());
    default:
      return failed(concat({"unknown authentication method ", std::to_string(what)}));
  }
}

Result<ServerLogin::Answer> ServerLogin::ok() {
  // A server that asked for SCRAM and lets us in without its signature does not know our secret: an
  // impostor.
  if (sasl_ == Sasl::wants_server_first || sasl_ == Sasl::wants_server_final) {
    return declined("the server did not prove that it knows the password");
  }
  return Answer{.send = {}, .done = true};
}

Result<ServerLogin::Answer> ServerLogin::cleartext(const Channel& channel) {
  if (sasl_ != Sasl::none) return failed("unexpected authentication request");
  if (!credentials_.password) return error_of(PoolerError::wrong_password_type);
  if (!channel.safe) {
    return declined("the server asks for the password in clear text over a connection that is not encrypted "
                  "(server_tls_sslmode, or server_cleartext_password = 1)");
  }
  Answer answer;
  protocol::append_password(answer.send, *credentials_.password);
  return answer;
}

Result<ServerLogin::Answer> ServerLogin::md5(Bytes salt) {
  if (sasl_ != Sasl::none) return failed("unexpected authentication request");
  if (salt.size() != kMd5SaltSize) return failed("malformed authentication request");
  if (!md5_available()) return declined(text_of(PoolerError::no_md5));
  std::string hash;
  if (credentials_.password) {
    hash = md5_of_password(*credentials_.password, user_);
  } else if (credentials_.md5 && credentials_.md5->starts_with(kMd5Prefix)) {
    hash = credentials_.md5->substr(kMd5Prefix.size());
  } else {
    return error_of(PoolerError::wrong_password_type);
  }
  Answer answer;
  protocol::append_password(answer.send, md5_answer(hash, salt));
  return answer;
}

Result<ServerLogin::Answer> ServerLogin::sasl(Bytes mechanisms, const Channel& channel) {
  if (sasl_ != Sasl::none) return failed("unexpected authentication request");
  protocol::Reader reader(mechanisms);
  bool offered = false;
  bool offers_binding = false;
  for (Bytes name = reader.cstring(); !name.empty(); name = reader.cstring()) {
    offered |= name == kScramMechanism;
    offers_binding |= name == kScramPlusMechanism;
  }
  const bool can_bind = channel.encrypted && !channel.server_end_point.empty();
  const bool binds = can_bind && offers_binding;
  if (!offered && !binds) return declined("the server offers no SASL mechanism that is known here");
  ScramBinding binding;
  if (binds) {
    binding = {ScramBinding::Kind::bound, std::string(channel.server_end_point)};
  } else if (can_bind) {
    binding.kind = ScramBinding::Kind::not_offered;
  }
  if (credentials_.password) {
    scram_.emplace(*credentials_.password, cache_, random_, std::move(binding));
  } else if (credentials_.scram) {
    scram_.emplace(*credentials_.scram, random_, std::move(binding));
  } else {
    return error_of(PoolerError::wrong_password_type);
  }
  sasl_ = Sasl::wants_server_first;
  Answer answer;
  protocol::append_sasl_initial(answer.send, binds ? kScramPlusMechanism : kScramMechanism, scram_->client_first());
  return answer;
}

Result<ServerLogin::Answer> ServerLogin::sasl_continue(Bytes message) {
  if (sasl_ != Sasl::wants_server_first) return failed("unexpected authentication request");
  const Result<std::string> client_final = scram_->on_server_first(message);
  if (!client_final) return failed(client_final.error().text());
  sasl_ = Sasl::wants_server_final;
  Answer answer;
  protocol::append_sasl_response(answer.send, *client_final);
  return answer;
}

Result<ServerLogin::Answer> ServerLogin::sasl_final(Bytes message) {
  if (sasl_ != Sasl::wants_server_final) return failed("unexpected authentication request");
  if (const Status verified = scram_->on_server_final(message); !verified)
    return failed(verified.error().text());
  sasl_ = Sasl::verified;
  return Answer{};
}

}  // namespace pgweir::auth
