// The framer over any stream and any cuts of it, and every reader of a message's body over what
// comes out.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "protocol/error_fields.h"
#include "protocol/extended.h"
#include "protocol/framer.h"

using namespace pgweir;
using namespace pgweir::protocol;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

/// Gathers what a framer gives, as one text to compare.
struct Log {
  Framer framer{1 << 20};
  Collector collector;
  std::string messages;
  std::string wire;

  void feed(Bytes input) {
    while (const std::optional<Slice> slice = framer.next(input)) {
      wire += slice->bytes;
      demand(slice->last == (framer.remaining() == 0));
      if (const std::optional<Bytes> body = collector.add(*slice)) {
        demand(body->size() == slice->size);
        messages += slice->type;
        messages += *body;
      }
    }
    demand(input.empty() || framer.broken());
  }
};

/// What was read is what is written again under the same name.
void read_body(Bytes body) {
  std::string out;
  if (const auto parse = parse_parse(body)) {
    for (std::size_t i = 0; i < parse->types.size(); ++i) static_cast<void>(parse->types[i]);
    append_renamed(out, *parse, parse->name);
    demand(Bytes(out).substr(kHeaderSize) == body);
  }
  if (const auto bind = parse_bind(body)) {
    out.clear();
    append_renamed(out, *bind, bind->statement);
    demand(Bytes(out).substr(kHeaderSize) == body);
  }
  if (const auto target = parse_describe(body)) {
    out.clear();
    append_renamed_describe(out, *target, target->name);
    demand(Bytes(out).substr(kHeaderSize) == body);
  }
  static_cast<void>(parse_close(body));
  static_cast<void>(parse_execute(body));
  static_cast<void>(parse_error(body).ends_connection());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes stream(reinterpret_cast<const char*>(data), size);
  Log at_once, in_parts;
  at_once.feed(stream);
  // The stream's own bytes say where it is cut: 1 to 16 bytes a read.
  for (std::size_t at = 0; at < stream.size();) {
    const Bytes part = stream.substr(at, 1 + (static_cast<unsigned char>(stream[at]) & 15));
    in_parts.feed(part);
    at += part.size();
  }
  demand(at_once.messages == in_parts.messages);
  demand(at_once.framer.broken() == in_parts.framer.broken());
  // A broken header is passed on in neither way; before it all bytes were.
  demand(at_once.framer.broken() || at_once.framer.in_message() || at_once.wire == stream);
  read_body(stream);
  return 0;
}
