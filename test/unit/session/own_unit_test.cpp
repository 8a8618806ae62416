#include "session/own_unit.h"

#include <catch2/catch.hpp>
#include <string>

#include "protocol/writer.h"

using namespace pgweir;
using namespace pgweir::session;
using namespace pgweir::protocol;

namespace {

struct Messages {
  std::string bytes;
  Messages& parse(Bytes name = "") { return append_parse(bytes, name, "BEGIN"), *this; }
  Messages& bind(Bytes portal = "", Bytes name = "") { return append_bind(bytes, portal, name, {}), *this; }
  Messages& bind_one() {
    const std::optional<Bytes> parameters[] = {Bytes("1")};
    return append_bind(bytes, "", "", parameters), *this;
  }
  Messages& describe(char kind) { return append_describe(bytes, kind, ""), *this; }
  Messages& execute() { return append_execute(bytes, ""), *this; }
  Messages& flush() { return append_flush(bytes), *this; }
  Messages& sync() { return append_sync(bytes), *this; }
};

}  // namespace

TEST_CASE("a unit is answered here when it parses, binds and executes one unnamed statement", "[session]") {
  for (const std::string& unit : {Messages().parse().bind().execute().sync().bytes, Messages().parse().bind().describe('P').execute().sync().bytes,
                                  Messages().parse().describe('S').bind().execute().sync().bytes}) {
    const OwnUnit own = read_own_unit(unit + "more");
    CHECK(own.fits);
    CHECK(own.size == unit.size());
    for (std::size_t size = 0; size < unit.size(); ++size) {
      const OwnUnit part = read_own_unit(Bytes(unit).substr(0, size));
      CHECK(part.fits);
      CHECK(part.size == 0);
    }
  }
}

TEST_CASE("a unit that PostgreSQL would answer in another way is not answered here", "[session]") {
  for (const std::string& unit : {
           Messages().parse().sync().bytes,                              // not executed
           Messages().parse().execute().sync().bytes,                    // no portal
           Messages().parse().describe('P').bind().execute().sync().bytes,  // no portal yet
           Messages().parse().bind().execute().execute().sync().bytes,
           Messages().parse().bind().execute().bind().sync().bytes,
           Messages().parse().bind_one().execute().sync().bytes,         // it takes no parameter
           Messages().parse().bind("p").execute().sync().bytes,
           Messages().parse().bind("", "s").execute().sync().bytes,
           Messages().parse().parse().bind().execute().sync().bytes,
           Messages().parse().bind().execute().flush().sync().bytes,
       }) {
    CHECK_FALSE(read_own_unit(unit).fits);
  }
}
