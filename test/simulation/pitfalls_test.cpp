// Known ways to break the promises, played one by one. Each has a number, which tells the same
// thing everywhere.
#include <catch2/catch.hpp>

#include "base/text.h"
#include "scene.h"

using namespace pgweir;
using namespace pgweir::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

#define ALL_PROMISES_HELD(scene)             \
  do {                                       \
    INFO((scene).world.loop.trace().tail()); \
    CHECK((scene).failure() == "");          \
  } while (false)

TEST_CASE("pitfall 1: a replica promoted by mistake gets no write while the primary is well") {
  Scene scene;
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.write(client, 0));
  scene.node(1).stray = true;
  scene.node(1).promote();
  for (int i = 0; i < 30; ++i) {
    scene.wait(milliseconds{50});
    CHECK(scene.write(client, 0));
    CHECK(client.last_error() == "");
    CHECK(scene.read(client, 0));
    CHECK(client.last_node() != "n1");
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE(
    "pitfall 1: of two claimants at the start, the one that the replicas follow is the primary") {
  Scene scene;
  scene.node(1).stray = true;
  scene.node(1).promote();
  scene.start();
  SimClient& client = scene.client();
  CHECK(scene.write(client, 0));
  CHECK(client.last_error() == "");
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 1: a replica promoted by mistake a moment ago refuses a hidden write") {
  Scene scene({}, 2);
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, kHiddenTable) && !scene.on_primary(client); }));
  scene.node(1).stray = true;
  scene.node(1).promote();
  REQUIRE(scene.ask(client, plan_hidden_write(client.plan())));
  CHECK(scene.on_primary(client));
  CHECK(scene.world.truth.writes_refused_by_standby == 1);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 1: who works on a primary that is succeeded loses it when the transaction has ended") {
  for (const bool in_transaction : {false, true}) {
    INFO("in a transaction: " << in_transaction);
    Scene scene(Scene::Settings{{"pool_mode", "session"}, {"read_consistency", "primary"}}, 2);
    scene.start();
    SimClient& client = scene.client();
    REQUIRE(scene.write(client, 0));
    if (in_transaction) REQUIRE(scene.ask(client, plan_begin(client.plan())));
    scene.world.clients.trouble = true;
    client.send(plan_slow_read(client.plan(), 3.0));
    scene.wait(milliseconds{100});
    // Only the monitor has lost sight of it: the old primary goes on answering.
    scene.world.prober.redirects["n0"] = "nowhere";
    scene.node(1).promote();
    REQUIRE(scene.wait_until([&] { return client.outstanding() == 0; }));
    if (in_transaction) {
      CHECK(client.connected());
      client.send(plan_end(client.plan(), true));
    }
    REQUIRE(scene.wait_until([&] { return !client.connected(); }));
    CHECK(scene.world.log.said("the primary has changed"));
    ALL_PROMISES_HELD(scene);
  }
}

