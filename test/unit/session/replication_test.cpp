#include "session/replication.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;
using namespace pgweir::session;

TEST_CASE("the startup parameter replication is read as PostgreSQL reads it", "[session]") {
  for (const char* word : {"true", "TRUE", "tr", "t", "yes", "y", "on", "ON", "1"}) {
    INFO(word);
    CHECK(replication_asked(word) == Replication::physical);
  }
  for (const char* word : {"false", "f", "no", "N", "off", "of", "0"}) {
    INFO(word);
    CHECK(replication_asked(word) == Replication::none);
  }
  CHECK(replication_asked("database") == Replication::logical);
  for (const char* word : {"", "o", "2", "truee", "DATABASE", "logical", " on"}) {
    INFO(word);
    CHECK(replication_asked(word) == std::nullopt);
  }
}

TEST_CASE("only a walsender's own commands are no SQL", "[session]") {
  const auto command = [](std::string text) { return is_replication_command(Bytes(text.c_str(), text.size() + 1)); };
  CHECK(command("IDENTIFY_SYSTEM"));
  CHECK(command("  identify_system;"));
  CHECK(command("START_REPLICATION SLOT a LOGICAL 0/0 (proto_version '1')"));
  CHECK(command("CREATE_REPLICATION_SLOT s LOGICAL pgoutput"));
  CHECK(command("BASE_BACKUP (LABEL 'x')"));
  CHECK(command("BASE_BACKUP(LABEL 'x')"));
  CHECK(command("TIMELINE_HISTORY 2"));
  CHECK_FALSE(command("INSERT INTO t VALUES (1)"));
  CHECK_FALSE(command("BASE_BACKUPS()"));
  CHECK_FALSE(command("base_backup$1"));
  CHECK_FALSE(command("base_backup\xc3\xa4"));
  CHECK_FALSE(command(""));
  CHECK_FALSE(command("   "));
  // Only part of the text has come: it may go on as another word.
  CHECK_FALSE(is_replication_command("BASE_BACKUP"));
  CHECK_FALSE(is_replication_command("BASE_"));
}
