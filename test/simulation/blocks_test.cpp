// Transaction blocks that may read on replicas, played one by one.
#include <catch2/catch.hpp>

#include "base/text.h"
#include "scene.h"

using namespace pgweir;
using namespace pgweir::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr const char* kRepeatable = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

Scene::Settings both() { return {{"transaction_reads", "replica"}, {"read_only_transactions", "replica"}, {"replica_wait", "0"}}; }

bool begin(Scene& scene, SimClient& client, const std::string& text) {
  Unit unit = plan_simple(client.plan(), text, "CZ");
  unit.begins = true;
  unit.read_only = text.find("ONLY") != std::string::npos;
  unit.repeatable = text.find("REPEATABLE") != std::string::npos;
  return scene.ask(client, std::move(unit)) && client.status() == 'T';
}

bool end(Scene& scene, SimClient& client, const std::string& text) {
  Unit unit = plan_simple(client.plan(), text, "CZ");
  unit.ends = true;
  unit.rolls_back = text == "ROLLBACK";
  return scene.ask(client, std::move(unit)) && client.status() == 'I';
}

}  // namespace

TEST_CASE("a block reads on a replica until it writes, and on the primary from then on") {
  Scene scene(both());
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  REQUIRE(begin(scene, client, "BEGIN"));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(scene.read(client, 3));
    CHECK_FALSE(scene.on_primary(client));
    CHECK(client.status() == 'T');
  }
  REQUIRE(scene.write(client, 0));
  REQUIRE(scene.read(client, 3));
  CHECK(scene.on_primary(client));
  REQUIRE(end(scene, client, "COMMIT"));
  CHECK(scene.failure() == "");
}

TEST_CASE("a block that only read holds no server, and ends without one") {
  Scene scene(both());
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  REQUIRE(begin(scene, client, "BEGIN"));
  REQUIRE(scene.read(client, 3));
  // Nobody is there any more who could commit it.
  scene.node(0).stop(false);
  scene.world.clients.trouble = true;
  REQUIRE(end(scene, client, "COMMIT"));
  CHECK(client.last_error() == "");
  CHECK(scene.failure() == "");
}

TEST_CASE("a repeatable block begins where all that is known of any table has been replayed") {
  Scene scene(both());
  scene.start();
  SimClient& writer = scene.client();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  scene.pause_replay(true);
  REQUIRE(scene.write(writer, 1));
  scene.wait(milliseconds{300});
  // t3 itself was not written: outside of the block a replica may answer.
  REQUIRE(scene.read(client, 3));
  CHECK_FALSE(scene.on_primary(client));
  REQUIRE(begin(scene, client, kRepeatable));
  REQUIRE(scene.read(client, 3));
  CHECK(scene.on_primary(client));
  REQUIRE(scene.read(client, 1));
  REQUIRE(end(scene, client, "COMMIT"));
  scene.pause_replay(false);
  scene.wait(seconds{1});
  REQUIRE(begin(scene, client, kRepeatable));
  REQUIRE(scene.read(client, 3));
  CHECK_FALSE(scene.on_primary(client));
  // What is committed now is none of its business.
  REQUIRE(scene.write(writer, 1));
  REQUIRE(scene.read(client, 1));
  CHECK_FALSE(scene.on_primary(client));
  REQUIRE(end(scene, client, "COMMIT"));
  REQUIRE(scene.read(client, 1));
  CHECK(scene.failure() == "");
}

TEST_CASE("a repeatable block whose replica is lost between two statements can be tried again") {
  Scene scene(both(), 2);
  scene.world.clients.trouble = true;
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  scene.wait(seconds{1});
  REQUIRE(begin(scene, client, kRepeatable));
  REQUIRE(scene.read(client, 3));
  REQUIRE_FALSE(scene.on_primary(client));
  SECTION("and is told so by the next one") {
    scene.node(1).stop(false);
    scene.wait(milliseconds{50});
    REQUIRE(scene.read(client, 3));
    CHECK(client.last_error() == "40001");
    CHECK(client.status() == 'E');
    REQUIRE(end(scene, client, "ROLLBACK"));
  }
  SECTION("or may just end") {
    scene.node(1).stop(true);
    scene.wait(milliseconds{50});
    REQUIRE(end(scene, client, "ROLLBACK"));
  }
  REQUIRE(begin(scene, client, kRepeatable));
  REQUIRE(scene.read(client, 3));
  CHECK(client.last_error() == "");
  CHECK(scene.on_primary(client));
  REQUIRE(end(scene, client, "COMMIT"));
  CHECK(scene.failure() == "");
}

