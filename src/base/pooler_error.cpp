#include "base/pooler_error.h"

#include <array>
#include <string>

namespace pgweir {
namespace {

// PgBouncer says 08P01 to all of these (sqlstate_style = pgbouncer). Those with 08P01 here have it in both styles, because
// scripts look for it there, or because nothing else fits.
// clang-format off
constexpr PoolerErrorRow kRows[] = {
    {PoolerError::wrong_password, "28P01", "password authentication failed"},
    {PoolerError::wrong_proof, "28P01", "SASL authentication failed"},
    {PoolerError::not_trusted, "28000", "\"trust\" authentication failed"},
    {PoolerError::wrong_certificate, "28000", "certificate authentication failed"},
    {PoolerError::wrong_peer, "28000", "unix socket login rejected"},
    {PoolerError::login_rejected, "28000", "login rejected"},
    {PoolerError::empty_password, "28P01", "empty password returned by client"},
    {PoolerError::no_method, "28000", "no authentication method is found"},
    // As PostgreSQL says it, for scripts that set up standbys look for it.
    {PoolerError::no_replication_rule, "28000", "no pg_hba.conf entry for replication connection from host %"},
    {PoolerError::no_md5, "0A000", "md5 authentication needs MD5, which OpenSSL does not offer here (FIPS mode?)"},

    {PoolerError::no_such_database, "3D000", "no such database: %"},
    {PoolerError::database_disabled, "55000", "database \"%\" is disabled"},
    {PoolerError::no_such_user, "28000", "no such user"},
    {PoolerError::no_user_name, "28000", "no username supplied"},
    {PoolerError::bad_configuration, "F0000", "bouncer config error"},
    {PoolerError::console_not_allowed, "08P01", "not allowed"},

    {PoolerError::too_many_clients, "53300", "no more connections allowed (max_client_conn)"},
    {PoolerError::too_many_database_clients, "53300", "client connections exceeded (max_db_client_connections)"},
    {PoolerError::too_many_user_clients, "53300", "client connections exceeded (max_user_client_connections)"},

    {PoolerError::ssl_required, "28000", "SSL required"},
    {PoolerError::unencrypted_after_ssl_request, "08P01", "received unencrypted data after SSL request"},
    {PoolerError::protocol_2, "0A000", "old V2 protocol not supported"},
    {PoolerError::unsupported_parameter, "08P01", "unsupported startup parameter: %"},
    {PoolerError::unsupported_option, "08P01", "unsupported startup parameter in options: %"},
    {PoolerError::unsupported_options, "22023",
     "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed"},
    {PoolerError::no_terminator, "08P01", "invalid startup packet layout: expected terminator as last byte"},

    {PoolerError::query_wait_timeout, "57P03", "query_wait_timeout"},
    {PoolerError::query_timeout_waiting, "57014", "query_timeout"},
    {PoolerError::query_timeout, "57014", "query timeout"},
    {PoolerError::idle_transaction_timeout, "25P03", "idle transaction timeout"},
    {PoolerError::transaction_timeout, "25P04", "transaction timeout"},
    {PoolerError::client_idle_timeout, "57P05", "client_idle_timeout"},
    {PoolerError::client_login_timeout, "57014", "client_login_timeout"},
    {PoolerError::server_down, "57P03", "client_login_timeout (server down)"},
    {PoolerError::connect_timeout, "08001", "connect timeout"},
    {PoolerError::own_query_timeout, "08006", "no answer to the pooler's own query (server_connect_timeout)"},
    {PoolerError::cancel_wait_timeout, "57014", "cancel_wait_timeout"},

    {PoolerError::name_lookup_failed, "08001", "server DNS lookup failed"},
    {PoolerError::connect_failed, "08001", "connect failed"},
    {PoolerError::login_has_been_failing, "08001", "server login has been failing, cached error: % (server_login_retry)"},
    {PoolerError::login_failed, "08001", "server login failed: %"},
    {PoolerError::wrong_password_type, "28000", "server login failed: wrong password type"},
    {PoolerError::server_crashed, "08006", "server conn crashed?"},
    {PoolerError::server_lifetime_over, "57P01", "server lifetime over"},
    {PoolerError::server_idle_timeout, "57P01", "server idle timeout"},
    {PoolerError::database_changed, "57P01", "database configuration changed"},
    {PoolerError::pause_mode, "57P01", "pause mode"},
    {PoolerError::primary_changed, "57P01", "the primary has changed"},
    {PoolerError::evicted, "57P01", "evicted"},
    {PoolerError::replica_stuck, "57014", "a read hangs on a replica that replays nothing (replica_read_timeout)"},

    {PoolerError::transaction_in_statement_mode, "0A000", "transaction blocks not allowed in statement pooling mode"},
    {PoolerError::simple_query_disallowed, "0A000", "PQexec disallowed"},
    {PoolerError::broken_parse, "08P01", "broken Parse packet"},
    // As PostgreSQL says it: the client keeps its connection.
    {PoolerError::unknown_statement, "26000", "prepared statement \"%\" does not exist"},
    {PoolerError::statement_name_in_use, "42P05", "prepared statement \"%\" already exists"},

    {PoolerError::server_shutting_down, "57P01", "server shutting down"},
    {PoolerError::pooler_shutting_down, "08P01", "pooler is shutting down"},
    {PoolerError::database_removed, "57P01", "database removed"},
    {PoolerError::disconnected_by_admin, "57P01", "admin forced disconnect"},
    {PoolerError::reload_failed, "F0000", "RELOAD failed, see logs for additional details"},
};
// clang-format on

constexpr bool in_order() noexcept {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<std::size_t>(kRows[i].error) != i || kRows[i].sqlstate.size() != 5) return false;
  }
  return std::size(kRows) == kPoolerErrors;
}
static_assert(in_order());

}  // namespace

std::span<const PoolerErrorRow, kPoolerErrors> pooler_errors() noexcept { return kRows; }

std::string_view text_of(PoolerError error) noexcept { return kRows[static_cast<std::size_t>(error)].text; }

Error error_of(PoolerError error, std::string_view name) {
  const PoolerErrorRow& row = kRows[static_cast<std::size_t>(error)];
  std::string text(row.text);
  if (const std::size_t place = text.find('%'); place != std::string::npos) text.replace(place, 1, name);
  return Error(std::string(row.sqlstate), std::move(text));
}

}  // namespace pgweir
