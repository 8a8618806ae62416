// A whole Pooler in the world of fakes.h, and the few things that tests do with it.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fakes.h"
#include "protocol/error_fields.h"
#include "protocol/framer.h"
#include "protocol/message.h"
#include "protocol/writer.h"

namespace pgweir::test {

/// An error or a notice, as a client is told of it.
struct Said {
  std::string severity;
  std::string sqlstate;
  std::string text;
};
/// The last message of this type among what the pooler has sent; empty when there is none.
inline Said last_said(const Wire& wire, char type) {
  Said said;
  Bytes rest = wire.sent;
  while (const auto size = protocol::peek_wire_size(rest)) {
    if (*size < protocol::kHeaderSize || *size > rest.size()) break;
    if (rest[0] == type) {
      const protocol::ErrorFields fields =
          protocol::parse_error(rest.substr(protocol::kHeaderSize, *size - protocol::kHeaderSize));
      said = {std::string(fields.severity), std::string(fields.sqlstate),
              std::string(fields.message)};
    }
    rest.remove_prefix(*size);
  }
  return said;
}
/// "FATAL 53300 no more connections allowed (max_client_conn)"; empty when there was no error.
inline std::string error_on(const Wire& wire) {
  const Said said = last_said(wire, protocol::backend::kErrorResponse);
  return said.severity.empty() ? std::string()
                               : concat({said.severity, " ", said.sqlstate, " ", said.text});
}
inline std::string notice_on(const Wire& wire) {
  return last_said(wire, protocol::backend::kNoticeResponse).text;
}

inline constexpr std::string_view kIni =
    "[databases]\n"
    "shop = host=10.0.0.9\n"
    "[pgbouncer]\n"
    "listen_addr = 127.0.0.1\n"
    "unix_socket_dir = /tmp\n"
    "auth_type = trust\n"
    "auth_file = users.txt\n"
    "pool_mode = transaction\n"
    "default_pool_size = 1\n"
    "admin_users = boss\n";

/// Everybody who logs in somewhere, without a password.
inline constexpr std::string_view kUsers =
    "\"app\" \"\"\n\"big\" \"\"\n\"boss\" \"\"\n\"d\" \"\"\n"
    "\"endless\" \"\"\n\"few\" \"\"\n\"hastier\" \"\"\n\"narrow\" \"\"\n"
    "\"other\" \"\"\n\"patient\" \"\"\n\"pgbouncer\" \"\"\n\"quick\" \"\"\n"
    "\"shop\" \"\"\n\"slow\" \"\"\n\"t\" \"\"\n\"u\" \"\"\n"
    "\"web\" \"\"\n\"wider\" \"\"\n";

/// A pooler in a world of its own.
struct Bench {
  FakeClock clock;
  FakeNetwork network;
  FakeDialer dialer;
  FakeProber prober;
  FakeRandom random;
  KeptLog log;
  MemoryFiles files;
  app::Pooler pooler{{clock, network, dialer, prober, random, log, files, 501}};

  explicit Bench(std::string_view more = "") {
    files.files["p.ini"] = std::string(kIni) + std::string(more);
    files.files["users.txt"] = std::string(kUsers);
    REQUIRE(pooler.configure("p.ini").ok());
    REQUIRE(pooler.start().ok());
    turn();
  }
  void turn() {
    for (int i = 0; i < 10 && pooler.turn() <= clock.at; ++i) {
    }
  }
  void pass(Duration time) {
    clock.at += time;
    turn();
  }
  /// In steps as small as those in which time-outs of clients are looked for.
  void pass_slowly(Duration time) {
    for (Duration passed{}; passed < time; passed += 250ms) pass(250ms);
  }
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  std::shared_ptr<Wire> client(std::string_view database, std::string_view user,
                               std::int64_t uid = -1, const Parameters& more = {}) {
    std::shared_ptr<Wire> wire = network.connect(uid);
    std::string packet;
    Parameters parameters{{"user", std::string(user)}, {"database", std::string(database)}};
    parameters.insert(parameters.end(), more.begin(), more.end());
    protocol::append_startup(packet, parameters);
    wire->say(packet);
    turn();
    return wire;
  }
  /// Another file, as RELOAD reads it.
  void reload(std::string text) {
    files.files["p.ini"] = std::move(text);
    pooler.request_reload();
    turn();
  }
  /// Lets the newest connection to a node in.
  std::shared_ptr<Wire> server_logs_in() {
    REQUIRE_FALSE(dialer.dialled.empty());
    std::shared_ptr<Wire> wire = dialer.dialled.back();
    wire->connected();
    std::string out;
    protocol::append_auth_ok(out);
    protocol::append_parameter_status(out, "server_version", "15.9");
    protocol::append_backend_key(out, 4242, 99);
    protocol::append_ready(out, 'I');
    wire->take();
    wire->say(out);
    turn();
    return wire;
  }
  static std::string query(std::string_view sql) {
    std::string out;
    protocol::append_query(out, sql);
    return out;
  }
  void ask(Wire& wire, std::string_view sql) {
    wire.say(query(sql));
    turn();
  }
  void answer(Wire& server, std::string_view tag, char status = 'I') {
    std::string out;
    protocol::append_command_complete(out, tag);
    protocol::append_ready(out, status);
    server.say(out);
    turn();
  }
  void refuse(Wire& server, std::string_view sqlstate, std::string_view text) {
    server.connected();
    std::string out;
    protocol::append_error(out, "FATAL", sqlstate, text);
    server.say(out);
    turn();
  }
};

}  // namespace pgweir::test