TEST_CASE("pitfall 3: what was committed before the start is seen by the first read") {
  Scene scene;
  scene.wait(milliseconds{100});
  scene.pause_replay(true);
  const RecordId before = scene.node(0).append(1U << 0);
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.read(client, 0));
  CHECK(scene.world.truth.record(client.last_snapshot()).versions[0] == before);
  scene.pause_replay(false);
  scene.wait(seconds{1});
  REQUIRE(scene.read(client, 0));
  CHECK_FALSE(scene.on_primary(client));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 4: a commit is seen by others though its unit ended in an error") {
  Scene scene;
  scene.start();
  SimClient& writer = scene.client();
  SimClient& reader = scene.client();
  REQUIRE(scene.read(reader, 0));
  scene.pause_replay(true);
  SECTION("BEGIN, write, COMMIT, error in one message") {
    Unit unit = plan_simple(writer.plan(),
                            "BEGIN; UPDATE t0 SET v = v + 1; COMMIT; SELECT 1/0, '@'", "CCCT*CZ");
    unit.may_fail = {"22012"};
    REQUIRE(scene.ask(writer, std::move(unit)));
    CHECK(writer.last_error() == "22012");
  }
  SECTION("a procedure that commits and fails") {
    REQUIRE(scene.ask(writer, plan_commit_and_fail(writer.plan())));
    CHECK(writer.last_error() == "P0001");
  }
  REQUIRE(scene.read(reader, 0));
  CHECK(scene.world.truth.record(reader.last_snapshot()).versions[0] ==
        scene.world.truth.record(scene.node(0).applied()).versions[0]);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE(
    "pitfall 4: a commit is seen by others though its connection was lost before the answer") {
  Scene scene(Scene::Settings{{"server_login_retry", "0.1"}});
  scene.world.clients.trouble = true;
  scene.start();
  SimClient& writer = scene.client();
  SimClient& reader = scene.client();
  REQUIRE(scene.read(reader, 0));
  scene.pause_replay(true);
  const RecordId before = scene.node(0).applied();
  writer.send(plan_write_of(writer.plan(), 0));
  REQUIRE(scene.wait_until([&] { return scene.node(0).applied() != before; }));
  scene.world.network.reset_host("n0", "connection reset by peer");
  scene.wait(milliseconds{400});
  REQUIRE(scene.read(reader, 0));
  CHECK(scene.world.truth.record(reader.last_snapshot()).versions[0] > before);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 5: a read behind a hidden write in one pipeline sees it") {
  Scene scene;
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.read(client, kHiddenTable));
  for (int i = 0; i < 10; ++i) {
    // In every other round nothing but its own text decides where the hidden write goes: to a
    // replica, until it is learnt.
    if (i % 2 == 1) scene.wait(milliseconds{300});
    // Both are asked before either is answered, so neither may wait for an answer of its own.
    Unit write = plan_hidden_write(client.plan());
    while (!write.later.empty()) write = plan_hidden_write(client.plan());
    Unit read = plan_read_of(client.plan(), 1U << kHiddenTable);
    while (!read.later.empty()) read = plan_read_of(client.plan(), 1U << kHiddenTable);
    client.send(std::move(write));
    client.send(std::move(read));
    REQUIRE(scene.wait_until([&] { return client.outstanding() == 0; }));
    CHECK(client.last_error() == "");
    const Versions& newest = scene.world.truth.record(scene.node(0).applied()).versions;
    CHECK(scene.world.truth.record(client.last_snapshot()).versions[kHiddenTable] ==
          newest[kHiddenTable]);
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 5: a hidden write that ran on the primary first is seen by its own session") {
  Scene scene;
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.read(client, kHiddenTable));
  scene.pause_replay(true);
  // It may read what was just written, so no replica is asked, and none can refuse it.
  REQUIRE(scene.write(client, 0));
  REQUIRE(scene.ask(client, plan_hidden_write(client.plan())));
  REQUIRE(scene.read(client, kHiddenTable));
  CHECK(scene.on_primary(client));
  scene.pause_replay(false);
  REQUIRE(scene.wait_until([&] {
    return scene.read(client, kHiddenTable) && !scene.on_primary(client);
  }));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 5: what waits in a pipeline is not taken for what comes behind it") {
  Scene scene;
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  scene.pause_replay(true);
  Unit slow = plan_simple(client.plan(), "/* pgweir: primary */ SELECT v, '@', pg_sleep(0.2) FROM t0", "T*CZ");
  slow.reads = {1U << 0};
  client.send(std::move(slow));
  scene.wait(milliseconds{50});
  // As far as it shows, a replica could answer this one; it waits for the first, and the next comes meanwhile.
  Unit hidden = plan_simple(client.plan(), "SELECT hidden_write('@')", "T*CZ");
  hidden.writes = {1U << kHiddenTable};
  client.send(std::move(hidden));
  scene.wait(milliseconds{50});
  client.send(plan_write_of(client.plan(), 1));
  REQUIRE(scene.wait_until([&] { return client.outstanding() == 0; }));
  scene.wait(milliseconds{200});
  REQUIRE(scene.read(client, kHiddenTable));
  CHECK(scene.on_primary(client));
  scene.pause_replay(false);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("what a standby refused is remembered, shown, asked again after its time, and forgotten by RELOAD") {
  Scene scene(Scene::Settings{{"misroute_expiry", "20"}});
  scene.start();
  SimClient& client = scene.client();
  const auto misroutes = [&] { return scene.world.pooler->world().misroutes(); };
  const auto& refused = scene.world.truth.writes_refused_by_standby;
  const auto read_elsewhere = [&] {
    return scene.wait_until([&] { return scene.read(client, kHiddenTable) && !scene.on_primary(client); });
  };
  CHECK(misroutes().empty());
  REQUIRE(read_elsewhere());
  // The plan draws one of several texts; each of them is refused once, and then known.
  for (int i = 0; i < 40; ++i) {
    REQUIRE(read_elsewhere());
    REQUIRE(scene.ask(client, plan_hidden_write(client.plan())));
  }
  const auto learnt = misroutes();
  REQUIRE(!learnt.empty());
  CHECK(refused == learnt.size());
  for (const auto& row : learnt) {
    CHECK(row.sqlstate == "25006");
    CHECK(row.count == 1);
    CHECK(row.statement.find("hidden_write(") != std::string::npos);
    CHECK(row.left);
    CHECK(*row.left < seconds{20});
  }
  const std::size_t shapes = learnt.size();
  scene.wait(seconds{21});
  CHECK(misroutes().size() == shapes);
  CHECK(*misroutes().back().left == Duration::zero());
  REQUIRE(read_elsewhere());
  REQUIRE(scene.ask(client, plan_hidden_write(client.plan())));
  CHECK(refused == shapes + 1);
  CHECK(misroutes().front().count == 2);
  scene.world.pooler->request_reload();
  REQUIRE(scene.wait_until([&] { return misroutes().empty(); }));
  REQUIRE(read_elsewhere());
  REQUIRE(scene.ask(client, plan_hidden_write(client.plan())));
  CHECK(refused == shapes + 2);
  REQUIRE(misroutes().size() == 1);
  CHECK(misroutes().front().count == 1);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("EXECUTE of what was prepared in SQL marks the tables that it writes, and no others") {
  Scene scene;
  scene.start();
  SimClient& writer = scene.client();
  SimClient& reader = scene.client();
  REQUIRE(scene.ask(writer, "PREPARE w AS UPDATE t0 SET v = v + 1", "CZ"));
  REQUIRE(scene.wait_until([&] { return scene.read(reader, 1) && !scene.on_primary(reader); }));
  scene.pause_replay(true);
  const auto written = [&] { return scene.world.truth.record(scene.node(0).applied()).versions[0]; };
  const auto seen = [&] { return scene.world.truth.record(reader.last_snapshot()).versions[0]; };
  const RecordId before = written();
  REQUIRE(scene.ask(writer, "EXECUTE w", "CZ"));
  CHECK(written() > before);
  REQUIRE(scene.read(reader, 0));
  CHECK(scene.on_primary(reader));
  CHECK(seen() == written());
  scene.wait(milliseconds{300});
  REQUIRE(scene.read(reader, 1));
  CHECK_FALSE(scene.on_primary(reader));
  // The name is given to another statement behind pgweir's back as far as one message can tell: anything may be written.
  REQUIRE(scene.ask(writer, "DEALLOCATE w; PREPARE w AS UPDATE t1 SET v = v + 1", "CCZ"));
  REQUIRE(scene.ask(writer, "EXECUTE w", "CZ"));
  REQUIRE(scene.read(reader, 1));
  CHECK(scene.on_primary(reader));
  REQUIRE(scene.read(reader, 2));
  CHECK(scene.on_primary(reader));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 6: a session that changes from one replica to another sees nothing older") {
  const std::string level = GENERATE("session", "table");
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Scene scene(Scene::Settings{{"read_consistency", level}}, 3, seed);
    scene.start();
    SimClient& writer = scene.client();
    SimClient& reader = scene.client();
    REQUIRE(scene.read(reader, 0));
    scene.node(2).pause_replay(true);
    scene.world.clients.trouble = true;
    for (int i = 0; i < 10; ++i) {
      REQUIRE(scene.write(writer, 0));
      REQUIRE(scene.read(reader, 0));
      // Its own replica may have shown the write; the other one has not replayed it.
      if (i == 5) scene.node(1).stop(false);
      REQUIRE(scene.read(reader, 0));
      if (i == 7) scene.node(1).start();
    }
    ALL_PROMISES_HELD(scene);
  }
}

