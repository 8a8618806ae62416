#include "tokens/session_token.h"

#include <catch2/catch.hpp>

namespace pgweir::tokens {

TEST_CASE("a session that did nothing needs nothing", "[tokens]") {
  const CaptureLog log;
  CHECK(SessionToken{}.empty());
  CHECK(SessionToken{}.need(log).nothing());
}

TEST_CASE("a session needs its own write, and not what others wrote later", "[tokens]") {
  CaptureLog log;
  SessionToken token;
  token.wrote(log.mark());
  CHECK(token.need(log).pending != 0);
  log.captured(log.begin_capture(), Lsn{100});
  log.mark();
  log.captured(log.begin_capture(), Lsn{200});
  CHECK(token.need(log).lsn == Lsn{100});
}

TEST_CASE("pitfall 6: after a read on the primary only a capture sent later tells what was seen",
          "[tokens]") {
  CaptureLog log;
  const Ticket earlier = log.begin_capture();
  SessionToken token;
  token.read_primary(log);
  log.captured(earlier, Lsn{100});
  CHECK(token.need(log).pending != 0);
  log.captured(log.begin_capture(), Lsn{150});
  CHECK(token.need(log).lsn == Lsn{150});
}

TEST_CASE("an LSN that a session saw survives a promotion as what the new primary has",
          "[tokens]") {
  CaptureLog log;
  SessionToken token;
  token.saw(Lsn{500}, log);
  log.clamp(Lsn{300});
  CHECK(token.need(log).lsn == Lsn{300});
  token.saw(Lsn{310}, log);
  CHECK(token.need(log).lsn == Lsn{310});
}

TEST_CASE("joined tokens need what both need", "[tokens]") {
  CaptureLog log;
  SessionToken writer;
  writer.wrote(log.mark());
  log.captured(log.begin_capture(), Lsn{100});
  SessionToken reader;
  reader.saw(Lsn{70}, log);
  reader.join(writer, log);
  CHECK(reader.need(log).lsn == Lsn{100});
  writer.join(reader, log);
  CHECK(writer.need(log).lsn == Lsn{100});
}

}  // namespace pgweir::tokens
