// tools: the subcommands of the program that need no pooler. `pgweir classify` says for each
// statement of a file where it would go, by text and catalog alone.
#pragma once

#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sql/catalog.h"
#include "sql/classifier.h"

namespace pgweir::tools {

/// How the tools get at a database's catalog; whoever has connections implements it.
class CatalogLoader {
 public:
  virtual ~CatalogLoader() = default;
  /// `url` is what libpq takes: postgresql://… or key=value pairs.
  virtual Result<std::shared_ptr<const sql::Catalog>> load(std::string_view url) = 0;
};

/// `pgweir classify [--jsonl] [--catalog URL] [--no-standard-conforming-strings] [FILE]`; `args`
/// are those behind the subcommand. Reads `in` when no file is named or it is `-`; writes one JSON
/// object for each statement to `out`. Returns the exit code: 0, 1 when something could not be read
/// (said in `err`), 2 for a wrong command line.
int classify_main(std::span<const std::string_view> args, std::istream& in, std::ostream& out,
                  std::ostream& err, CatalogLoader* loader);

/// One line of the output, without its end:
/// {"sql":…,"route":…,"reason":…,"class":…,"shape":…,"tables_read":[…],
/// "tables_written":[…],"functions":[…],"because":…}: the last is the rule that led to the reason, empty where none
/// objects. With a catalog, also what is read and written in the end, through views, triggers and the like. The route
/// is what the text asks for: a hint is followed, levels and lag are not known here.
enum class Catalog : std::uint8_t { unknown, known };
std::string classification_json(std::string_view sql, const sql::StatementClass& statement, const sql::Trace& trace,
                                Catalog catalog);

}  // namespace pgweir::tools
