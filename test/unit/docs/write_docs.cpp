// Writes what is generated of the documents: write_docs [--check] SOURCE_FOLDER. With --check
// nothing is written, and the exit code is 1 when something is behind.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "admin/commands.h"
#include "app/command_line.h"
#include "base/text.h"
#include "config/settings_table.h"

using pgweir::concat;
using pgweir::Error;
using pgweir::Result;

namespace {

Result<std::string> read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Error(path + ": can't be read");
  return text.str();
}

/// Name and text: what stands between <!-- NAME --> and <!-- /NAME -->.
using Blocks = std::vector<std::pair<std::string, std::string>>;

template <class Block>
void add(Blocks& to, std::vector<Block> blocks) {
  for (Block& block : blocks) to.emplace_back(std::move(block.name), std::move(block.text));
}

Result<std::string> with_blocks(std::string page, const Blocks& blocks) {
  for (const auto& [name, text] : blocks) {
    const std::string begin = concat({"<!-- ", name, " -->\n"});
    const std::string end = concat({"<!-- /", name, " -->"});
    const std::size_t from = page.find(begin);
    const std::size_t to = page.find(end);
    if (from == std::string::npos || to == std::string::npos || to < from) {
      return Error(concat({"has no place for ", name}));
    }
    page.replace(from + begin.size(), to - from - begin.size(), text);
  }
  return page;
}

/// Compares, or writes. False when the file is behind or can't be written.
bool settle(const std::string& path, const Result<std::string>& wanted, bool check) {
  if (!wanted) {
    std::cerr << path << ": " << wanted.error().text() << '\n';
    return false;
  }
  const Result<std::string> found = read(path);
  if (found && *found == *wanted) return true;
  if (check) {
    std::cerr << path << " is behind the tables; run write_docs\n";
    return false;
  }
  std::ofstream file(path);
  file << *wanted;
  file.flush();
  if (!file) std::cerr << path << ": can't be written\n";
  return static_cast<bool>(file);
}

bool settle_page(const std::string& path, const Blocks& blocks, bool check) {
  Result<std::string> page = read(path);
  return settle(path, page ? with_blocks(std::move(*page), blocks) : page, check);
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::string_view(argv[1]) == "--check";
  if (argc != (check ? 3 : 2)) {
    std::cerr << "usage: write_docs [--check] SOURCE_FOLDER\n";
    return 2;
  }
  const std::string root = argv[argc - 1];
  Blocks configuration;
  add(configuration, pgweir::config::reference_blocks());
  Blocks console;
  add(console, pgweir::admin::reference_blocks());
  Blocks migration;
  add(migration, pgweir::config::migration_blocks());
  add(migration, pgweir::admin::migration_blocks());
  add(migration, pgweir::app::migration_blocks());
  bool good = settle(root + "/etc/pgweir.ini", pgweir::config::sample_file(), check);
  good = settle_page(root + "/docs/configuration.md", configuration, check) && good;
  good = settle_page(root + "/docs/admin-console.md", console, check) && good;
  good = settle_page(root + "/docs/migrating-from-pgbouncer.md", migration, check) && good;
  return good ? 0 : 1;
}
