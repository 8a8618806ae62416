// What an ErrorResponse or NoticeResponse says.
#pragma once

#include "base/bytes.h"

namespace pgweir::protocol {

/// Views of the message's body. A field that was not sent is empty.
struct ErrorFields {
  Bytes severity;  ///< Field V, which is never translated; field S when a server sends no V.
  Bytes sqlstate;
  Bytes message;
  Bytes detail;
  Bytes hint;
  Bytes where;
  Bytes schema;
  Bytes table;
  Bytes file;
  Bytes line;
  Bytes routine;  ///< The C function that raised it: tells errors apart that share a SQLSTATE.

  /// FATAL and PANIC end the connection.
  bool ends_connection() const noexcept { return severity == "FATAL" || severity == "PANIC"; }
};

/// Reads what can be read: a body that breaks off gives the fields before the break.
ErrorFields parse_error(Bytes body) noexcept;

}  // namespace pgweir::protocol
