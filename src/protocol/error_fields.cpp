#include "protocol/error_fields.h"

#include "protocol/reader.h"

namespace pgweir::protocol {

ErrorFields parse_error(Bytes body) noexcept {
  ErrorFields fields;
  Bytes translated;
  Reader reader(body);
  for (std::uint8_t code = reader.u8(); code != 0; code = reader.u8()) {
    const Bytes value = reader.cstring();
    switch (static_cast<char>(code)) {
      case 'V':
        fields.severity = value;
        break;
      case 'S':
        translated = value;
        break;
      case 'C':
        fields.sqlstate = value;
        break;
      case 'M':
        fields.message = value;
        break;
      case 'D':
        fields.detail = value;
        break;
      case 'H':
        fields.hint = value;
        break;
      case 'W':
        fields.where = value;
        break;
      case 's':
        fields.schema = value;
        break;
      case 't':
        fields.table = value;
        break;
      case 'F':
        fields.file = value;
        break;
      case 'L':
        fields.line = value;
        break;
      case 'R':
        fields.routine = value;
        break;
      default:
        break;  // Fields that nobody here asks for, and those of versions to come.
    }
  }
  if (fields.severity.empty()) fields.severity = translated;
  return fields;
}

}  // namespace pgweir::protocol
