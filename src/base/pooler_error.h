// What the pooler itself has to say: one table of texts, which tools and people search for, and of
// the SQLSTATEs that PostgreSQL gives in the same case.
//
//   session.close(error_of(PoolerError::no_such_database, name));   // "no such database: shop", 3D000
//   close_server(server, text_of(PoolerError::evicted));            // in the log only
//
// What a server said is not here: it is passed on in the server's words, see Error::of_server().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace pgweir {

enum class PoolerError : std::uint8_t {
  // Who one is.
  wrong_password,
  wrong_proof,
  not_trusted,
  wrong_certificate,
  wrong_peer,
  login_rejected,
  empty_password,
  no_method,
  no_replication_rule,
  no_md5,
  // Where one wants to go.
  no_such_database,
  database_disabled,
  no_such_user,
  no_user_name,
  bad_configuration,
  console_not_allowed,
  // How many there may be.
  too_many_clients,
  too_many_database_clients,
  too_many_user_clients,
  // The startup packet.
  ssl_required,
  unencrypted_after_ssl_request,
  protocol_2,
  unsupported_parameter,
  unsupported_option,
  unsupported_options,
  no_terminator,
  // Time.
  query_wait_timeout,
  query_timeout_waiting,
  query_timeout,
  idle_transaction_timeout,
  transaction_timeout,
  client_idle_timeout,
  client_login_timeout,
  server_down,
  connect_timeout,
  own_query_timeout,
  cancel_wait_timeout,
  // Servers.
  name_lookup_failed,
  connect_failed,
  login_has_been_failing,
  login_failed,
  wrong_password_type,
  server_crashed,
  server_lifetime_over,
  server_idle_timeout,
  database_changed,
  pause_mode,
  primary_changed,
  evicted,
  replica_stuck,
  // What a client may not do here.
  transaction_in_statement_mode,
  simple_query_disallowed,
  broken_parse,
  unknown_statement,
  statement_name_in_use,
  // What the operator does.
  server_shutting_down,
  pooler_shutting_down,
  database_removed,
  disconnected_by_admin,
  reload_failed,
};
inline constexpr std::size_t kPoolerErrors = static_cast<std::size_t>(PoolerError::reload_failed) + 1;

struct PoolerErrorRow {
  PoolerError error;
  std::string_view sqlstate;  ///< as PostgreSQL would say it
  std::string_view text;      ///< '%' stands for the name that it is about
};
/// In the order of the enumerators.
std::span<const PoolerErrorRow, kPoolerErrors> pooler_errors() noexcept;

/// The text as it is in the table.
std::string_view text_of(PoolerError error) noexcept;
/// Ready to be said, with `name` in its place.
Error error_of(PoolerError error, std::string_view name = {});

}  // namespace pgweir
