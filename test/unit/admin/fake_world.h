// A World with one of everything, and a client that reads what the console answers.
#pragma once

#include <string>
#include <vector>

#include "admin/console.h"
#include "protocol/error_fields.h"
#include "protocol/framer.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

namespace pgweir::admin {

class FakeWorld final : public World {
 public:
  std::shared_ptr<const config::Settings> settings() const override { return settings_; }
  std::vector<SocketRow> clients() const override { return clients_; }
  std::vector<SocketRow> servers() const override { return servers_; }
  std::vector<PoolRow> pools() const override { return pools_; }
  std::vector<DatabaseRow> databases() const override { return databases_; }
  std::vector<UserRow> users() const override { return users_; }
  std::vector<StatsRow> stats() const override { return stats_; }
  std::vector<DnsHostRow> dns_hosts() const override { return {{"db", 11, "10.0.0.1,::1"}, {"gone", 0, ""}}; }
  Lists lists() const override { return {.databases = 1, .dns_pending = 14}; }
  State state() const override { return state_; }
  std::vector<MemoryRow> memory() const override { return {{"client", 100, 2, 3}}; }
  std::vector<NodeRow> nodes() const override { return nodes_; }
  std::vector<RoutingRow> routing() const override { return {{"shop", "replica", "read", 7}}; }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    return {{"version", "0.1"}};
  }
  std::vector<ExplainRow> explain_route(std::string_view sql) const override {
    return {
        {"shop", "replica", "h2:5432", "read", std::string(sql), "t", "", "", "view t", "u", ""}};
  }
  std::vector<TableRow> tables() const override {
    return {{"shop", "public.t", "0/10", false, std::chrono::seconds{3}, std::chrono::milliseconds{40}, "window p99.9"},
            {"shop", "public.u", "", true, {}}};
  }
  std::vector<MisrouteRow> misroutes() const override {
    const WallTime first{std::chrono::seconds(1'700'000'000)};
    return {{"shop", "SELECT f(?)", 3, "25006", first, first + std::chrono::seconds(5), std::chrono::seconds(90)},
            {"shop", "SELECT g(?)", 1, "0A000", first, first, std::nullopt}};
  }
  std::vector<DependencyRow> dependencies(std::string_view table) const override {
    if (table == "nothing") return {};
    return {{"shop", "insert", "", std::string(table), "table t"}};
  }
  Result<Progress> begin(const Order& order, ConsoleSession& asker) override {
    orders.push_back(order);
    if (order.database == "nowhere") return Error("no such database: nowhere");
    if (order.verb == Verb::reload && !reload_works) return Error("pgweir.ini:1: broken");
    if (order.verb != Verb::pause) return Progress::done;
    waiting = &asker;
    return Progress::later;
  }
  Status set(std::string_view name, std::string_view value) override {
    auto fresh = std::make_shared<config::Settings>(*settings_);
    if (Status ok = config::apply_set(*fresh, name, value); !ok) return ok;
    settings_ = fresh;
    return {};
  }
  void forget(ConsoleSession& asker) noexcept override {
    if (waiting == &asker) waiting = nullptr;
  }

  std::shared_ptr<config::Settings> settings_ =
      std::make_shared<config::Settings>(config::defaults());
  std::vector<SocketRow> clients_;
  std::vector<SocketRow> servers_;
  std::vector<PoolRow> pools_;
  std::vector<DatabaseRow> databases_;
  std::vector<UserRow> users_;
  std::vector<StatsRow> stats_;
  std::vector<NodeRow> nodes_;
  State state_;
  std::vector<Order> orders;
  bool reload_works = true;
  ConsoleSession* waiting = nullptr;
};

/// What came, one word for each message: "T(version:25) D(PgBouncer 1.25.2) C(SHOW) Z(I)"; values
/// and columns with | between them, errors as "E(sqlstate text)".
inline std::string words_of(std::string_view bytes) {
  std::string out;
  protocol::Framer framer;
  while (const std::optional<protocol::Slice> slice = framer.next(bytes)) {
    protocol::Reader reader(slice->body());
    std::string inner;
    const auto add = [&](std::string_view text) {
      inner += (inner.empty() ? "" : "|") + std::string(text);
    };
    switch (slice->type) {
      case 'T':
        for (int left = reader.u16(); left > 0; --left) {
          const std::string name(reader.cstring());
          reader.bytes(6);
          add(name + ":" + std::to_string(reader.u32()));
          reader.bytes(6);
          if (reader.u16() == 1) inner += "b";
        }
        break;
      case 'D':
        for (int left = reader.u16(); left > 0; --left) {
          const std::int32_t size = reader.i32();
          add(size < 0 ? "NULL" : reader.bytes(static_cast<std::size_t>(size)));
        }
        break;
      case 'S': {
        const std::string name(reader.cstring());
        add(name + "=" + std::string(reader.cstring()));
        break;
      }
      case 'C':
        add(reader.cstring());
        break;
      case 'Z':
        add(reader.rest());
        break;
      case 't':
        add(std::to_string(reader.u16()));
        break;
      case 'E':
      case 'N': {
        const protocol::ErrorFields fields = protocol::parse_error(slice->body());
        add(std::string(fields.severity == "FATAL" ? "FATAL " : "") + std::string(fields.sqlstate) +
            " " + std::string(fields.message));
        break;
      }
      default:
        break;
    }
    out += (out.empty() ? "" : " ") + std::string(1, slice->type);
    if (!inner.empty()) out += "(" + inner + ")";
  }
  return out;
}

/// One console and its client.
struct Fixture {
  FakeWorld world;
  ConsoleSession console;
  std::string to_console;

  explicit Fixture(Access access = Access::admin) : console(world, access) {}

  /// Sends what was gathered in to_console; answers in words.
  std::string send() {
    std::string out;
    Bytes input = to_console;
    protocol::Framer framer;
    while (const std::optional<protocol::Slice> slice = framer.next(input)) {
      console.on_message(slice->type, slice->body(), out);
    }
    to_console.clear();
    return words_of(out);
  }
  std::string query(std::string_view sql) {
    protocol::append_query(to_console, sql);
    return send();
  }
};

}  // namespace pgweir::admin
