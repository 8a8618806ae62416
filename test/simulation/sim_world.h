// A whole world around one Pooler: loop, network, cluster, prober, files, log. Seeds and scenarios
// both begin with one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "app/pooler.h"
#include "base/log.h"
#include "config/ini_text.h"
#include "sim_client.h"
#include "sim_cluster.h"
#include "sim_loop.h"
#include "sim_network.h"
#include "sim_prober.h"
#include "truth.h"

namespace pgweir::sim {

/// Files that exist only here.
class SimFiles final : public config::IniSource {
 public:
  Result<std::string> read(const std::string& path) const override {
    const auto found = texts.find(path);
    if (found == texts.end()) return Error(path + ": No such file or directory");
    return found->second;
  }
  std::map<std::string, std::string> texts;
};

/// The pooler's log becomes part of the trace.
class SimLog final : public Log {
 public:
  explicit SimLog(SimLoop& loop) noexcept : loop_(loop) {}
  void write(LogLevel level, std::string_view message) noexcept override;
  bool wants(LogLevel level) const noexcept override { return level <= LogLevel::log; }
  /// Messages that held `text` so far.
  bool said(std::string_view text) const;

 private:
  SimLoop& loop_;
  std::vector<std::string> lines_;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  bool print_trace = false;
  int nodes = 3;
  /// Lines of [pgbouncer] besides those that every world has.
  std::map<std::string, std::string> settings;
  /// Of the database line, behind host= and replica_host=.
  std::string database_options;
  std::string password;
  /// Lines of [table_rules].
  std::string table_rules;
};

class SimWorld {
 public:
  explicit SimWorld(const WorldOptions& options);
  ~SimWorld();

  /// Reads the configuration, listens, and waits until the cluster is known.
  void start();
  /// Writes another configuration; a RELOAD is the pooler's to be asked for.
  void configure(const std::map<std::string, std::string>& settings);
  /// Writes the same configuration with another default_pool_size.
  void resize_pools(int size);

  Dice dice;
  SimLoop loop;
  Truth truth;
  SimNetwork network;
  SimCluster cluster;
  SimProber prober;
  SimLog log;
  SimFiles files;
  SimRandom random;
  ClientWorld clients;
  std::unique_ptr<app::Pooler> pooler;

 private:
  void set_promises(const std::string& table_window, const std::string& pin_window);
  std::string ini(const std::map<std::string, std::string>& settings) const;
  WorldOptions options_;
};

/// The FAULT places of our own code fire in `per_mille` of 1000 cases while one of these lives.
class FaultPlaces {
 public:
  FaultPlaces(Dice dice, int per_mille);
  ~FaultPlaces();
};

}  // namespace pgweir::sim
