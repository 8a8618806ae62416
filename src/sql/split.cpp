#include "sql/split.h"

#include "base/text.h"
#include "sql/rules.h"
#include "sql/scanner.h"
#include "sql/tokens.h"

namespace pgweir::sql {

std::vector<Bytes> split_statements(Bytes script, Dialect dialect) {
  std::vector<Token> tokens;
  TokenSink sink(script, tokens);
  const bool broken = Scanner<TokenSink>(script, dialect, sink).run() == ScanEnd::broken;
  std::vector<Bytes> statements;
  std::size_t from = 0;  // in bytes, behind the last semicolon
  for (std::size_t at = 0; at < tokens.size();) {
    bool balanced = true;
    const std::size_t end = statement_end(tokens, at, balanced);
    const bool complete = balanced && end < tokens.size();
    if (!complete) break;
    if (end > at) statements.push_back(trimmed(script.substr(from, tokens[end].begin - from)));
    from = tokens[end].begin + tokens[end].size;
    at = end + 1;
  }
  const bool something_left = broken || (!tokens.empty() && tokens.back().begin >= from);
  if (something_left && !trimmed(script.substr(from)).empty())
    statements.push_back(trimmed(script.substr(from)));
  return statements;
}

}  // namespace pgweir::sql
