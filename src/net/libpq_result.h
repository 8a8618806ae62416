// libpq_result: what both users of libpq do with its connections and results.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>

#include "monitor/prober.h"

namespace pgweir::net {

struct FinishConnection {
  void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
struct ClearResult {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using Connection = std::unique_ptr<PGconn, FinishConnection>;
using Answer = std::unique_ptr<PGresult, ClearResult>;

/// Why there is no connection. The SQLSTATE is known when the connection's error verbosity was set
/// to PQERRORS_VERBOSE before the login.
Error connection_error(PGconn* connection);
Error answer_error(const PGresult* result);
monitor::Rows rows_of(const PGresult* result);

}  // namespace pgweir::net
