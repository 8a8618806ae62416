#include "net/log_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <regex>
#include <sstream>

namespace pgweir::net {
namespace {

struct TemporaryFile {
  TemporaryFile() {
    char name[] = "/tmp/pgweir-log-XXXXXX";
    const Fd file(::mkstemp(name));
    path = name;
  }
  ~TemporaryFile() { ::unlink(path.c_str()); }
  std::string content() const {
    std::ifstream in(path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  std::string path;
};

TEST_CASE("a line has PgBouncer's form", "[net]") {
  REQUIRE(log_line("2026-11-29 20:38:14.973 UTC", 42, LogLevel::warning, "two\nlines") ==
          "2026-11-29 20:38:14.973 UTC [42] WARNING two\n\tlines\n");
  TemporaryFile file;
  LogFile log;
  REQUIRE(log.configure({.file = file.path, .to_stderr = false}).ok());
  log.log("process up");
  REQUIRE(std::regex_match(
      file.content(),
      std::regex(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z0-9+-]+ \[\d+\] LOG process up\n)")));
}

TEST_CASE("the journal gets a priority before every line and no time", "[net]") {
  CHECK(journal_lines(LogLevel::warning, "first\nsecond") == "<4>first\n<4>\tsecond\n");
  CHECK(journal_lines(LogLevel::fatal, "x") == "<2>x\n");
}

TEST_CASE("verbose decides which levels are seen", "[net]") {
  TemporaryFile file;
  LogFile log;
  const int verbose = GENERATE(0, 1, 2);
  REQUIRE(log.configure({.file = file.path, .to_stderr = false, .verbose = verbose}).ok());
  log.write(LogLevel::debug, "a detail");
  log.write(LogLevel::noise, "a small detail");
  REQUIRE((file.content().find("DEBUG a detail") != std::string::npos) == (verbose >= 1));
  REQUIRE((file.content().find("NOISE a small detail") != std::string::npos) == (verbose >= 2));
}

TEST_CASE("reopening writes into a new file when the old one was moved away", "[net]") {
  TemporaryFile file;
  const std::string moved = file.path + ".1";
  LogFile log;
  REQUIRE(log.configure({.file = file.path, .to_stderr = false}).ok());
  log.log("before");
  REQUIRE(::rename(file.path.c_str(), moved.c_str()) == 0);
  REQUIRE(log.reopen().ok());
  log.log("after");
  REQUIRE(file.content().find("before") == std::string::npos);
  REQUIRE(file.content().find("after") != std::string::npos);
  ::unlink(moved.c_str());
}

TEST_CASE(
    "a log file that can't be opened, or an unknown facility, is an error and changes nothing",
    "[net]") {
  TemporaryFile file;
  LogFile log;
  REQUIRE(log.configure({.file = file.path, .to_stderr = false}).ok());
  const Status bad = log.configure({.file = "/nowhere/at/all", .to_stderr = false});
  REQUIRE_FALSE(bad.ok());
  REQUIRE(bad.error().text() == "logfile = \"/nowhere/at/all\": No such file or directory");
  REQUIRE_FALSE(
      log.configure({.to_stderr = false, .syslog = true, .syslog_facility = "loud"}).ok());
  log.log("still here");
  REQUIRE(file.content().find("still here") != std::string::npos);
}

}  // namespace
}  // namespace pgweir::net
