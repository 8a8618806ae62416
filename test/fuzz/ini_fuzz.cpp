// Configuration text: whatever a file says, the load ends with settings or a reason, and what it
// says of its values can be read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "config/settings_table.h"

namespace {

/// The input is all files there are: one that includes itself, too.
class OneText final : public pgweir::config::IniSource {
 public:
  explicit OneText(std::string text) : text_(std::move(text)) {}
  pgweir::Result<std::string> read(const std::string& path) const override {
    if (path == "nowhere") return pgweir::Error("nowhere: no such file");
    if (path == "empty") return std::string();
    return text_;
  }

 private:
  std::string text_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pgweir::config;
  const OneText files(std::string(reinterpret_cast<const char*>(data), size));
  const auto lines = read_ini(files, "a.ini");
  if (lines) {
    for (const IniLine& line : *lines) {
      ENSURE(!line.key.empty() && !line.section.empty());
      // inih must not have cut, joined or trimmed anything: each value stands in the text as it is.
      ENSURE(line.value.find('\n') == std::string::npos);
      ENSURE(files.read("a.ini")->find(line.value) != std::string::npos);
    }
  } else {
    ENSURE(!lines.error().text().empty());
  }
  const auto settings = load(files, "a.ini");
  ENSURE(!settings || lines);
  if (!settings) return 0;
  Settings again = defaults();
  for (const Row& row : setting_rows()) {
    const std::string value = row.get(*settings);
    ENSURE(row.set(row, again, value).ok());
    ENSURE(row.get(again) == value);
  }
  for (const auto& [name, database] : settings->databases) {
    ENSURE(!database.hosts.empty() && database.name == name);
  }
  return 0;
}
