#include "sql/statement_class.h"

#include <algorithm>

namespace pgweir::sql {

void TableSet::join(const TableSet& other) {
  all = all || other.all;
  if (all) return keys.clear();
  for (TableKey key : other.keys) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
}

Bytes to_string(Target target) noexcept {
  switch (target) {
    case Target::primary:
      return "primary";
    case Target::replica:
      return "replica";
  }
  return "";
}

Bytes to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::empty:
      return "empty";
    case Kind::read:
      return "read";
    case Kind::write:
      return "write";
    case Kind::transaction_control:
      return "transaction_control";
    case Kind::session_state:
      return "session_state";
    case Kind::utility:
      return "utility";
    case Kind::unknown:
      return "unknown";
  }
  return "";
}

Bytes to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::none:
      return "none";
    case Cause::write:
      return "write";
    case Cause::primary_function:
      return "primary_function";
    case Cause::unlogged:
      return "unlogged";
    case Cause::unparsed:
      return "unparsed";
    case Cause::transaction_control:
      return "transaction_control";
    case Cause::session_state:
      return "session_state";
    case Cause::server_view:
      return "server_view";
  }
  return "";
}

// Letters beyond ASCII are one symbol, however many there are: client and server encodings may
// spell them differently, and PostgreSQL folds some of them in single-byte encodings. Sharing a key
// is always safe.
TableKey table_key(Bytes bare_name) noexcept {
  std::uint64_t hash = 14695981039346656037U;
  bool beyond_ascii = false;
  for (char c : bare_name) {
    const bool high = (static_cast<unsigned char>(c) & 0x80) != 0;
    if (high && beyond_ascii) continue;
    beyond_ascii = high;
    hash = (hash ^ (high ? 0x80U : static_cast<unsigned char>(c))) * 1099511628211U;
  }
  return hash;
}

}  // namespace pgweir::sql
