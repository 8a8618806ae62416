// PgBouncer 1.25.2's settings, options, console, signals and command line, as lists of facts in
// test/data/pgbouncer, against our tables and the page that is made of them: nothing may be
// missing, and what a row claims must be what the code does.
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "admin/commands.h"
#include "app/command_line.h"
#include "base/text.h"
#include "config/settings_table.h"

using namespace pgweir;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE(file);
  return text.str();
}

using Fields = std::vector<std::string>;

/// The lines of test/data/pgbouncer/`name`, split at tabs. There is no last field that is empty in
/// a file edited by people, so what is missing is empty.
std::vector<Fields> contract(const std::string& name, std::size_t fields) {
  std::istringstream lines(read(std::string(PGWEIR_TEST_DATA) + "/pgbouncer/" + name));
  std::vector<Fields> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    Fields row;
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, '\t');) row.push_back(part);
    row.resize(std::max(row.size(), fields));
    rows.push_back(std::move(row));
  }
  REQUIRE(rows.size() > 2);
  return rows;
}

std::string page() {
  return read(std::string(PGWEIR_SOURCE_DIR) + "/docs/migrating-from-pgbouncer.md");
}

std::string block(const std::string& name) {
  const std::string text = page();
  const std::size_t from = text.find("<!-- " + name + " -->");
  const std::size_t to = text.find("<!-- /" + name + " -->");
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  return text.substr(from, to - from);
}

/// The cells of the line of a block that begins with `| first |`.
Fields row_of(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| " + first + " |", 0) != 0) continue;
    Fields cells;
    std::size_t at = 1;
    for (std::size_t i = 1; i < line.size(); ++i) {
      if (line[i] != '|' || line[i - 1] == '\\') continue;
      cells.emplace_back(trimmed(line.substr(at, i - at)));
      at = i + 1;
    }
    return cells;
  }
  return {};
}

template <class Line>
const config::Option<Line>* find_option(std::span<const config::Option<Line>> options,
                                        std::string_view name) {
  for (const config::Option<Line>& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

template <class Line>
void check_options(const std::string& section, std::span<const config::Option<Line>> options) {
  const std::string shown = block("migration-options");
  std::set<std::string> known;
  for (const Fields& fact : contract("options.tsv", 4)) {
    if (fact[0] != section) continue;
    INFO(section << ' ' << fact[1]);
    const config::Option<Line>* option = find_option<Line>(options, fact[1]);
    REQUIRE(option);
    const bool later = fact[3] == "later";
    CHECK(option->origin == (later ? config::Origin::later : config::Origin::pgbouncer));
    const std::string line = concat({"| `[", section, "]` | `", fact[1], "` | "});
    CHECK((shown.find(line) != std::string::npos) == !later);
    known.insert(fact[1]);
  }
  for (const config::Option<Line>& option : options) {
    INFO(option.name);
    CHECK((known.count(std::string(option.name)) == 1) ==
          (option.origin != config::Origin::pgweir));
  }
}

/// The settings that the program looks at: x of settings.x, settings_->x, settings().x, all.x. What
/// counts for one database or user is asked by functions of that name, which do so. Comments, the
/// table itself and the reading of files don't count.
std::set<std::string> looked_at() {
  namespace fs = std::filesystem;
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::set<std::string> names;
  const auto read_line = [&](std::string_view line) {
    for (std::size_t at = 1; at < line.size(); ++at) {
      const bool arrow = line[at] == '>' && line[at - 1] == '-';
      if (line[at] != '.' && !arrow) continue;
      std::string_view owner = line.substr(0, arrow ? at - 1 : at);
      if (owner.ends_with("()")) owner.remove_suffix(2);
      std::size_t from = owner.size();
      while (from > 0 && in_name(owner[from - 1])) --from;
      owner.remove_prefix(from);
      if (owner != "settings" && owner != "settings_" && owner != "all") continue;
      std::size_t end = at + 1;
      while (end < line.size() && in_name(line[end])) ++end;
      names.emplace(line.substr(at + 1, end - at - 1));
    }
  };
  const std::string source = concat({PGWEIR_SOURCE_DIR, "/src"});
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h") continue;
    if (name == "settings_table.cpp" || name == "load.cpp") continue;
    std::istringstream lines(read(entry.path().string()));
    for (std::string line; std::getline(lines, line);)
      read_line(std::string_view(line).substr(0, line.find("//")));
  }
  return names;
}

}  // namespace

TEST_CASE(
    "every setting of PgBouncer has its row, its default, and can be changed when it can there",
    "[docs]") {
  const std::string shown = block("migration-settings");
  const std::string later_shown = block("migration-later");
  std::set<std::string> known;
  for (const Fields& fact : contract("settings.tsv", 4)) {
    INFO(fact[0]);
    const config::Row* row = config::find_row(fact[0]);
    REQUIRE(row);
    known.insert(fact[0]);
    CHECK(row->fallback == fact[1]);
    CHECK((row->reload == config::Reload::live) == (fact[2] == "yes"));
    const bool later = fact[3] == "later";
    CHECK(row->origin == (later ? config::Origin::later : config::Origin::pgbouncer));
    const Fields cells = row_of(later ? later_shown : shown, concat({"`", fact[0], "`"}));
    if (later) {
      CHECK(cells.size() == 2);
      continue;
    }
    REQUIRE(cells.size() == 4);
    CHECK(cells[1] == (fact[1].empty() ? "" : concat({"`", fact[1], "`"})));
    CHECK(cells[2] == (fact[2] == "yes" ? "reload" : "restart"));
    const bool same = row->differs.empty() && row->effect == config::Effect::full;
    CHECK((cells[3] == "same") == same);
    CHECK((cells[3].rfind("different: ", 0) == 0) == !same);
  }
  for (const config::Row& row : config::setting_rows()) {
    INFO(row.name);
    CHECK((known.count(std::string(row.name)) == 1) == (row.origin != config::Origin::pgweir));
  }
}

