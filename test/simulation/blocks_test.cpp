// Transaction blocks that may read on replicas, played one by one.
#include <catch2/catch.hpp>

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
