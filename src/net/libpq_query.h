// libpq_query: asks a server something and waits for the answer, for commands that have nothing
// else to do.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "monitor/prober.h"

namespace pgweir::net {

/// Connects with a URL or connection string as psql takes it, runs the statements one after
/// another, and returns the rows of the last. Gives up on a server that does not answer within ten
/// seconds.
Result<monitor::Rows> query_and_wait(const std::string& connection_string,
                                     std::initializer_list<std::string_view> statements);

}  // namespace pgweir::net
