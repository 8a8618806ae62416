#include "protocol/extended.h"

#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

namespace pgweir::protocol {
namespace {

std::optional<Target> parse_target(Bytes body) noexcept {
  Reader reader(body);
  const Target target{static_cast<char>(reader.u8()), reader.cstring()};
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  if (target.kind != 'S' && target.kind != 'P') return std::nullopt;
  return target;
}

}  // namespace

std::optional<Parse> parse_parse(Bytes body) noexcept {
  Reader reader(body);
  Parse parse;
  parse.name = reader.cstring();
  parse.query = reader.cstring();
  parse.types = TypeList(reader.bytes(std::size_t{4} * reader.u16()));
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return parse;
}

std::optional<Bind> parse_bind(Bytes body) noexcept {
  Reader reader(body);
  Bind bind;
  bind.portal = reader.cstring();
  bind.statement = reader.cstring();
  bind.rest = reader.rest();
  // Values are the server's to check; the three counts take two bytes each at least.
  if (reader.failed() || bind.rest.size() < 6) return std::nullopt;
  return bind;
}

std::optional<Target> parse_describe(Bytes body) noexcept { return parse_target(body); }
std::optional<Target> parse_close(Bytes body) noexcept { return parse_target(body); }

std::optional<Execute> parse_execute(Bytes body) noexcept {
  Reader reader(body);
  const Execute execute{reader.cstring(), reader.u32()};
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return execute;
}

void append_renamed(std::string& out, const Parse& parse, Bytes name) {
  Writer writer(out);
  writer.begin(frontend::kParse);
  writer.cstring(name);
  writer.cstring(parse.query);
  writer.u16(static_cast<std::uint16_t>(parse.types.size()));
  writer.bytes(parse.types.raw());
  writer.end();
}

void append_renamed(std::string& out, const Bind& bind, Bytes name) {
  Writer writer(out);
  writer.begin(frontend::kBind);
  writer.cstring(bind.portal);
  writer.cstring(name);
  writer.bytes(bind.rest);
  writer.end();
}

void append_renamed_describe(std::string& out, const Target& target, Bytes name) {
  append_describe(out, target.kind, name);
}

void append_renamed_close(std::string& out, const Target& target, Bytes name) {
  append_close(out, target.kind, name);
}

}  // namespace pgweir::protocol
