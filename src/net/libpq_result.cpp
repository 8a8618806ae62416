#include "net/libpq_result.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace pgweir::net {
namespace {

/// Lines and their tabs become spaces: the text goes into a log line or an error.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : trimmed(text)) {
    const bool blank = c == '\n' || c == '\t' || c == ' ';
    if (!blank || !out.ends_with("  ")) out += blank ? ' ' : c;
  }
  return out;
}

}  // namespace

/// libpq gives no SQLSTATE for a failed login, but writes one into its verbose message:
/// `… failed: FATAL:  28P01: password authentication failed …` and a LOCATION line after it.
Error connection_error(PGconn* connection) {
  std::string text = connection ? PQerrorMessage(connection) : "out of memory";
  if (const std::size_t location = text.find("\nLOCATION:"); location != std::string::npos)
    text.resize(location);
  const auto is_code = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) || (c >= 'A' && c <= 'Z');
  };
  for (std::size_t at = 0; (at = text.find(":  ", at)) != std::string::npos; ++at) {
    const std::string code = text.substr(at + 3, 5);
    if (code.size() == 5 && std::all_of(code.begin(), code.end(), is_code) &&
        text.compare(at + 8, 2, ": ") == 0) {
      text.erase(at + 3, 7);
      return Error(code, one_line(text));
    }
  }
  // The server asked for a password and libpq had none: as good as a refusal, and never sent as one.
  if (connection && PQconnectionNeedsPassword(connection)) return Error("28P01", one_line(text));
  return Error(one_line(text));
}

Error answer_error(const PGresult* result) {
  const char* code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  return Error(code ? code : "", text ? std::string(text) : one_line(PQresultErrorMessage(result)));
}

monitor::Rows rows_of(const PGresult* result) {
  monitor::Rows rows(static_cast<std::size_t>(PQntuples(result)));
  const int columns = PQnfields(result);
  for (int row = 0; row < PQntuples(result); ++row) {
    auto& cells = rows[static_cast<std::size_t>(row)];
    cells.reserve(static_cast<std::size_t>(columns));
    for (int column = 0; column < columns; ++column) {
      if (PQgetisnull(result, row, column)) {
        cells.emplace_back(std::nullopt);
      } else {
        cells.emplace_back(std::string(PQgetvalue(result, row, column),
                                       static_cast<std::size_t>(PQgetlength(result, row, column))));
      }
    }
  }
  return rows;
}

}  // namespace pgweir::net