TEST_CASE("pitfall 6: sessions of one key that read on two replicas at once see nothing older than either has shown") {
  Scene scene(Scene::Settings{{"read_consistency", "session"}, {"replica_wait", "0"}});
  scene.start();
  SimClient* clients[] = {&scene.client(), &scene.client()};
  const auto slowly = [](SimClient& client, const char* sleep) {
    Unit unit = plan_simple(client.plan(), concat({"SELECT v, '@', pg_sleep(", sleep, ") FROM t1"}), "T*CZ");
    unit.reads = {1U << 1};
    client.send(std::move(unit));
  };
  const auto answered = [&] { return clients[0]->outstanding() + clients[1]->outstanding() == 0; };
  // Both replicas have a server from now on.
  for (int i = 0; i < 3; ++i) {
    for (SimClient* client : clients) slowly(*client, "0.1");
    REQUIRE(scene.wait_until(answered));
  }
  for (SimClient* client : clients) {
    Unit key = plan_simple(client->plan(), "SET pgweir.causal_key = 'shared'", "CZ");
    key.causal_key = "shared";
    REQUIRE(scene.ask(*client, std::move(key)));
    Unit unit = plan_simple(client->plan(), "/* pgweir: primary */ SELECT v, '@' FROM t0", "T*CZ");
    unit.reads = {1U << 0};
    REQUIRE(scene.ask(*client, std::move(unit)));
  }
  scene.wait(seconds{1});
  scene.node(2).pause_replay(true);
  const RecordId written = scene.node(0).append(1U << 1);
  scene.wait(seconds{1});
  slowly(*clients[0], "0.2");
  scene.wait(milliseconds{100});
  slowly(*clients[1], "0.4");
  REQUIRE(scene.wait_until(answered));
  REQUIRE(clients[0]->last_node() == "n1");
  REQUIRE(clients[1]->last_node() == "n2");
  for (int i = 0; i < 5; ++i) {
    REQUIRE(scene.read(*clients[1], 1));
    CHECK(scene.world.truth.record(clients[1]->last_snapshot()).versions[1] == written);
  }
  scene.node(2).pause_replay(false);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 9: a replica whose address leads the monitor elsewhere answers nothing stale") {
  Scene scene;
  scene.world.prober.redirects["n1"] = "n2";
  scene.start();
  scene.node(1).pause_replay(true);
  SimClient& writer = scene.client();
  SimClient& reader = scene.client();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(scene.write(writer, 0));
    scene.wait(milliseconds{300});
    REQUIRE(scene.read(reader, 0));
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 12: what a replica does not know yet is asked of the primary") {
  Scene scene(Scene::Settings{{"read_consistency", "eventual"}});
  scene.start();
  SimClient& client = scene.client();
  SECTION("a table that was just made") {
    scene.pause_replay(true);
    REQUIRE(scene.ask(client, "/* @ */ CREATE TABLE fresh (v int)", "CZ"));
    Unit unit = plan_simple(client.plan(), "SELECT v, '@' FROM fresh", "T*CZ");
    unit.reads = {1U << kFreshTable};
    REQUIRE(scene.ask(client, std::move(unit)));
    CHECK(client.last_error() == "");
    CHECK(scene.on_primary(client));
  }
  SECTION("a role that can't log in there") {
    scene.node(1).habits.refuses_logins = scene.node(2).habits.refuses_logins = true;
    for (int i = 0; i < 5; ++i) {
      REQUIRE(scene.read(client, 0));
      CHECK(client.last_error() == "");
    }
  }
  SECTION("an error that is the statement's own comes back from the primary") {
    Unit unit = plan_simple(client.plan(), "SELECT v, '@' FROM nowhere", "T*CZ");
    unit.may_fail = {"42P01"};
    REQUIRE(scene.ask(client, std::move(unit)));
    CHECK(client.last_error() == "42P01");
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 13: from a DDL until the catalog is known again every commit marks all tables") {
  Scene scene;
  scene.start();
  SimClient& client = scene.client();
  SimClient& other = scene.client();
  scene.wait(seconds{1});
  REQUIRE(scene.write(client, 1));
  scene.pause_replay(true);
  REQUIRE(scene.write(client, 1));
  REQUIRE(scene.read(other, 5));
  CHECK_FALSE(scene.on_primary(other));
  REQUIRE(scene.ask(client, "/* @ */ CREATE TABLE fresh (v int)", "CZ"));
  REQUIRE(scene.write(client, 1));
  REQUIRE(scene.read(other, 5));
  CHECK(scene.on_primary(other));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 15: nobody waits for one node's last server while holding another's") {
  Scene scene(Scene::Settings{{"default_pool_size", "1"}}, 2);
  scene.start();
  std::vector<SimClient*> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(&scene.client());
  for (int round = 0; round < 20; ++round) {
    SimClient& pinned = *clients[0];
    REQUIRE(scene.ask(pinned, plan_listen(pinned.plan())));
    // One is pinned on the only primary server and reads; others heal hidden writes from the only
    // replica server.
    clients[1]->send(plan_hidden_write(clients[1]->plan()));
    clients[2]->send(plan_read_of(clients[2]->plan(), 1));
    clients[3]->send(plan_write_of(clients[3]->plan(), 2));
    pinned.send(plan_read_of(pinned.plan(), 1));
    REQUIRE(scene.wait_until([&] { return pinned.outstanding() == 0; }));
    REQUIRE(scene.ask(pinned, plan_discard(pinned.plan())));
    REQUIRE(scene.wait_until([&] {
      for (const SimClient* client : clients) {
        if (client->outstanding() != 0) return false;
      }
      return true;
    }));
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 16: a read does not wait for a busy replica while another one is idle") {
  Scene scene(Scene::Settings{{"default_pool_size", "1"}});
  scene.start();
  SimClient& slow = scene.client();
  SimClient& quick = scene.client();
  SimClient& writer = scene.client();
  REQUIRE(scene.read(slow, 0));
  REQUIRE(scene.read(quick, 0));
  slow.send(plan_slow_read(slow.plan(), 3.0));
  scene.wait(milliseconds{50});
  for (int i = 0; i < 10; ++i) {
    CHECK(scene.ask(quick, plan_read_of(quick.plan(), 1), milliseconds{200}));
    CHECK(scene.ask(writer, plan_write_of(writer.plan(), 3), milliseconds{200}));
  }
  CHECK(slow.outstanding() == 1);
  ALL_PROMISES_HELD(scene);
}

TEST_CASE(
    "pitfall 17: after a restart that lost commits no read waits for an LSN that never comes") {
  Scene scene(Scene::Settings{{"server_login_retry", "0.1"}});
  scene.world.cluster.asynchronous_commit = true;
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.read(client, 0));
  scene.world.clients.trouble = true;
  for (int i = 0; i < 30; ++i) REQUIRE(scene.write(client, 0));
  scene.node(0).stop(true);
  scene.wait(milliseconds{300});
  scene.node(0).start();
  scene.world.cluster.realign();
  SimClient& after = scene.client();
  REQUIRE(scene.wait_until([&] { return after.connected(); }));
  scene.wait(seconds{2});
  REQUIRE(scene.read(after, 0));
  CHECK_FALSE(scene.on_primary(after));
  REQUIRE(scene.write(after, 0));
  scene.wait(seconds{1});
  REQUIRE(scene.read(after, 0));
  CHECK_FALSE(scene.on_primary(after));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 19: a read that hangs on a replica which replays nothing runs on the primary") {
  for (const bool behind : {true, false}) {
    INFO("the replica has something to replay: " << behind);
    Scene scene(Scene::Settings{{"replica_read_timeout", "1"}, {"read_consistency", "eventual"}}, 2);
    scene.start();
    SimClient& client = scene.client();
    REQUIRE(scene.wait_until([&] { return scene.read(client, 5) && !scene.on_primary(client); }));
    scene.pause_replay(true);
    SimClient& writer = scene.client();
    if (behind) REQUIRE(scene.write(writer, 0));
    client.send(plan_slow_read(client.plan(), 3.0));
    scene.wait(milliseconds{1900});
    CHECK(scene.world.log.said("a read hangs on a replica") == behind);
    REQUIRE(scene.wait_until([&] { return client.outstanding() == 0; }));
    CHECK(client.last_error() == "");
    CHECK(scene.on_primary(client) == behind);
    ALL_PROMISES_HELD(scene);
  }
}

TEST_CASE("pitfall 19: a slow read on a replica that gets on is left alone") {
  Scene scene(Scene::Settings{{"replica_read_timeout", "1"}, {"read_consistency", "eventual"}}, 2);
  scene.start();
  SimClient& client = scene.client();
  SimClient& writer = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 5) && !scene.on_primary(client); }));
  client.send(plan_slow_read(client.plan(), 3.0));
  while (client.outstanding() > 0) {
    REQUIRE(scene.write(writer, 0));
    scene.wait(milliseconds{50});
  }
  CHECK_FALSE(scene.on_primary(client));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 19: a replica that had nothing to replay for long does not stand still") {
  Scene scene(Scene::Settings{{"replica_read_timeout", "1"}, {"read_consistency", "eventual"}}, 2);
  scene.start();
  SimClient& client = scene.client();
  SimClient& writer = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 5) && !scene.on_primary(client); }));
  scene.node(1).habits.replay_delay_min = scene.node(1).habits.replay_delay_max = milliseconds{600};
  client.send(plan_slow_read(client.plan(), 4.0));
  scene.wait(seconds{3});
  REQUIRE(scene.write(writer, 0));
  REQUIRE(scene.wait_until([&] { return client.outstanding() == 0; }));
  CHECK_FALSE(scene.on_primary(client));
  CHECK_FALSE(scene.world.log.said("a read hangs on a replica"));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE(
    "pitfall 21: a driver gets CopyInResponse and answers to Flush without having sent a Sync") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Scene scene(Scene::Settings{}, 3, seed);
    scene.start();
    SimClient& client = scene.client();
    for (int i = 0; i < 30; ++i) {
      INFO("seed " << seed << ", round " << i);
      REQUIRE(scene.ask(client, plan_copy(client.plan())));
      REQUIRE(scene.read(client, 0));
      REQUIRE(scene.write(client, 0));
    }
    ALL_PROMISES_HELD(scene);
  }
}

