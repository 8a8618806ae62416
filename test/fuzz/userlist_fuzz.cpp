// The userlist: what was read, written again, reads the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "auth/userlist.h"

using namespace pgweir::auth;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Userlist list = parse_userlist({reinterpret_cast<const char*>(data), size}, "u");
  std::string again;
  for (const auto& [user, secret] : list.users)
    again += quoted(user) + " " + quoted(secret.text()) + "\n";
  const Userlist second = parse_userlist(again, "u");
  demand(second.warnings.empty());
  demand(second.users.size() == list.users.size());
  for (const auto& [user, secret] : list.users) {
    const Secret* found = second.users.find(user);
    demand(found && *found == secret);
  }
  return 0;
}
