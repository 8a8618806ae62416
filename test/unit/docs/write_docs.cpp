// Writes what is generated of the documents: write_docs [--check] SOURCE_FOLDER. With --check
// nothing is written, and the exit code is 1 when something is behind.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "admin/commands.h"
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

/// The page with what stands between the markers of each block replaced.
template <class Block>
Result<std::string> with_blocks(std::string page, const std::vector<Block>& blocks) {
  for (const Block& block : blocks) {
    const std::string begin = concat({"<!-- ", block.name, " -->\n"});
    const std::string end = concat({"<!-- /", block.name, " -->"});
    const std::size_t from = page.find(begin);
    const std::size_t to = page.find(end);
    if (from == std::string::npos || to == std::string::npos || to < from) {
      return Error(concat({"has no place for ", block.name}));
    }
    page.replace(from + begin.size(), to - from - begin.size(), block.text);
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

template <class Block>
bool settle_page(const std::string& path, const std::vector<Block>& blocks, bool check) {
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
  bool good = settle(root + "/etc/pgweir.ini", pgweir::config::sample_file(), check);
  good = settle_page(root + "/docs/configuration.md", pgweir::config::reference_blocks(), check) &&
         good;
  good = settle_page(root + "/docs/admin-console.md", pgweir::admin::reference_blocks(), check) &&
         good;
  return good ? 0 : 1;
}
