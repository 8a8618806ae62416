#include "net/libpq_query.h"

#include "base/text.h"
#include "net/libpq_result.h"

namespace pgweir::net {

Result<monitor::Rows> query_and_wait(const std::string& connection_string,
                                     std::initializer_list<std::string_view> statements) {
  // What the caller's string says beats what stands before it; dbname takes whole URLs.
  const char* names[] = {"connect_timeout",  "application_name", "client_encoding",
                         "tcp_user_timeout", "dbname",           nullptr};
  const char* values[] = {"10", "pgweir", "UTF8", "10000", connection_string.c_str(), nullptr};
  const Connection connection(PQconnectdbParams(names, values, 1));
  if (!connection || PQstatus(connection.get()) != CONNECTION_OK)
    return connection_error(connection.get());
  PQsetNoticeReceiver(
      connection.get(), [](void*, const PGresult*) {}, nullptr);
  monitor::Rows rows;
  for (const std::string_view statement : statements) {
    const Answer answer(PQexec(connection.get(), std::string(statement).c_str()));
    switch (PQresultStatus(answer.get())) {
      case PGRES_TUPLES_OK:
        rows = rows_of(answer.get());
        break;
      case PGRES_COMMAND_OK:
      case PGRES_EMPTY_QUERY:
        rows.clear();
        break;
      case PGRES_COPY_OUT:
      case PGRES_COPY_IN:
      case PGRES_COPY_BOTH:
      case PGRES_BAD_RESPONSE:
      case PGRES_NONFATAL_ERROR:
      case PGRES_FATAL_ERROR:
      case PGRES_SINGLE_TUPLE:
      case PGRES_PIPELINE_SYNC:
      case PGRES_PIPELINE_ABORTED:
        return answer ? answer_error(answer.get()) : connection_error(connection.get());
    }
  }
  return rows;
}

}  // namespace pgweir::net