TEST_CASE(
    "pitfall 26: a record that ends at a page's end does not keep reads from an up-to-date "
    "replica") {
  Scene scene;
  scene.start();
  SimClient& client = scene.client();
  scene.node(0).habits.page_ends = 1000;
  for (int i = 0; i < 5; ++i) {
    REQUIRE(scene.write(client, 0));
    scene.wait(milliseconds{500});
    REQUIRE(scene.read(client, 0));
    CHECK_FALSE(scene.on_primary(client));
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("pitfall 8: a read is thrown away unseen when the replica that was asked with it is behind") {
  Scene scene(Scene::Settings{{"lsn_check", "inline"}, {"replica_wait", "0"}, {"monitor_interval", "60"}, {"max_replica_lag", "0"}}, 2);
  scene.start();
  SimClient& client = scene.client();
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  SECTION("it is far enough, which the monitor does not know yet") {
    REQUIRE(scene.write(client, 3));
    REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
    CHECK(scene.world.truth.positions_asked > 0);
  }
  SECTION("it is behind, and works on it for long") {
    scene.pause_replay(true);
    REQUIRE(scene.write(client, 3));
    scene.wait(milliseconds{100});
    REQUIRE(scene.read(client, 3));
    const std::uint64_t asked = scene.world.truth.positions_asked;
    scene.wait(milliseconds{100});
    Unit slow = plan_simple(client.plan(), "SELECT v, '@', pg_sleep(0.5) FROM t3", "T*CZ");
    slow.reads = {1U << 3};
    REQUIRE(scene.ask(client, std::move(slow)));
    CHECK(scene.on_primary(client));
    CHECK(scene.world.truth.positions_asked == asked + 1);
    CHECK(scene.world.truth.cancels_hit == 1);
    scene.pause_replay(false);
    REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  }
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("with lsn_check wait a replica of version 19 waits with the read until it has replayed enough") {
  Scene scene(Scene::Settings{{"lsn_check", "wait"}, {"replica_wait", "0.2"}, {"monitor_interval", "60"}, {"max_replica_lag", "0"}}, 2);
  scene.world.truth.server_version = GENERATE(18, 19);
  scene.start();
  SimClient& client = scene.client();
  // What is asked between two polls of the loop goes out with the next one, which may be far off here.
  const auto ask = [&](Unit unit) {
    client.send(std::move(unit));
    scene.world.network.flush();
    return scene.wait_until([&] { return client.outstanding() == 0; });
  };
  REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
  scene.pause_replay(true);
  REQUIRE(ask(plan_write_of(client.plan(), 3)));
  scene.wait(milliseconds{20});
  SECTION("it gets there in time") {
    scene.world.loop.after(milliseconds{50}, [&] { scene.pause_replay(false); });
    REQUIRE(ask(plan_read_of(client.plan(), 1U << 3)));
    CHECK(scene.on_primary(client) == (scene.world.truth.server_version == 18));
  }
  SECTION("it does not") {
    const Time began = scene.world.loop.now();
    REQUIRE(ask(plan_read_of(client.plan(), 1U << 3)));
    CHECK(scene.on_primary(client));
    CHECK((scene.world.loop.now() - began >= milliseconds{200}) == (scene.world.truth.server_version == 19));
  }
  CHECK((scene.world.truth.waited_there > 0) == (scene.world.truth.server_version == 19));
  ALL_PROMISES_HELD(scene);
}

TEST_CASE("in session pooling, the end of the primary's server does not get into a row of a replica's answer") {
  // Where the answer is cut differs from seed to seed.
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Scene scene(Scene::Settings{{"pool_mode", "session"}}, 2, seed);
    scene.world.clients.trouble = true;
    scene.start();
    SimClient& client = scene.client();
    REQUIRE(scene.write(client, 0));
    REQUIRE(scene.wait_until([&] { return scene.read(client, 3) && !scene.on_primary(client); }));
    Unit big = plan_simple(client.plan(), "SELECT v, '@' FROM t3 LIMIT 2500", "T*CZ");
    big.reads = {1U << 3};
    // It takes nothing for a while: the replica's server is not read either, in the middle of a row.
    client.pause_reading(milliseconds{60});
    client.send(std::move(big));
    scene.wait(milliseconds{30});
    scene.node(0).stop(false);
    scene.wait(milliseconds{200});
    ALL_PROMISES_HELD(scene);
  }
}