TEST_CASE("what SHOW CONFIG says of PgBouncer's settings is what PgBouncer says", "[docs]") {
  std::map<std::string, config::ConfigRow> shown;
  for (config::ConfigRow& row : config::show_config(config::defaults()))
    shown.emplace(row.key, std::move(row));
  for (const Fields& fact : contract("settings.tsv", 4)) {
    INFO(fact[0]);
    const bool later = fact[3] == "later";  // 1.25.2 does not show what is newer.
    REQUIRE(shown.count(fact[0]) == (later ? 0 : 1));
    if (later) continue;
    CHECK(shown[fact[0]].fallback == fact[1]);
    CHECK((shown[fact[0]].changeable ? "yes" : "no") == fact[2]);
    // The rights of the socket are printed as a number.
    CHECK(shown[fact[0]].value == (fact[0] == "unix_socket_mode" ? "511" : fact[1]));
  }
}

TEST_CASE("a setting that is said to have an effect is looked at", "[docs]") {
  const std::set<std::string> used = looked_at();
  for (const config::Row& row : config::setting_rows()) {
    INFO(row.name);
    if (row.effect == config::Effect::full) CHECK(used.count(std::string(row.name)) == 1);
  }
}

TEST_CASE("every option of a database, a user and a peer has its row", "[docs]") {
  check_options<config::Database>("databases", config::database_options());
  check_options<config::User>("users", config::user_options());
  check_options<config::Peer>("peers", config::peer_options());
  const config::Database database;
  const config::Peer peer;
  for (const Fields& fact : contract("options.tsv", 4)) {
    if (fact[2].empty()) continue;
    INFO(fact[0] << ' ' << fact[1]);
    std::string ours = "not compared";
    if (fact[1] == "port") ours = std::to_string(fact[0] == "peers" ? peer.port : database.port);
    if (fact[1] == "load_balance_hosts") ours = config::to_string(database.load_balance_hosts);
    CHECK(ours == fact[2]);
  }
}

TEST_CASE("every console command has its row, access and columns", "[docs]") {
  const std::string shown = block("migration-console");
  std::set<std::string> known;
  for (const Fields& fact : contract("console.tsv", 4)) {
    INFO(fact[0]);
    known.insert(fact[0]);
    const admin::Command* found = nullptr;
    for (const admin::Command& command : admin::commands()) {
      if (command.words == fact[0]) found = &command;
    }
    REQUIRE(found);
    CHECK(found->of_pgbouncer);
    CHECK(found->access == (fact[1] == "admin" ? admin::Access::admin : admin::Access::stats));
    const std::string_view space = found->arguments.empty() ? "" : " ";
    const Fields cells = row_of(shown, concat({"`", found->words, space, found->arguments, "`"}));
    REQUIRE(cells.size() == 2);
    CHECK((cells[1] == "same") == found->differs.empty());
    if (found->refused) {
      CHECK(!found->differs.empty());
      continue;
    }
    std::string columns;
    for (const admin::Column& column : found->columns) {
      columns += concat({columns.empty() ? "" : " ", column.name});
      if (column.type != admin::Type::text) columns += concat({":", admin::to_string(column.type)});
    }
    CHECK(columns == fact[3]);
  }
  for (const admin::Command& command : admin::commands()) {
    INFO(command.words);
    CHECK((known.count(std::string(command.words)) == 1) == command.of_pgbouncer);
  }
}

TEST_CASE("every signal and every option of the command line has its row", "[docs]") {
  std::set<std::string> ours;
  for (const app::Signal& signal : app::signals()) ours.emplace(signal.name);
  std::set<std::string> theirs;
  for (const Fields& fact : contract("signals.tsv", 1)) {
    INFO(fact[0]);
    theirs.insert(fact[0]);
    CHECK(row_of(block("migration-signals"), fact[0]).size() == 3);
  }
  CHECK(ours == theirs);

  std::set<std::string> flags;
  for (const app::Flag& flag : app::flags())
    flags.insert(concat({std::string_view(&flag.letter, 1), " ", flag.name, " ", flag.argument}));
  std::set<std::string> wanted;
  for (const Fields& fact : contract("flags.tsv", 3)) {
    wanted.insert(concat({fact[0], " ", fact[1], " ", fact[2]}));
    INFO(fact[0]);
    CHECK(app::usage().find(concat({"  -", fact[0], ", --", fact[1]})) != std::string::npos);
    CHECK(block("migration-flags").find(concat({"| `-", fact[0], "`, `--", fact[1]})) !=
          std::string::npos);
  }
  CHECK(flags == wanted);
}
