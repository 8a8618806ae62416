// The messages of the extended protocol as views, and the same messages with another statement
// name: clients' prepared statements go by names of our own on the servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

namespace pgweir::protocol {

/// The oids of a Parse, read in place.
class TypeList {
 public:
  TypeList() = default;
  explicit TypeList(Bytes raw) noexcept : raw_(raw) {}
  std::size_t size() const noexcept { return raw_.size() / 4; }
  std::uint32_t operator[](std::size_t i) const noexcept { return load_u32(raw_.data() + 4 * i); }
  /// As on the wire: equal bytes are equal types.
  Bytes raw() const noexcept { return raw_; }

 private:
  Bytes raw_;
};

struct Parse {
  Bytes name;
  Bytes query;
  TypeList types;
};
struct Bind {
  Bytes portal;
  Bytes statement;
  Bytes rest;  ///< From the parameter formats to the end.
};
/// Describe or Close.
struct Target {
  char kind = 'S';  ///< 'S' statement, 'P' portal.
  Bytes name;

  bool is_statement() const noexcept { return kind == 'S'; }
};
struct Execute {
  Bytes portal;
  std::uint32_t max_rows = 0;  ///< 0: all.
};

/// nullopt: the body is not one of these messages, which is a protocol error of the peer. Bytes
/// behind the fields count as an error too.
std::optional<Parse> parse_parse(Bytes body) noexcept;
std::optional<Bind> parse_bind(Bytes body) noexcept;
std::optional<Target> parse_describe(Bytes body) noexcept;
std::optional<Target> parse_close(Bytes body) noexcept;
std::optional<Execute> parse_execute(Bytes body) noexcept;

/// The whole message, header included, with `name` as the statement's name.
void append_renamed(std::string& out, const Parse& parse, Bytes name);
void append_renamed(std::string& out, const Bind& bind, Bytes name);
void append_renamed_describe(std::string& out, const Target& target, Bytes name);
void append_renamed_close(std::string& out, const Target& target, Bytes name);

}  // namespace pgweir::protocol
