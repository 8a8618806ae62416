// From lines of text to Settings.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "config/settings_table.h"

namespace pgweir::config {
namespace {

constexpr std::size_t kDatabaseNameBytesMax = 63;
constexpr std::size_t kUserNameBytesMax = 127;
constexpr std::size_t kPasswordBytesMax = 65530;
/// What one cluster may have; routing keeps its candidates in an array of this size.
constexpr std::size_t kReplicasMax = 16;

Error bad_value(std::string_view name, std::string_view value, const Error& why) {
  return Error(concat({name, " = \"", value, "\": ", why.text()}));
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

template <class Line>
Status apply_options(Line& line, std::span<const Option<Line>> options, const Pairs& pairs) {
  for (const auto& [key, value] : pairs) {
    const Option<Line>* found = nullptr;
    for (const Option<Line>& option : options) {
      if (option.name == key) found = &option;
    }
    if (!found) return Error(concat({"unknown option ", key}));
    if (Status ok = found->set(*found, line, value); !ok) return bad_value(key, value, ok.error());
  }
  return {};
}

constexpr int kReplicaWeightMax = 1000;

Status apply_weights(Database& database, const Pairs& pairs) {
  for (const auto& [key, value] : pairs) {
    if (key != "replica_weights") continue;
    const Error expected(concat({"expected a number from 0 to ", std::to_string(kReplicaWeightMax), " for each of the ",
                                 std::to_string(database.replica_hosts.size()), " hosts in replica_host, and one above 0"}));
    const std::vector<std::string_view> texts = split(value, ',');
    if (texts.size() != database.replica_hosts.size()) return bad_value(key, value, expected);
    database.replica_weights.clear();
    for (const std::string_view text : texts) {
      const Result<int> weight = parse_value<int>(text, {.lowest = 0, .highest = kReplicaWeightMax});
      if (!weight) return bad_value(key, value, expected);
      database.replica_weights.push_back(*weight);
    }
    if (std::all_of(database.replica_weights.begin(), database.replica_weights.end(), [](int weight) { return weight == 0; }))
      return bad_value(key, value, expected);
  }
  return {};
}

Status apply_hosts(Database& database, const Pairs& pairs) {
  for (const auto& [key, value] : pairs) {
    if (key == "host") {
      // PgBouncer's host= names no ports; nothing that it takes for a host means another one here.
      Result<std::vector<HostPort>> hosts = parse_hosts(value, database.port);
      if (!hosts) return bad_value(key, value, hosts.error());
      database.hosts = std::move(*hosts);
    } else if (key == "replica_host") {
      Result<std::vector<HostPort>> hosts = parse_hosts(value, database.port);
      if (!hosts) return bad_value(key, value, hosts.error());
      if (hosts->size() > kReplicasMax)
        return bad_value(key, value, Error("expected at most 16 replicas"));
      database.replica_hosts = std::move(*hosts);
    }
  }
  if (database.hosts.empty()) database.hosts.push_back({"", database.port});
  for (const HostPort& replica : database.replica_hosts) {
    for (const HostPort& host : database.hosts) {
      if (replica == host)
        return Error(concat({"replica_host: ", replica.text(), " is in host too"}));
    }
  }
  std::set<std::string> seen;
  for (const HostPort& replica : database.replica_hosts) {
    if (!seen.insert(replica.text()).second)
      return Error(concat({"replica_host: ", replica.text(), " is there twice"}));
  }
  if (!database.replica_hosts.empty() && database.target_session_attrs != TargetSessionAttrs::any)
    return Error("target_session_attrs: a line with replica_host chooses by itself; use a second line with host= alone");
  return {};
}

Status apply_database(Settings& settings, const IniLine& line) {
  if (line.key == "pgbouncer" || line.key == "pgweir") {
    return Error(concat({"database ", line.key, ": the name belongs to the console"}));
  }
  if (line.key.size() > kDatabaseNameBytesMax)
    return Error(concat({"database ", line.key, ": expected a name of at most 63 bytes"}));
  Database database;
  database.name = line.key;
  if (line.key != "*") database.dbname = line.key;
  Result<Pairs> pairs = parse_connection_string(line.value);
  Status ok = pairs ? apply_options(database, database_options(), *pairs) : Status(pairs.error());
  if (ok) ok = apply_hosts(database, *pairs);
  if (ok) ok = apply_weights(database, *pairs);
  if (ok && database.user.size() > kUserNameBytesMax)
    ok = Error("user: expected a name of at most 127 bytes");
  if (ok && database.password.size() > kPasswordBytesMax)
    ok = Error("password: expected at most 65530 bytes");
  if (!ok) return std::move(ok).error_at(concat({"database ", line.key}));
  settings.databases.insert_or_assign(line.key, std::move(database));
  return {};
}

Status apply_user(Settings& settings, const IniLine& line) {
  if (line.key.size() > kUserNameBytesMax)
    return Error(concat({"user ", line.key, ": expected a name of at most 127 bytes"}));
  User user;
  user.name = line.key;
  Result<Pairs> pairs = parse_connection_string(line.value);
  Status ok = pairs ? apply_options(user, user_options(), *pairs) : Status(pairs.error());
  if (!ok) return std::move(ok).error_at(concat({"user ", line.key}));
  settings.users.insert_or_assign(line.key, std::move(user));
  return {};
}

Status apply_peer(Settings& settings, const IniLine& line) {
  Peer peer;
  Result<int> id = parse_value<int>(line.key, {.lowest = 1, .highest = 16383});
  if (!id) return Error(concat({"peer ", line.key, ": ", id.error().text()}));
  peer.id = *id;
  Result<Pairs> pairs = parse_connection_string(line.value);
  Status ok = pairs ? apply_options(peer, peer_options(), *pairs) : Status(pairs.error());
  if (ok && peer.host.empty()) ok = Error("expected host=");
  if (!ok) return std::move(ok).error_at(concat({"peer ", line.key}));
  settings.peers.insert_or_assign(peer.id, std::move(peer));
  return {};
}

/// `database`: of [table_rules:database].
Status apply_table_rule(Settings& settings, const IniLine& line, std::string_view database) {
  Result<TablePattern> pattern = TablePattern::parse(line.key);
  if (!pattern) return Error(pattern.error()).at(concat({"table rule ", line.key}));
  Result<TableRule> rule = parse_table_rule(line.value);
  if (!rule) return bad_value(line.key, line.value, rule.error());
  settings.table_rules.push_back({std::string(database), std::move(*pattern), *rule});
  return {};
}

Status apply_setting(Settings& settings, std::string_view name, std::string_view value) {
  const Row* row = find_row(name);
  if (!row) return Error(concat({"unknown setting ", name}));
  if (Status ok = row->set(*row, settings, value); !ok) return bad_value(name, value, ok.error());
  return {};
}

Status apply(Settings& settings, const IniLine& line) {
  if (line.section == "databases") return apply_database(settings, line);
  if (line.section == "users") return apply_user(settings, line);
  if (line.section == "peers") return apply_peer(settings, line);
  constexpr std::string_view kRules = "table_rules";
  if (line.section.compare(0, kRules.size(), kRules) == 0) {
    const std::string_view behind = std::string_view(line.section).substr(kRules.size());
    if (behind.empty()) return apply_table_rule(settings, line, {});
    if (behind.size() > 1 && behind[0] == ':') return apply_table_rule(settings, line, behind.substr(1));
  }
  if (line.section == "pgbouncer" || line.section == "pgweir")
    return apply_setting(settings, line.key, line.value);
  return Error(concat({"unknown section [", line.section,
                       "]: expected databases, users, pgbouncer, pgweir, peers, table_rules or table_rules:database"}));
}

/// Without the question there is no answer "no TLS here" either, so nothing to fall back from.
Status check_negotiation(SslNegotiation how, TlsMode mode) {
  if (how == SslNegotiation::postgres || mode >= TlsMode::require) return {};
  return bad_value("server_tls_sslnegotiation", to_string(how),
                   Error("expected postgres where server_tls_sslmode is below require"));
}

/// What only all lines together can say.
Status check_together(const Settings& settings) {
  if (settings.auth_dbname == "pgbouncer" || settings.auth_dbname == "pgweir") {
    return Error(concat({"auth_dbname: cannot use the reserved \"", settings.auth_dbname, "\" database as an auth_dbname"}));
  }
  if (Status ok = check_negotiation(settings.server_tls_sslnegotiation, settings.server_tls_sslmode); !ok) return ok;
  for (std::size_t i = 0, different = 0; i < settings.table_rules.size(); ++i) {
    const auto same = [&](const TableRuleLine& line) { return line.rule == settings.table_rules[i].rule; };
    const auto upto = settings.table_rules.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(settings.table_rules.begin(), upto, same)) ++different;
    if (different > kTableRulesMax)
      return Error(concat({"table_rules: expected at most ", std::to_string(kTableRulesMax), " different values"}));
  }
  for (const TableRuleLine& line : settings.table_rules) {
    if (!line.database.empty() && !settings.databases.contains(line.database) && !settings.databases.contains("*"))
      return Error(concat({"[table_rules:", line.database, "]: there is no such database in [databases]"}));
  }
  for (const auto& [name, database] : settings.databases) {
    Status ok = check_negotiation(server_tls_sslnegotiation(settings, database), server_tls_sslmode(settings, database));
    if (!ok) return std::move(ok).error_at(concat({"database ", name}));
  }
  return {};
}

}  // namespace

Settings defaults() {
  Settings settings;
  for (const Row& row : setting_rows()) {
    ENSURE(row.set(row, settings, row.fallback).ok());
  }
  return settings;
}

Result<Settings> load(const IniSource& files, const std::string& path) {
  Settings settings = defaults();
  settings.conffile = path;
  Result<std::vector<IniLine>> lines = read_ini(files, path);
  if (!lines) return std::move(lines).error();
  for (const IniLine& line : *lines) {
    if (Status ok = apply(settings, line); !ok) return std::move(ok).error_at(line.where);
  }
  if (Status ok = check_together(settings); !ok) return ok.error();
  return settings;
}

Status apply_set(Settings& settings, std::string_view name, std::string_view value) {
  const Row* row = find_row(name);
  if (row && row->reload == Reload::restart) return {};
  if (Status ok = apply_setting(settings, name, value); !ok) return ok;
  return check_together(settings);
}

}  // namespace pgweir::config
