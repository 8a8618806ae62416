// Startup packets and the options parameter.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "protocol/startup.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

/// What was read, written again, reads the same.
void read_packet(Bytes packet) {
  const Result<StartupPacket> parsed = parse_startup(packet);
  if (!parsed) {
    demand(!parsed.error().text().empty());
    return;
  }
  const Startup* startup = std::get_if<Startup>(&*parsed);
  if (!startup) return;
  demand(startup->major == 3);
  std::string again;
  append_startup(again, startup->parameters);
  const Result<StartupPacket> second = parse_startup(again);
  demand(second.ok() && std::get<Startup>(*second).parameters == startup->parameters);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input(reinterpret_cast<const char*>(data), size);
  static_cast<void>(startup_size(input).ok());
  read_packet(input);
  // Once more with a length that is right, which chance rarely finds.
  std::string framed(input);
  if (framed.size() >= 4) store_u32(framed.data(), static_cast<std::uint32_t>(framed.size()));
  read_packet(framed);
  if (const auto options = parse_options(input)) {
    for (const Parameter& option : *options) demand(!option.first.empty());
  }
  return 0;
}
