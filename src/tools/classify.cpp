#include "tools/classify.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "sql/split.h"
#include "tools/json.h"

namespace pgweir::tools {
namespace {

constexpr std::string_view kUsage =
    "usage: pgweir classify [--jsonl] [--catalog URL] [--no-standard-conforming-strings] [FILE]\n"
    "\n"
    "Prints one JSON object for each SQL statement of FILE (or of standard input): where it would "
    "go and why.\n"
    "  --jsonl        each line of the input is a JSON object with the statement in the field "
    "\"sql\"\n"
    "  --catalog URL  read the catalog of this database first (postgresql://user@host/dbname); "
    "without it\n"
    "                 functions that are not built in are unknown, and go to the primary\n"
    "  --no-standard-conforming-strings\n"
    "                 read '...' as with standard_conforming_strings = off\n";

constexpr std::size_t kCacheEntries = 10'000;

/// Shapes are to be compared between runs, and nobody attacks the cache of a tool: the same key
/// each time.
class FixedKey final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = static_cast<char>(seed_++ * 37 + 11);
  }

 private:
  unsigned seed_ = 0;
};

struct Options {
  bool jsonl = false;
  bool help = false;
  std::string catalog;
  std::string file = "-";
  sql::Dialect dialect;
};

Result<Options> parse(std::span<const std::string_view> args) {
  Options options;
  bool file_seen = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    constexpr std::string_view kCatalogIs = "--catalog=";
    if (arg == "--jsonl") {
      options.jsonl = true;
    } else if (arg == "--help" || arg == "-h") {
      options.help = true;
    } else if (arg == "--no-standard-conforming-strings") {
      options.dialect.standard_conforming_strings = false;
    } else if (arg == "--catalog") {
      if (i + 1 == args.size()) return Error("--catalog: expected a connection string behind it");
      options.catalog = args[++i];
    } else if (arg.starts_with(kCatalogIs)) {
      options.catalog = arg.substr(kCatalogIs.size());
    } else if (arg.size() > 1 && arg.starts_with('-')) {
      return Error(concat({"unknown option \"", arg, "\""}));
    } else if (file_seen) {
      return Error(concat({"one file at most, but \"", arg, "\" is a second one"}));
    } else {
      options.file = arg;
      file_seen = true;
    }
  }
  return options;
}

std::string hex(const sql::Shape& shape) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::uint64_t half : {shape.high, shape.low}) {
    for (int bit = 60; bit >= 0; bit -= 4) out += kHex[(half >> bit) & 0xF];
  }
  return out;
}

std::string qualified(const std::string& schema, const std::string& name) {
  return schema.empty() ? name : concat({schema, ".", name});
}

template <class Names>
void append_names(std::string& out, std::string_view field, const Names& names) {
  out += concat({",\"", field, "\":["});
  bool first = true;
  for (const auto& name : names) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, qualified(name.schema, name.name));
  }
  out += ']';
}

/// All tables are "*".
void append_tables(std::string& out, std::string_view field, bool all,
                   const std::vector<sql::RelationName>& names) {
  if (all) {
    append_names(out, field, std::vector<sql::RelationName>{{{}, "*"}});
  } else {
    append_names(out, field, names);
  }
}

class Classify {
 public:
  Classify(const Options& options, std::ostream& out, std::ostream& err)
      : options_(options), out_(out), err_(err), classifier_(key_, kCacheEntries) {}

  void use_catalog(std::shared_ptr<const sql::Catalog> catalog) {
    has_catalog_ = true;
    classifier_.use_catalog(std::move(catalog));
  }

  int script(std::istream& in) {
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::string_view statement : sql::split_statements(text, options_.dialect))
      print(statement);
    return 0;
  }

  int lines(std::istream& in) {
    int code = 0;
    std::size_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (trimmed(line).empty()) continue;
      Result<std::optional<std::string>> sql = find_json_string(line, "sql");
      if (sql && *sql) {
        print(**sql);
        continue;
      }
      const std::string why = sql ? "the object has no field \"sql\"" : sql.error().text();
      err_ << concat(
          {"pgweir classify: ", options_.file, ":", std::to_string(number), ": ", why, "\n"});
      code = 1;
    }
    return code;
  }

 private:
  void print(std::string_view sql) {
    sql::Trace trace;
    const auto statement = classifier_.explain(sql, options_.dialect, trace);
    out_ << classification_json(sql, *statement, trace, has_catalog_ ? Catalog::known : Catalog::unknown) << '\n';
  }

  const Options& options_;
  std::ostream& out_;
  std::ostream& err_;
  FixedKey key_;
  sql::Classifier classifier_;
  bool has_catalog_ = false;
};

int fail(std::ostream& err, std::string_view text, int code) {
  err << concat({"pgweir classify: ", text, "\n"});
  return code;
}

}  // namespace

std::string classification_json(std::string_view sql, const sql::StatementClass& statement,
                                const sql::Trace& trace, Catalog catalog) {
  using sql::Hint;
  using sql::Target;
  const bool by_hint = statement.hint == Hint::primary && statement.target == Target::replica;
  const bool replica = statement.target == Target::replica && !by_hint;
  std::string out = "{\"sql\":";
  append_json_string(out, sql);
  out += concat({",\"route\":\"", replica ? "replica" : "primary", "\",\"reason\":\"",
                 by_hint   ? "hint"
                 : replica ? "read"
                           : to_string(statement.cause),
                 "\",\"class\":\"", to_string(statement.kind), "\",\"shape\":\"",
                 hex(statement.shape), "\""});
  append_names(out, "tables_read", statement.tables_read);
  append_names(out, "tables_written", statement.tables_written);
  append_names(out, "functions", statement.functions);
  if (catalog == Catalog::known) {
    append_tables(out, "tables_read_deep", statement.reads.all, trace.reads);
    append_tables(out, "tables_written_deep", statement.writes.all, trace.writes);
  }
  out += ",\"because\":";
  append_json_string(out, statement.cause == sql::Cause::none ? std::string() : trace.because);
  out += '}';
  return out;
}

int classify_main(std::span<const std::string_view> args, std::istream& in, std::ostream& out,
                  std::ostream& err, CatalogLoader* loader) {
  const Result<Options> options = parse(args);
  if (!options) return fail(err, concat({options.error().text(), "\n", kUsage}), 2);
  if (options->help) {
    out << kUsage;
    return 0;
  }
  Classify classify(*options, out, err);
  if (!options->catalog.empty()) {
    if (loader == nullptr)
      return fail(err, "--catalog: this program was built without connections", 1);
    Result<std::shared_ptr<const sql::Catalog>> catalog = loader->load(options->catalog);
    if (!catalog) return fail(err, concat({"--catalog: ", catalog.error().text()}), 1);
    classify.use_catalog(*std::move(catalog));
  }
  std::ifstream file;
  const bool from_file = options->file != "-";
  if (from_file) {
    file.open(options->file, std::ios::binary);
    if (!file) return fail(err, concat({"can't read file \"", options->file, "\""}), 1);
  }
  std::istream& input = from_file ? file : in;
  const int code = options->jsonl ? classify.lines(input) : classify.script(input);
  if (!out.flush()) return fail(err, "can't write the output", 1);
  return code;
}

}  // namespace pgweir::tools
