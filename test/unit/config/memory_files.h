// Configuration files in memory.
#pragma once

#include <map>
#include <string>

#include "config/ini_text.h"

namespace pgweir::config {

class MemoryFiles final : public IniSource {
 public:
  MemoryFiles(std::initializer_list<std::pair<const std::string, std::string>> files)
      : files_(files) {}
  Result<std::string> read(const std::string& path) const override {
    const auto found = files_.find(path);
    if (found == files_.end()) return Error(path + ": no such file");
    return found->second;
  }

 private:
  std::map<std::string, std::string> files_;
};

}  // namespace pgweir::config
