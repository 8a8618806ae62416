// The header of the PROXY protocol.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "base/ip.h"
#include "protocol/proxy_header.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

void read(Bytes input) {
  const Result<std::optional<ProxyHeader>> header = parse_proxy_header(input);
  if (!header) {
    demand(header.error().sqlstate() == "08P01" && !header.error().text().empty());
    return;
  }
  if (!*header) {
    demand(input.size() < 16 + 4096);  // Nobody makes us keep more.
    return;
  }
  const ProxyHeader& found = **header;
  demand(found.size > 0 && found.size <= input.size());
  demand(found.host.empty() ? found.port == 0 : parse_ip(found.host).has_value());
  // What stands behind it changes nothing, and a part of it is never taken for the whole.
  const Bytes alone = input.substr(0, found.size);
  const Result<std::optional<ProxyHeader>> again = parse_proxy_header(alone);
  demand(again.ok() && again->has_value() && (*again)->host == found.host && (*again)->port == found.port);
  for (std::size_t cut = 0; cut < alone.size(); cut += 1 + alone.size() / 64) {
    const Result<std::optional<ProxyHeader>> part = parse_proxy_header(alone.substr(0, cut));
    demand(part.ok() && !part->has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input(reinterpret_cast<const char*>(data), size);
  read(input);
  // Once more behind the signatures, which chance rarely finds.
  read(std::string("PROXY TCP4 ") + std::string(input));
  std::string second("\r\n\r\n\0\r\nQUIT\n", 12);
  read(second + std::string(input));
  return 0;
}
