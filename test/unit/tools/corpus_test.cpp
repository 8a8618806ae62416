// The measured corpus (test/data/corpus) against what text alone, without any catalog, can know.
// Each disagreement is listed with its reason in disagreements.tsv: one more or one less fails.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tools/classify.h"
#include "tools/json.h"

using namespace pgweir;
using namespace pgweir::tools;

namespace {

using Names = std::set<std::string>;

struct Line {
  std::string id, sql, route, offload;
  bool needs_catalog = false;
  bool has_setup = false;
  Names tables_read, tables_written;
};
struct Answer {
  std::string route;
  Names tables_read, tables_written;
};

std::string field(const std::string& line, const char* name) {
  const auto found = find_json_string(line, name);
  REQUIRE(found);
  return found->value_or("");
}
/// The strings of an array, without the default schema.
Names names(const std::string& line, const std::string& field_name) {
  Names out;
  const std::size_t at = line.find("\"" + field_name + "\":");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = line.find('[', at);
  const std::string list = line.substr(begin + 1, line.find(']', begin) - begin - 1);
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    std::string name = part.substr(part.find('"') + 1);
    name.resize(name.rfind('"'));
    out.insert(name.starts_with("public.") ? name.substr(7) : name);
  }
  return out;
}

std::vector<Line> corpus() {
  std::ifstream file(PGWEIR_TEST_DATA "/corpus/routing.jsonl");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    Line line{
        field(text, "id"), field(text, "sql"), field(text, "route"), "", false, false, {}, {}};
    if (text.find("\"offload\": \"") != std::string::npos) line.offload = field(text, "offload");
    line.needs_catalog = text.find("\"needs_catalog\": true") != std::string::npos;
    line.has_setup = text.find("\"setup\": [\"") != std::string::npos;
    line.tables_read = names(text, "tables_read");
    line.tables_written = names(text, "tables_written");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Answer> answers() {
  std::istringstream no_input;
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string_view> args = {"--jsonl", PGWEIR_TEST_DATA "/corpus/routing.jsonl"};
  REQUIRE(classify_main(args, no_input, out, err, nullptr) == 0);
  std::vector<Answer> found;
  std::istringstream lines(out.str());
  for (std::string text; std::getline(lines, text);) {
    // Behind the statement's own text, which may hold anything.
    const std::string facts = "{" + text.substr(text.rfind(",\"tables_read\":") + 1);
    found.push_back(
        {field(text, "route"), names(facts, "tables_read"), names(facts, "tables_written")});
  }
  return found;
}

/// "q0001 route" and the like, as the file lists them for text alone.
std::set<std::string> explained() {
  std::ifstream file(PGWEIR_TEST_DATA "/corpus/disagreements.tsv");
  std::set<std::string> found;
  std::string line;
  std::getline(file, line);
  REQUIRE(line == "id\tmode\taspect\treason");
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string id, mode, aspect, reason;
    std::getline(columns, id, '\t');
    std::getline(columns, mode, '\t');
    std::getline(columns, aspect, '\t');
    std::getline(columns, reason, '\t');
    INFO(line);
    CHECK((mode == "text" || mode == "catalog" || mode == "both"));
    CHECK(reason.size() > 10);
    if (mode != "catalog") CHECK(found.insert(id + " " + aspect).second);
  }
  return found;
}

std::string listed(const std::set<std::string>& some, const std::set<std::string>& but_not) {
  std::string out;
  for (const std::string& item : some) {
    if (but_not.count(item) == 0) out += item + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("the text's verdict and tables are the corpus', but for what is listed with its reason") {
  const std::vector<Line> lines = corpus();
  const std::vector<Answer> found = answers();
  REQUIRE(lines.size() == 528);
  REQUIRE(found.size() == lines.size());
  std::set<std::string> differs;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const bool fault = line.route == "primary" && found[i].route != "primary";
    const bool lost = line.offload == "expected" && found[i].route != "replica";
    if (fault || lost) differs.insert(line.id + " route");
    if (line.tables_read != found[i].tables_read) differs.insert(line.id + " tables_read");
    if (line.tables_written != found[i].tables_written) differs.insert(line.id + " tables_written");
  }
  const std::set<std::string> known = explained();
  CHECK(listed(differs, known) == "");
  CHECK(listed(known, differs) == "");
}

TEST_CASE("what its text can tell is never sent to a replica against the corpus") {
  const std::vector<Line> lines = corpus();
  const std::vector<Answer> found = answers();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool text_tells =
        lines[i].route == "primary" && !lines[i].needs_catalog && !lines[i].has_setup;
    if (!text_tells) continue;
    INFO(lines[i].id << ": " << lines[i].sql);
    CHECK(found[i].route == "primary");
  }
}
