// A scripted run: one world, clients that ask and wait for the answer, and the checkers always on.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "sim_world.h"

namespace pgweir::sim {

class Scene {
 public:
  using Settings = std::map<std::string, std::string>;

  explicit Scene(Settings settings = {}, int nodes = 3, std::uint64_t seed = 1,
                 std::string table_rules = {})
      : world(options(std::move(settings), nodes, seed, std::move(table_rules))) {}

  /// Starts the pooler and gives it time to know the cluster.
  void start() {
    world.start();
    wait(std::chrono::milliseconds{1500});
  }
  void wait(Duration time) { world.loop.run_for(time); }
  /// Until `done`, or `most` has passed; whether it came about.
  bool wait_until(const std::function<bool()>& done, Duration most = std::chrono::seconds{5}) {
    world.loop.run_for(most, [&] { return done() || world.truth.failed(); });
    return done();
  }

  SimClient& client(const std::string& user = "alice") {
    clients_.push_back(std::make_unique<SimClient>(world.clients, world.dice.fork(), user));
    SimClient& made = *clients_.back();
    made.connect();
    wait_until([&made] { return made.connected(); });
    return made;
  }
  /// Sends and waits for the answer; false when none came within `most`.
  bool ask(SimClient& client, Unit unit, Duration most = std::chrono::seconds{5}) {
    client.send(std::move(unit));
    return wait_until([&client] { return client.outstanding() == 0; }, most);
  }
  /// A simple query; '@' in it is the unit's marker.
  bool ask(SimClient& client, const std::string& text, const std::string& expected) {
    return ask(client, plan_simple(client.plan(), text, expected));
  }
  bool write(SimClient& client, std::size_t table) {
    return ask(client, plan_write_of(client.plan(), table));
  }
  bool read(SimClient& client, std::size_t table) {
    return ask(client, plan_read_of(client.plan(), 1U << table));
  }
  bool on_primary(const SimClient& client) {
    return client.last_node() == world.cluster.primary().host();
  }

  SimNode& node(std::size_t i) { return world.cluster.node(i); }
  void pause_replay(bool on) {
    for (std::size_t i = 0; i < world.cluster.size(); ++i) {
      if (!node(i).is_primary()) node(i).pause_replay(on);
    }
  }
  std::string failure() const { return world.truth.failure(); }

  SimWorld world;

 private:
  static WorldOptions options(std::map<std::string, std::string> settings, int nodes,
                              std::uint64_t seed, std::string table_rules) {
    WorldOptions options;
    options.table_rules = std::move(table_rules);
    options.seed = seed;
    options.print_trace = std::getenv("PGWEIR_TRACE") != nullptr;  // For who looks into a failure.
    options.nodes = nodes;
    settings.try_emplace("pool_mode", "transaction");
    settings.try_emplace("monitor_interval", "0.1");
    options.settings = std::move(settings);
    return options;
  }
  std::vector<std::unique_ptr<SimClient>> clients_;
};

}  // namespace pgweir::sim
