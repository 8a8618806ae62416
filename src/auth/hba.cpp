#include "auth/hba.h"

#include <algorithm>

#include "base/text.h"

namespace pgweir::auth {
namespace {

constexpr int kFilesDepthMax = 10;
constexpr std::size_t kNamesMax = 100'000;

struct MethodWord {
  std::string_view word;
  Method method;
};
constexpr MethodWord kMethods[] = {
    {"trust", Method::trust}, {"reject", Method::reject}, {"password", Method::plain},
    {"md5", Method::md5},     {"peer", Method::peer},     {"scram-sha-256", Method::scram_sha_256},
    {"cert", Method::cert},   {"pam", Method::pam},       {"ldap", Method::ldap},
};
/// PostgreSQL's other methods.
constexpr std::string_view kForeignMethods[] = {"gss", "sspi", "ident", "radius", "bsd", "oauth"};

/// What find() has to know of the roles and does not: neither yes nor no.
enum class Fits : std::uint8_t { no, yes, unknown };

bool listed(const std::vector<std::string>& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool fits_database(const HbaRule::Names& databases, const HbaQuestion& asked) noexcept {
  if (asked.physical_replication) return databases.replication;
  return databases.all || (databases.same_user && asked.database == asked.user) ||
         listed(databases.names, asked.database);
}

Fits fits_user(const HbaRule::Names& users, const HbaQuestion& asked) noexcept {
  if (users.all || listed(users.names, asked.user)) return Fits::yes;
  if (users.roles.empty()) return Fits::no;
  if (listed(users.roles, asked.user)) return Fits::yes;  // A role holds itself.
  if (!asked.roles) return Fits::unknown;
  const bool member = std::any_of(users.roles.begin(), users.roles.end(),
                                  [&](const std::string& role) { return asked.roles->contains(role); });
  return member ? Fits::yes : Fits::no;
}

bool fits_connection(const HbaRule& rule, const HbaQuestion& asked) noexcept {
  switch (rule.connection) {
    case HbaRule::Connection::local: return !asked.address;
    case HbaRule::Connection::host: break;
    case HbaRule::Connection::hostssl:
      if (!asked.encrypted) return false;
      break;
    case HbaRule::Connection::hostnossl:
      if (asked.encrypted) return false;
      break;
  }
  return asked.address && (!rule.network || rule.network->holds(*asked.address));
}

Fits fits(const HbaRule& rule, const HbaQuestion& asked) noexcept {
  if (!fits_connection(rule, asked) || !fits_database(rule.databases, asked)) return Fits::no;
  return fits_user(rule.users, asked);
}

/// Reads one line after another; the file's name and the depth of @files go along.
class Reader {
 public:
  Reader(std::string_view file, const ReadFile& read_file) : file_(file), read_file_(read_file) {}

  /// nullopt: the line says nothing (hostgssenc).
  Result<std::optional<HbaRule>> read(const RuleLine& line);
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  Status read_names(const Field& field, HbaRule::Names& names, bool of_databases);
  Status add_file(const std::string& path, HbaRule::Names& names, bool of_databases, int depth);
  Status read_address(const RuleLine& line, std::size_t& at, HbaRule& rule);
  Status read_method(const RuleLine& line, std::size_t& at, HbaRule& rule);
  Status read_option(const Word& word, HbaRule& rule);
  Status add(const Word& word, HbaRule::Names& names, bool of_databases, std::string_view file, int depth);

  std::string file_;
  const ReadFile& read_file_;
  std::vector<std::string> warnings_;
};

/// The console's other name is the same database to rules.
std::string database_name(std::string name) { return name == "pgweir" ? "pgbouncer" : name; }

Status Reader::add(const Word& word, HbaRule::Names& names, bool of_databases, std::string_view file, int depth) {
  if (word.text.empty()) return Error("an empty name");
  if (names.names.size() >= kNamesMax) return Error("more than 100000 names");
  if (word.quoted) {
    names.names.push_back(of_databases ? database_name(word.text) : word.text);
  } else if (word.text == "all") {
    names.all = true;
  } else if (of_databases && word.text == "sameuser") {
    names.same_user = true;
  } else if (of_databases && word.text == "replication") {
    names.replication = true;
  } else if (of_databases && (word.text == "samerole" || word.text == "samegroup")) {
    return Error(concat({word.text, " is not supported: name the databases"}));
  } else if (word.text.front() == '@') {
    return add_file(path_beside(file, word.text.substr(1)), names, of_databases, depth + 1);
  } else if (!of_databases && word.text.front() == '+') {
    if (word.text.size() == 1) return Error("expected a role behind +");
    names.roles.push_back(word.text.substr(1));
  } else if (word.text.front() == '/') {
    return Error(concat({word.text, ": regular expressions are for auth_ident_file"}));
  } else {
    names.names.push_back(of_databases ? database_name(word.text) : word.text);
  }
  return {};
}

Status Reader::add_file(const std::string& path, HbaRule::Names& names, bool of_databases, int depth) {
  if (depth > kFilesDepthMax) return Error(concat({"@", path, ": files within files, more than 10 deep"}));
  const Result<std::string> text = read_file_(path);
  if (!text) return Error(concat({"@", path, ": ", text.error().text()}));
  const Result<std::vector<RuleLine>> lines = read_rule_lines(*text, path);
  if (!lines) return lines.error();
  for (const RuleLine& line : *lines) {
    for (const Field& field : line.fields) {
      for (const Word& word : field) {
        if (Status ok = add(word, names, of_databases, path, depth); !ok)
          return std::move(ok).error_at(concat({path, ":", std::to_string(line.number)}));
      }
    }
  }
  return {};
}

Status Reader::read_names(const Field& field, HbaRule::Names& names, bool of_databases) {
  for (const Word& word : field) {
    if (Status ok = add(word, names, of_databases, file_, 0); !ok) return ok;
  }
  return {};
}

Status Reader::read_address(const RuleLine& line, std::size_t& at, HbaRule& rule) {
  if (at >= line.fields.size() || line.fields[at].size() != 1) return Error("expected one address");
  const Word& address = line.fields[at++][0];
  if (address.is("all")) return {};
  if (address.is("samehost") || address.is("samenet"))
    return Error(concat({address.text, " is not supported: write the addresses"}));
  if (address.text.find('/') != std::string::npos) {
    rule.network = parse_network(address.text);
    if (!rule.network) return Error(concat({"address \"", address.text, "\": expected 10.0.0.0/8 or fe80::/10"}));
    return {};
  }
  if (!parse_ip(address.text))
    return Error(concat({"address \"", address.text, "\": expected an IP address, host names are not supported"}));
  if (at >= line.fields.size() || line.fields[at].size() != 1)
    return Error(concat({"address \"", address.text, "\": expected a mask behind it, or /bits"}));
  const Word& mask = line.fields[at++][0];
  rule.network = parse_network(address.text, mask.text);
  if (!rule.network) return Error(concat({"mask \"", mask.text, "\": expected one as 255.255.0.0"}));
  return {};
}

Status Reader::read_option(const Word& word, HbaRule& rule) {
  const std::size_t equals = word.text.find('=');
  if (equals == std::string::npos) return Error(concat({"expected name=value: ", word.text}));
  const std::string_view name = std::string_view(word.text).substr(0, equals);
  const std::string value = word.text.substr(equals + 1);
  if (name == "map" && (rule.method == Method::cert || rule.method == Method::peer)) {
    if (value.empty()) return Error("map: expected a name");
    rule.map = value;
  } else if (name == "clientname" && rule.method == Method::cert) {
    if (value != "CN" && value != "DN") return Error(concat({"clientname = \"", value, "\": expected CN or DN"}));
    rule.by_dn = value == "DN";
  } else if (name == "clientcert" && rule.connection == HbaRule::Connection::hostssl) {
    if (value == "verify-ca") {
      rule.client_cert = HbaRule::ClientCert::verify_ca;
    } else if (value == "verify-full") {
      rule.client_cert = HbaRule::ClientCert::verify_full;
    } else {
      return Error(concat({"clientcert = \"", value, "\": expected verify-ca or verify-full"}));
    }
  } else if (name == "pamservice" && rule.method == Method::pam) {
    rule.pam_service = value;
  } else {
    return Error(concat({"unknown option ", name}));
  }
  return {};
}

Status Reader::read_method(const RuleLine& line, std::size_t& at, HbaRule& rule) {
  if (at >= line.fields.size() || line.fields[at].size() != 1) return Error("expected one method");
  const std::string& word = line.fields[at++][0].text;
  if (std::find(std::begin(kForeignMethods), std::end(kForeignMethods), word) != std::end(kForeignMethods)) {
    warnings_.push_back(concat({file_, ":", std::to_string(line.number), ": method ", word,
                                " is not supported: who comes by this line is refused"}));
    rule.method = Method::reject;
    return {};
  }
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [&](const MethodWord& row) { return row.word == word; });
  if (found == std::end(kMethods))
    return Error(concat({"method \"", word, "\": expected trust, reject, password, md5, scram-sha-256, peer, cert, pam or ldap"}));
  rule.method = found->method;
  if (rule.method == Method::peer && rule.connection != HbaRule::Connection::local)
    return Error("peer is for local connections only");
  if (rule.method == Method::cert && rule.connection == HbaRule::Connection::local)
    return Error("cert is for connections with TLS only");
  const std::vector<Field> options(line.fields.begin() + static_cast<std::ptrdiff_t>(at), line.fields.end());
  if (rule.method == Method::ldap) {
    Result<LdapOptions> ldap = parse_ldap_options(options);
    if (!ldap) return ldap.error();
    rule.ldap = std::move(*ldap);
    return {};
  }
  for (const Field& field : options) {
    for (const Word& option : field) {
      if (Status ok = read_option(option, rule); !ok) return ok;
    }
  }
  return {};
}

Result<std::optional<HbaRule>> Reader::read(const RuleLine& line) {
  const auto at_line = [&](Status bad) {
    return std::move(bad).error_at(concat({file_, ":", std::to_string(line.number)}));
  };
  if (line.fields[0].size() != 1) return at_line(Error("expected one connection type"));
  const std::string& type = line.fields[0][0].text;
  HbaRule rule;
  rule.line = line.number;
  if (type == "local") {
    rule.connection = HbaRule::Connection::local;
  } else if (type == "host" || type == "hostnogssenc") {  // Nobody comes here with GSS encryption.
    rule.connection = HbaRule::Connection::host;
  } else if (type == "hostssl") {
    rule.connection = HbaRule::Connection::hostssl;
  } else if (type == "hostnossl") {
    rule.connection = HbaRule::Connection::hostnossl;
  } else if (type == "hostgssenc") {
    return std::optional<HbaRule>();
  } else {
    return at_line(Error(concat({"connection type \"", type, "\": expected local, host, hostssl or hostnossl"})));
  }
  if (line.fields.size() < 3) return at_line(Error("expected databases, users and a method"));
  if (Status ok = read_names(line.fields[1], rule.databases, true); !ok) return at_line(ok);
  if (Status ok = read_names(line.fields[2], rule.users, false); !ok) return at_line(ok);
  std::size_t at = 3;
  if (rule.connection != HbaRule::Connection::local) {
    if (Status ok = read_address(line, at, rule); !ok) return at_line(ok);
  }
  if (Status ok = read_method(line, at, rule); !ok) return at_line(ok);
  return std::optional<HbaRule>(std::move(rule));
}

}  // namespace

const HbaRule* HbaRules::find(const HbaQuestion& question) const noexcept {
  for (const HbaRule& rule : rules_) {
    switch (fits(rule, question)) {
      case Fits::no: break;
      case Fits::yes: return &rule;
      // Whose roles can't be known is let in by no rule behind one that may concern him.
      case Fits::unknown: return nullptr;
    }
  }
  return nullptr;
}

bool HbaRules::needs_roles(const HbaQuestion& question) const noexcept {
  for (const HbaRule& rule : rules_) {
    switch (fits(rule, question)) {
      case Fits::no: break;
      case Fits::yes: return false;
      case Fits::unknown: return true;
    }
  }
  return false;
}

bool HbaRules::names_roles() const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [](const HbaRule& rule) { return !rule.users.roles.empty(); });
}

Result<Hba> parse_hba(std::string_view text, std::string_view file, const ReadFile& read_file) {
  const Result<std::vector<RuleLine>> lines = read_rule_lines(text, file);
  if (!lines) return lines.error();
  Reader reader(file, read_file);
  std::vector<HbaRule> rules;
  for (const RuleLine& line : *lines) {
    Result<std::optional<HbaRule>> rule = reader.read(line);
    if (!rule) return rule.error();
    if (*rule) rules.push_back(std::move(**rule));
  }
  return Hba{HbaRules(std::move(rules)), reader.take_warnings()};
}

}  // namespace pgweir::auth
