// SCRAM messages and everything around them that a peer sends before it has proved who it is.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "auth/client_login.h"
#include "auth/scram.h"
#include "auth/server_login.h"

using namespace pgweir;
using namespace pgweir::auth;

namespace {

class FixedRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = 'r';
  }
};

void demand(bool holds) {
  if (!holds) std::abort();
}

/// No sequence of messages that does not know the password gets in: the input is cut at empty
/// lines.
void log_in(Method method, const Secret* secret, const char* server_end_point, Bytes input, const LoginContext& context) {
  ClientLogin login({.method = method, .user = "alice", .secret = secret, .server_end_point = server_end_point}, context);
  Step step = login.start();
  while (step.state == Step::State::more && !input.empty()) {
    const std::size_t end = input.find("\n\n");
    step = login.on_password_message(input.substr(0, end));
    input = end == Bytes::npos ? Bytes() : input.substr(end + 2);
  }
  demand(step.state != Step::State::accepted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input(reinterpret_cast<const char*>(data), size);
  static FixedRandom random;
  static const ServerSecret server_secret = ServerSecret::draw(random);
  static SaltedPasswordCache cache(10);
  static const Secret secret = Secret::parse("a password that no fuzzer finds");
  const LoginContext context{
      .random = random, .server_secret = server_secret, .cache = cache, .scram_iterations = 1};
  for (const Method method : {Method::plain, Method::md5, Method::scram_sha_256}) {
    for (const char* server_end_point : {"", "hash"}) {
      log_in(method, &secret, server_end_point, input, context);
      log_in(method, nullptr, server_end_point, input, context);
    }
  }

  // With keys and not with a password: the iterations that a message asks for cost nothing then.
  ScramClient client(ScramKeys{}, random);
  static_cast<void>(client.on_server_first(input).ok());
  demand(!client.on_server_final(input).ok());
  for (const char* server_end_point : {"", "hash"}) {
    ServerLogin server_login("alice", {.password = {}, .md5 = {}, .scram = ScramKeys{}}, random, cache);
    static_cast<void>(
        server_login.on_authentication(input, {.safe = true, .encrypted = true, .server_end_point = server_end_point}).ok());
  }

  if (const auto verifier = parse_verifier(input))
    demand(parse_verifier(to_text(*verifier)) == verifier);
  return 0;
}
