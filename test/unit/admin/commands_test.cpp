#include "admin/commands.h"

#include <catch2/catch.hpp>

#include "admin/orders.h"
#include "base/text.h"

using namespace pgweir;
using namespace pgweir::admin;

namespace {

/// "WORDS|argument", or the error.
std::string found_of(std::string_view text) {
  Result<Found> found = find_command(text);
  return found ? concat({found->command->words, "|", found->argument}) : found.error().text();
}

}  // namespace

TEST_CASE("all values of STATS are numeric", "[admin]") {
  for (const Command& command : commands()) {
    if (command.words.substr(0, 10) != "SHOW STATS") continue;
    for (const Column& column : command.columns.subspan(1)) CHECK(column.type == Type::numeric);
  }
}

TEST_CASE("commands are found in any case, with a semicolon, and as SELECT", "[admin]") {
  CHECK(found_of("SHOW VERSION") == "SHOW VERSION|");
  CHECK(found_of(" show\n\tversion ; ") == "SHOW VERSION|");
  CHECK(found_of("select stats") == "SHOW STATS|");
  CHECK(found_of("show stats_totals;") == "SHOW STATS_TOTALS|");
  CHECK(found_of("pause") == "PAUSE|");
  CHECK(found_of("Pause \"My db\";") == "PAUSE|\"My db\"");
  CHECK(found_of("SHUTDOWN") == "SHUTDOWN|");
  CHECK(found_of("shutdown wait_for_clients") == "SHUTDOWN WAIT_FOR_CLIENTS|");
  CHECK(found_of("EXPLAIN ROUTE SELECT a, 'b;'; ") == "EXPLAIN ROUTE|SELECT a, 'b;'");
  CHECK(found_of("set a = b") == "SET|a = b");
}

TEST_CASE("what is no command is refused in PgBouncer's words", "[admin]") {
  CHECK(found_of("") == "invalid command '', use SHOW HELP;");
  CHECK(found_of(";") == "invalid command ';', use SHOW HELP;");
  CHECK(found_of("BEGIN") == "invalid command 'BEGIN', use SHOW HELP;");
  CHECK(found_of("select 1") == "invalid command 'select 1', use SHOW HELP;");
  CHECK(found_of("SHOW nope") == "invalid command 'SHOW nope', use SHOW HELP;");
  CHECK(found_of("SHOW VERSION; SHOW STATS") ==
        "invalid command 'SHOW VERSION; SHOW STATS', use SHOW HELP;");
  CHECK(found_of("SHOW VERSION x") == "invalid command 'SHOW VERSION x', use SHOW HELP;");
  CHECK(found_of("SELECT HELP") == "SHOW HELP|");
  CHECK(found_of("EXPLAIN SELECT 1") == "invalid command 'EXPLAIN SELECT 1', use SHOW HELP;");
  CHECK(found_of(std::string(9999, 'x')).size() < 300);
}

TEST_CASE("SET is read with = and with TO, quoted or bare", "[admin]") {
  const auto set_of = [](std::string_view text) {
    const std::optional<SetText> set = parse_set(text);
    return set ? concat({set->name, "|", set->value}) : "no";
  };
  CHECK(set_of("a = b") == "a|b");
  CHECK(set_of("a=b") == "a|b");
  CHECK(set_of("a TO 'it''s'") == "a|it's");
  CHECK(set_of("a to'x'") == "a|x");
  CHECK(set_of("a = scram-sha-256") == "a|scram-sha-256");
  CHECK(set_of("a = ''") == "a|");
  CHECK(set_of("a") == "no");
  CHECK(set_of("a =") == "no");
  CHECK(set_of("a = 'x") == "no");
  CHECK(set_of("a = 'x' y") == "no");
  CHECK(set_of("= b") == "no");
  CHECK(set_of("a b") == "no");
}
