#include "base/pooler_error.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;

namespace {

/// A text of PgBouncer 1.25.2 as clients and log watchers know it, and what PostgreSQL says in the same case.
struct Known {
  std::string_view text;
  std::string_view sqlstate;
  std::string_view name = {};  ///< what the error is about
};

// Written down here a second time on purpose: a text that changes breaks somebody's script.
constexpr Known kKnown[] = {
    {"password authentication failed", "28P01"},
    {"SASL authentication failed", "28P01"},
    {"\"trust\" authentication failed", "28000"},
    {"certificate authentication failed", "28000"},
    {"unix socket login rejected", "28000"},
    {"login rejected", "28000"},
    {"empty password returned by client", "28P01"},
    {"no authentication method is found", "28000"},
    {"no such database: attic", "3D000", "attic"},
    {"database \"attic\" is disabled", "55000", "attic"},
    {"no such user", "28000"},
    {"no username supplied", "28000"},
    {"bouncer config error", "F0000"},
    {"no more connections allowed (max_client_conn)", "53300"},
    {"client connections exceeded (max_db_client_connections)", "53300"},
    {"client connections exceeded (max_user_client_connections)", "53300"},
    {"SSL required", "28000"},
    {"received unencrypted data after SSL request", "08P01"},
    {"old V2 protocol not supported", "0A000"},
    {"unsupported startup parameter: extra_float_digits", "08P01", "extra_float_digits"},
    {"unsupported startup parameter in options: geqo", "08P01", "geqo"},
    {"unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed", "22023"},
    {"invalid startup packet layout: expected terminator as last byte", "08P01"},
    {"query_wait_timeout", "57P03"},
    {"query_timeout", "57014"},
    {"query timeout", "57014"},
    {"idle transaction timeout", "25P03"},
    {"transaction timeout", "25P04"},
    {"client_idle_timeout", "57P05"},
    {"client_login_timeout", "57014"},
    {"client_login_timeout (server down)", "57P03"},
    {"connect timeout", "08001"},
    {"server DNS lookup failed", "08001"},
    {"connect failed", "08001"},
    {"server login has been failing, cached error: gone (server_login_retry)", "08001", "gone"},
    {"server login failed: wrong password type", "28000"},
    {"server conn crashed?", "08006"},
    {"server lifetime over", "57P01"},
    {"server idle timeout", "57P01"},
    {"database configuration changed", "57P01"},
    {"pause mode", "57P01"},
    {"evicted", "57P01"},
    {"cancel_wait_timeout", "57014"},
    {"transaction blocks not allowed in statement pooling mode", "0A000"},
    {"PQexec disallowed", "0A000"},
    {"broken Parse packet", "08P01"},
    {"server shutting down", "57P01"},
    {"pooler is shutting down", "08P01"},
    {"database removed", "57P01"},
    {"admin forced disconnect", "57P01"},
    {"not allowed", "08P01"},
    {"RELOAD failed, see logs for additional details", "F0000"},
};

// Where PgBouncer closes the connection and PostgreSQL answers with an error: we answer as PostgreSQL does.
constexpr Known kOnPurpose[] = {
    {"prepared statement \"s\" does not exist", "26000", "s"},
    {"prepared statement \"s\" already exists", "42P05", "s"},
    {"server login failed: connection refused", "08001", "connection refused"},
    // What its users know of the server behind it; PgBouncer's own rules say "no authentication method is found".
    {"no pg_hba.conf entry for replication connection from host \"10.1.2.3\", user \"standby\", no encryption", "28000",
     "\"10.1.2.3\", user \"standby\", no encryption"},
    // PgBouncer has no such case.
    {"md5 authentication needs MD5, which OpenSSL does not offer here (FIPS mode?)", "0A000"},
    {"no answer to the pooler's own query (server_connect_timeout)", "08006"},
    {"the primary has changed", "57P01"},
    {"a read hangs on a replica that replays nothing (replica_read_timeout)", "57014"},
};

bool says(const PoolerErrorRow& row, const Known& known) {
  const Error error = error_of(row.error, known.name);
  return error.text() == known.text && error.sqlstate() == known.sqlstate;
}

template <std::size_t N>
bool any_says(const PoolerErrorRow& row, const Known (&known)[N]) {
  return std::any_of(std::begin(known), std::end(known), [&](const Known& each) { return says(row, each); });
}

}  // namespace

TEST_CASE("every error text that tools know from PgBouncer is in the table, with its SQLSTATE", "[base]") {
  for (const Known& known : kKnown) {
    INFO(known.text);
    CHECK(std::any_of(pooler_errors().begin(), pooler_errors().end(),
                      [&](const PoolerErrorRow& row) { return says(row, known); }));
  }
}

TEST_CASE("the table holds nothing that nobody wrote down", "[base]") {
  for (const PoolerErrorRow& row : pooler_errors()) {
    INFO(row.text);
    CHECK((any_says(row, kKnown) || any_says(row, kOnPurpose)));
  }
}

TEST_CASE("a name that holds the mark for names is said as it is", "[base]") {
  CHECK(error_of(PoolerError::no_such_database, "100%").text() == "no such database: 100%");
}

TEST_CASE("what a server said stays marked as such, also with its place in front", "[base]") {
  CHECK_FALSE(error_of(PoolerError::evicted).is_of_server());
  const Error said = Error::of_server("28000", "no").at("here");
  CHECK(said.is_of_server());
  CHECK(said.text() == "here: no");
}
