#include "protocol/error_fields.h"

#include <catch2/catch.hpp>
#include <string>

#include "protocol/framer.h"
#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::protocol;

TEST_CASE("an error's fields are views of its body, and V comes before the translated S",
          "[protocol]") {
  constexpr char kBody[] =
      "SFEHLER\0VERROR\0C25006\0Mcannot execute INSERT in a read-only "
      "transaction\0Futility.c\0L411\0"
      "RPreventCommandIfReadOnly\0";  // And the literal's own zero byte, which ends the list.
  const Bytes body(kBody, sizeof kBody);
  const ErrorFields fields = parse_error(body);
  CHECK(fields.severity == "ERROR");
  CHECK(fields.sqlstate == "25006");
  CHECK(fields.message == "cannot execute INSERT in a read-only transaction");
  CHECK(fields.file == "utility.c");
  CHECK(fields.line == "411");
  CHECK(fields.routine == "PreventCommandIfReadOnly");
  CHECK(fields.detail.empty());
  CHECK_FALSE(fields.ends_connection());
}

TEST_CASE("an error without V gives its S", "[protocol]") {
  std::string out;
  append_error(out, "FATAL", "57P01", "terminating", "detail", "hint");
  const ErrorFields fields = parse_error(Bytes(out).substr(kHeaderSize));
  CHECK(fields.severity == "FATAL");
  CHECK(fields.detail == "detail");
  CHECK(fields.hint == "hint");
  CHECK(fields.ends_connection());
}

TEST_CASE("an error that breaks off gives the fields before the break", "[protocol]") {
  const ErrorFields fields = parse_error(Bytes("SERROR\0C25006\0Mcut", 18));
  CHECK(fields.severity == "ERROR");
  CHECK(fields.sqlstate == "25006");
  CHECK(fields.message.empty());
  CHECK(parse_error({}).sqlstate.empty());
}