TEST_CASE("a cancel of a statement that waits in a block fails the block") {
  Scene scene(both(), 2);
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  REQUIRE(begin(scene, client, "BEGIN"));
  REQUIRE(scene.read(client, 3));
  // The primary is gone, so a write waits.
  scene.world.clients.trouble = true;
  scene.node(0).stop(false);
  scene.wait(milliseconds{50});
  client.send(plan_write_of(client.plan(), 0));
  scene.wait(milliseconds{50});
  client.cancel();
  REQUIRE(scene.wait_until([&] { return client.outstanding() == 0; }));
  CHECK(client.last_error() == "57014");
  CHECK(client.status() == 'E');
  REQUIRE(end(scene, client, "ROLLBACK"));
  CHECK(client.last_error() == "");
  CHECK(scene.failure() == "");
}

TEST_CASE("a repeatable block that begins behind AND CHAIN is as fresh as one that begins by itself") {
  const std::string ending = GENERATE("COMMIT AND CHAIN", "ROLLBACK AND CHAIN");
  Scene scene(both());
  scene.start();
  SimClient& writer = scene.client();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  scene.wait(seconds{1});
  REQUIRE(begin(scene, client, kRepeatable));
  REQUIRE(scene.read(client, 3));
  REQUIRE_FALSE(scene.on_primary(client));
  scene.pause_replay(true);
  REQUIRE(scene.write(writer, 1));
  Unit unit = plan_simple(client.plan(), ending, "CZ");
  unit.ends = unit.chains = true;
  unit.rolls_back = ending[0] == 'R';
  REQUIRE(scene.ask(client, std::move(unit)));
  REQUIRE(client.status() == 'T');
  REQUIRE(scene.read(client, 1));
  CHECK(scene.on_primary(client));
  REQUIRE(end(scene, client, "COMMIT"));
  scene.pause_replay(false);
  CHECK(scene.failure() == "");
}

TEST_CASE("neither a hint, nor another key, nor a table's rule lets the reads of a block go backwards") {
  const std::string how = GENERATE("hint", "key", "t1 = eventual\n", "t1 = lag 1min\n", "t1 = window 0.001\n");
  const bool by_rule = how[0] == 't';
  Scene scene(both(), 3, 1, by_rule ? how : std::string());
  scene.start();
  SimClient& client = scene.client();
  SimClient& other = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 1) && !scene.on_primary(client); }));
  REQUIRE(scene.ask(other, "SET pgweir.causal_key = 'another'", "CZ"));
  REQUIRE(scene.ask(other, plan_error(other.plan())));
  REQUIRE(scene.ask(other, "RESET pgweir.causal_key", "CZ"));
  REQUIRE(scene.wait_until([&] { return scene.read(client, 1) && !scene.on_primary(client); }));
  // Only one replica has what somebody wrote past the pooler, and the client sees it there.
  INFO(how);
  const std::string newer = client.last_node();
  SimNode& older = scene.node(newer == "n1" ? 2 : 1);
  older.pause_replay(true);
  const RecordId written = scene.node(0).append(1U << 1);
  scene.wait(seconds{1});
  REQUIRE(begin(scene, client, "BEGIN"));
  REQUIRE(scene.read(client, 1));
  REQUIRE(client.last_node() == (by_rule ? "n0" : newer));
  REQUIRE(scene.world.truth.record(client.last_snapshot()).versions[1] == written);
  // What is busy is not asked while another one may answer.
  other.send(plan_slow_read(other.plan(), 3.0));
  scene.wait(milliseconds{200});
  if (how == "key") REQUIRE(scene.ask(client, "SET pgweir.causal_key = 'another'", "CZ"));
  Unit unit = plan_simple(client.plan(), how == "hint" ? "/* pgweir: replica */ SELECT v, '@' FROM t1" : "SELECT v, '@' FROM t1", "T*CZ");
  unit.reads = {1U << 1};
  REQUIRE(scene.ask(client, std::move(unit)));
  CHECK(client.last_node() != older.host());
  CHECK(scene.world.truth.record(client.last_snapshot()).versions[1] == written);
  REQUIRE(end(scene, client, "COMMIT"));
  CHECK(scene.failure() == "");
}
