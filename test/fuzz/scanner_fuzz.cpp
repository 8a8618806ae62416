// The lexer over any bytes: tokens lie in order inside the text, both of its users agree on what is
// broken, and a script's pieces are pieces of the script. The outline, which is read without it, is the
// same on every machine, and can be read again as a text whose outline it is.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "sql/hint.h"
#include "sql/outline.h"
#include "sql/scanner.h"
#include "sql/shape.h"
#include "sql/split.h"
#include "sql/tokens.h"

using namespace pgweir;
using namespace pgweir::sql;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Dialect dialect{.standard_conforming_strings = (data[0] & 1) == 0};
  const Bytes text(reinterpret_cast<const char*>(data) + 1, size - 1);

  std::vector<Token> tokens;
  TokenSink token_sink(text, tokens);
  const ScanEnd end = Scanner<TokenSink>(text, dialect, token_sink).run();
  std::vector<char> written;
  ShapeSink shape_sink({1, 2}, dialect, text, written);
  demand(Scanner<ShapeSink>(text, dialect, shape_sink).run() == end);

  std::vector<char> scratch;
  std::vector<char> other_scratch;
  const std::optional<Bytes> outline = write_outline(text, scratch);
  demand(outline == write_outline_portably(text, other_scratch));
  if (outline && end == ScanEnd::complete && dialect.standard_conforming_strings) {
    // The outline of an outline, with some value for each mark, is the same again.
    std::string other;
    for (std::size_t i = 0; i < outline->size(); ++i) {
      const Bytes before = outline->substr(0, i);
      if ((*outline)[i] != '\0')
        other += (*outline)[i];
      else if (before.ends_with('\''))
        other += "x'";
      else if (before.ends_with("/*"))
        other += "y*/";
      else
        other += before.ends_with('.') ? "7" : "7.5";
    }
    demand(write_outline(other, other_scratch) == outline);
  }

  // What the class promises to be there can be read, and nothing else can. A level `primary` is part of the class.
  const NamedHints hints = read_hints(text, dialect);
  const bool levels = std::any_of(hints.levels.begin(), hints.levels.end(), [](const std::string& level) { return !equals_ignoring_case(level, "primary"); });
  if (end == ScanEnd::complete) demand(token_sink.seen_hint().named == (!hints.keys.empty() || levels));
  demand(hints.keys.size() <= NamedHints::kNamesMax && hints.levels.size() <= NamedHints::kNamesMax);

  std::size_t from = 0;
  for (const Token& token : tokens) {
    demand(token.begin >= from && token.size > 0);
    from = token.begin + token.size;
    demand(from <= text.size());
  }
  for (Bytes piece : split_statements(text, dialect)) {
    demand(!piece.empty() && piece.data() >= text.data() &&
           piece.data() + piece.size() <= text.data() + text.size());
  }
  return 0;
}
