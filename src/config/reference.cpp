// What people read of the tables: the reference page's tables and the sample file.
#include "base/text.h"
#include "config/settings_table.h"

namespace pgweir::config {
namespace {

/// For a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : concat({"`", cell(text), "`"});
}

template <class Line>
bool has_option(std::span<const Option<Line>> options, std::string_view name) {
  for (const Option<Line>& option : options) {
    if (option.name == name) return true;
  }
  return false;
}

std::string scope_of(const Row& row) {
  std::string scope;
  if (has_option(database_options(), row.name)) scope += "database";
  if (has_option(user_options(), row.name)) scope += scope.empty() ? "user" : ", user";
  if (row.name == "default_pool_size") scope = "database, user (`pool_size`)";
  return scope;
}

bool is_pgbouncers(Origin origin) noexcept { return origin != Origin::pgweir; }

std::string settings_rows_of(bool of_pgbouncer, Effect effect) {
  std::string out =
      "| setting | default | also per | change by | meaning |\n|---|---|---|---|---|\n";
  for (const Row& row : setting_rows()) {
    if (is_pgbouncers(row.origin) != of_pgbouncer || row.effect != effect) continue;
    out +=
        concat({"| `", row.name, "` | ", code(row.fallback), " | ", scope_of(row), " | ",
                row.reload == Reload::live ? "reload" : "restart", " | ", cell(row.doc), " |\n"});
  }
  return out;
}

std::string settings_without_effect() {
  std::string out = "| setting | default | meaning in PgBouncer |\n|---|---|---|\n";
  for (const Row& row : setting_rows()) {
    if (row.effect == Effect::none) {
      out += concat({"| `", row.name, "` | ", code(row.fallback), " | ", cell(row.doc), " |\n"});
    }
  }
  return out;
}

template <class Line>
std::string option_rows(std::span<const Option<Line>> options) {
  std::string out = "| option | meaning |\n|---|---|\n";
  for (const Option<Line>& option : options) {
    out += concat({"| `", option.name, "`", option.origin == Origin::pgweir ? " (new)" : "", " | ",
                   cell(option.doc), " |\n"});
  }
  return out;
}

constexpr std::string_view kWithoutEffect = "It is read and shown, and has no effect in this version.";

/// An option that is named as a setting does what the setting does, or nothing as well.
template <class Line>
std::string_view differs_of(const Option<Line>& option) noexcept {
  if (!option.differs.empty()) return option.differs;
  const Row* setting = find_row(option.name);
  if (!setting || option.doc.find("As the setting") == std::string_view::npos) return {};
  if (!setting->differs.empty()) return setting->differs;
  return setting->effect == Effect::none ? kWithoutEffect : std::string_view();
}

std::string migration_settings() {
  std::string out = "| setting | default | change by | here |\n|---|---|---|---|\n";
  for (const Row& row : setting_rows()) {
    if (row.origin != Origin::pgbouncer) continue;
    std::string differs(row.differs);
    if (row.effect == Effect::none) differs += concat({differs.empty() ? "" : " ", kWithoutEffect});
    out += concat({"| `", row.name, "` | ", code(row.fallback), " | ",
                   row.reload == Reload::live ? "reload" : "restart", " | ",
                   migration_cell(differs), " |\n"});
  }
  return out;
}

template <class Line>
std::string migration_options(std::string_view section, std::span<const Option<Line>> options) {
  std::string out;
  for (const Option<Line>& option : options) {
    if (option.origin == Origin::pgbouncer)
      out += concat({"| `[", section, "]` | `", option.name, "` | ",
                     migration_cell(differs_of(option)), " |\n"});
  }
  return out;
}

std::string migration_later() {
  std::string out = "| name | where |\n|---|---|\n";
  for (const Row& row : setting_rows()) {
    if (row.origin != Origin::later) continue;
    out += concat({"| `", row.name, "` | setting",
                   row.effect == Effect::none ? ", without effect" : "", " |\n"});
  }
  for (const auto& option : database_options()) {
    if (option.origin == Origin::later)
      out += concat({"| `", option.name, "` | option of `[databases]` |\n"});
  }
  for (const auto& option : user_options()) {
    if (option.origin == Origin::later)
      out += concat({"| `", option.name, "` | option of `[users]` |\n"});
  }
  return out;
}

constexpr std::string_view kSampleHead =
    R"(;; A configuration of pgweir. It is read as PgBouncer reads its own: a pgbouncer.ini works here as it is.
;; What is commented out shows the default.

[databases]
;; name = connection string; PostgreSQL on the Unix socket, or somewhere else:
;shop = host=10.0.0.1 port=5432 dbname=shop
;; replica_host turns the read/write split on: reads that a replica may answer go there.
;shop = host=10.0.0.1 replica_host=10.0.0.2,10.0.0.3:5433
;; Every other name that a client asks for:
;* = host=10.0.0.1

[users]
;; name = options for that user
;report = pool_mode=transaction read_consistency=eventual

[pgbouncer]
)";

}  // namespace

std::vector<GeneratedBlock> reference_blocks() {
  return {
      {"settings-pgweir", settings_rows_of(false, Effect::full)},
      {"settings-pgbouncer", settings_rows_of(true, Effect::full)},
      {"settings-without-effect", settings_without_effect()},
      {"database-options", option_rows(database_options())},
      {"user-options", option_rows(user_options())},
      {"peer-options", option_rows(peer_options())},
  };
}

std::string migration_cell(std::string_view differs) {
  return differs.empty() ? "same" : concat({"different: ", cell(differs)});
}

std::vector<GeneratedBlock> migration_blocks() {
  return {
      {"migration-settings", migration_settings()},
      {"migration-options", concat({"| section | option | here |\n|---|---|---|\n",
                                    migration_options("databases", database_options()),
                                    migration_options("users", user_options()),
                                    migration_options("peers", peer_options())})},
      {"migration-later", migration_later()},
  };
}

std::string sample_file() {
  std::string out(kSampleHead);
  for (const Row& row : setting_rows()) {
    if (row.effect == Effect::none) continue;
    const std::string_view sep = row.fallback.empty() ? " =" : " = ";
    out += concat({";; ", row.doc, "\n;", row.name, sep, row.fallback, "\n\n"});
  }
  out.pop_back();
  return out;
}

}  // namespace pgweir::config
