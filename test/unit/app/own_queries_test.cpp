// Queries of the pooler's own: a server that does not answer them is given up, so that nobody waits for it for ever.
#include "bench.h"

namespace pgweir::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a server that does not answer server_check_query is replaced after server_connect_timeout", "[own_queries]") {
  Bench b("server_check_query = select 42\nserver_check_delay = 30\nserver_connect_timeout = 5\n");
  auto client = b.client("shop", "web");
  auto silent = b.server_logs_in();
  b.ask(*client, "select 1");
  b.answer(*silent, "SELECT 1");
  b.pass(31s);
  silent->take();
  b.ask(*client, "select 2");
  REQUIRE(silent->has("select 42"));
  CHECK_FALSE(silent->has("select 2"));
  b.pass(4s);
  CHECK(b.dialer.dialled.size() == 1);
  b.pass(1s);
  REQUIRE(b.dialer.dialled.size() == 2);
  auto fresh = b.server_logs_in();
  CHECK(fresh->has("select 2"));
  CHECK(error_on(*client).empty());
  CHECK(b.log.has("no answer to the pooler's own query"));
}

TEST_CASE("a server that does not answer its reset query is replaced after server_connect_timeout", "[own_queries]") {
  Bench b("pool_mode = session\nserver_connect_timeout = 5\n");
  auto first = b.client("shop", "web");
  auto silent = b.server_logs_in();
  b.ask(*first, "select 1");
  b.answer(*silent, "SELECT 1");
  first->hang_up();
  b.turn();
  REQUIRE(silent->has("DISCARD ALL"));
  auto second = b.client("shop", "web");
  b.ask(*second, "select 2");
  b.pass(4s);
  CHECK(b.dialer.dialled.size() == 1);
  b.pass(1s);
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(b.server_logs_in()->has("select 2"));
}

TEST_CASE("an answered query of the pooler's own leaves no deadline behind", "[own_queries]") {
  Bench b("pool_mode = session\nserver_connect_timeout = 5\n");
  auto first = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*first, "select 1");
  b.answer(*server, "SELECT 1");
  first->hang_up();
  b.turn();
  b.answer(*server, "DISCARD ALL");
  auto second = b.client("shop", "web");
  b.ask(*second, "select pg_sleep(60)");
  b.pass(10s);
  CHECK(b.dialer.dialled.size() == 1);
  b.answer(*server, "SELECT 1");
  CHECK(error_on(*second).empty());
}

}  // namespace
}  // namespace pgweir::test
