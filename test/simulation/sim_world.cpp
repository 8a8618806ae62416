#include "sim_world.h"

#include <optional>

#include "base/fault.h"
#include "base/text.h"
#include "config/values.h"

namespace pgweir::sim {
namespace {

constexpr const char* kIniPath = "pgweir.ini";

struct FaultDice {
  Dice dice;
  int per_mille;
};
std::optional<FaultDice> fault_dice;

}  // namespace

void SimLog::write(LogLevel level, std::string_view message) noexcept {
  loop_.note(concat({"log ", to_string(level), " ", message}));
  lines_.emplace_back(message);
}

bool SimLog::said(std::string_view text) const {
  for (const std::string& line : lines_) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

SimWorld::SimWorld(const WorldOptions& options)
    : dice(options.seed * 0x9e3779b97f4a7c15U + 12345),
      loop(dice.fork(), options.print_trace),
      truth(loop),
      network(loop, dice.fork()),
      cluster(loop, network, truth, dice.fork(), options.nodes),
      prober(cluster, dice.fork()),
      log(loop),
      random(dice.fork()),
      clients{.loop = loop,
              .network = network,
              .cluster = cluster,
              .truth = truth,
              .pooler = {.kind = io::Address::Kind::tcp, .host = "127.0.0.1", .port = 6432}},
      options_(options) {
  cluster.password = options.password;
  files.texts["userlist.txt"] = "\"alice\" \"secret\"\n\"bob\" \"secret\"\n";
  configure(options.settings);
  pooler = std::make_unique<app::Pooler>(app::Parts{.clock = loop,
                                                    .network = network,
                                                    .dialer = network,
                                                    .prober = prober,
                                                    .random = random,
                                                    .log = log,
                                                    .files = files});
  loop.behind_each_poll([this] { network.flush(); });
}

SimWorld::~SimWorld() {
  loop.drive(nullptr);
  pooler.reset();
}

std::string SimWorld::ini(const std::map<std::string, std::string>& settings) const {
  std::string replicas;
  for (int i = 1; i < options_.nodes; ++i)
    replicas += concat({i > 1 ? "," : "", "n", std::to_string(i)});
  std::string text = concat(
      {"[databases]\nshop = host=n0 port=5432 dbname=shop ",
       replicas.empty() ? "" : "replica_host=" + replicas, " ", options_.database_options, "\n",
       "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = 6432\nunix_socket_dir =\n"
       "auth_type = trust\nauth_file = userlist.txt\nserver_cleartext_password = 1\n"});
  for (const auto& [name, value] : settings) text += concat({name, " = ", value, "\n"});
  if (!options_.table_rules.empty()) text += "[table_rules]\n" + options_.table_rules;
  return text;
}

void SimWorld::configure(const std::map<std::string, std::string>& settings) {
  const auto setting = [&settings](const char* name, const char* fallback) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string(fallback) : found->second;
  };
  files.texts[kIniPath] = ini(settings);
  const std::string level = setting("read_consistency", "table");
  truth.level = *config::parse_consistency(level);
  set_promises(setting("table_window", "p99.9"), setting("pin_window", "5"));
  clients.session_pooling = setting("pool_mode", "session") == "session";
  const bool is_split = options_.nodes > 1 && setting("read_split", "on") == "on";
  clients.split = is_split;
  clients.blocks_move = is_split && (setting("transaction_reads", "primary") == "replica" ||
                                  setting("read_only_transactions", "primary") == "replica");
  clients.tracks_session_state = is_split || clients.session_pooling;
  clients.resets_to_login = is_split;
  clients.named_statements =
      clients.tracks_session_state || setting("max_prepared_statements", "200") != "0";
  const int size = std::stoi(setting("default_pool_size", "20"));
  const int replica_size = std::stoi(setting("replica_pool_size", "-1"));
  const int reserve = std::stoi(setting("reserve_pool_size", "0"));
  // Servers in use outlive a reload that makes pools smaller.
  cluster.user_servers_max =
      std::max(cluster.user_servers_max, std::max(size, replica_size) + reserve);
  cluster.servers_max = std::stoi(setting("max_db_connections", "0"));
}

/// The level in force, and in its place the rules of tables, each named by itself or by "t*".
void SimWorld::set_promises(const std::string& table_window, const std::string& pin_window) {
  using config::ConsistencyLevel;
  const auto time_of = [](const std::string& text) { return text == "p99.9" ? Duration{} : *config::parse_duration(text); };
  const auto promise_of = [&](ConsistencyLevel level, const std::string& window) {
    const bool pin = level == ConsistencyLevel::pin;
    return Promise{.level = level, .window = pin || level == ConsistencyLevel::window ? time_of(pin ? pin_window : window) : Duration{}};
  };
  truth.promises.fill(promise_of(truth.level, table_window));
  for (const bool named : {false, true}) {
    for (const std::string_view line : split(options_.table_rules, '\n')) {
      if (line.empty()) continue;
      const std::size_t equals = line.find(" = ");
      const std::string_view name = line.substr(0, equals);
      const std::string value(line.substr(equals + 3));
      const bool window = value.starts_with("window ");
      const ConsistencyLevel level = window                      ? ConsistencyLevel::window
                                     : value.starts_with("lag ") ? ConsistencyLevel::eventual
                                                                 : *config::parse_consistency(value);
      for (std::size_t i = 0; i < kTables; ++i) {
        const bool meant = named ? name == table_name(i) : name == "t*" && table_name(i)[0] == 't';
        if (meant) truth.promises[i] = promise_of(level, window ? value.substr(7) : std::string());
      }
    }
  }
}

void SimWorld::resize_pools(int size) {
  options_.settings["default_pool_size"] = std::to_string(size);
  configure(options_.settings);
}

void SimWorld::start() {
  const Status configured = pooler->configure(kIniPath);
  if (!configured) {
    truth.fail("the configuration was refused: " + configured.error().text());
    return;
  }
  const Status started = pooler->start();
  if (!started) {
    truth.fail("could not start: " + started.error().text());
    return;
  }
  loop.drive(pooler.get());
}

FaultPlaces::FaultPlaces(Dice dice, int per_mille) {
  fault_dice = FaultDice{dice, per_mille};
#ifdef PGWEIR_SIMULATED_FAULTS
  fault_hook = [](const char*) noexcept {
    return fault_dice && fault_dice->dice.chance(fault_dice->per_mille);
  };
#endif
}

FaultPlaces::~FaultPlaces() {
#ifdef PGWEIR_SIMULATED_FAULTS
  fault_hook = nullptr;
#endif
  fault_dice.reset();
}

}  // namespace pgweir::sim
