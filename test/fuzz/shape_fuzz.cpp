// Texts of one shape have one class. Each input is judged, then rewritten with other literals,
// other white space and no comments, and judged again by a classifier that has not seen it: shape
// and class must be the same, for that is what the cache relies on.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "sql/classifier.h"
#include "sql/scanner.h"
#include "sql/tokens.h"

using namespace pgweir;
using namespace pgweir::sql;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

class FixedRandom final : public Random {
 public:
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = 'k';
  }
};

std::shared_ptr<const StatementClass> fresh(Bytes text, Dialect dialect) {
  FixedRandom random;
  Classifier classifier(random, 8);
  const auto first = classifier.classify(text, dialect);
  const auto again = classifier.classify(text, dialect);
  demand(first->target == again->target && first->shape == again->shape);
  // By now its outline is known as well, if it has one.
  const auto by_outline = classifier.classify(text, dialect);
  demand(by_outline->target == first->target && by_outline->shape == first->shape);
  return first;
}

std::string rewritten(Bytes text, const std::vector<Token>& tokens) {
  std::string out;
  for (const Token& token : tokens) {
    switch (token.type) {
      case TokenType::literal:
        out += " 'other'";
        break;
      case TokenType::number:
        out += " 42";
        break;
      case TokenType::parameter:
        out += " $7";
        break;
      case TokenType::dot:
      case TokenType::other:
      case TokenType::op:
      case TokenType::name:
      case TokenType::quoted_name:
      case TokenType::unicode_name:
      case TokenType::left_paren:
      case TokenType::right_paren:
      case TokenType::left_bracket:
      case TokenType::right_bracket:
      case TokenType::comma:
      case TokenType::semicolon:
      case TokenType::cast:
        out += " ";
        out += text_of(text, token);
        break;
    }
  }
  return out;
}

bool same(const std::vector<FunctionName>& a, const std::vector<FunctionName>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].schema != b[i].schema || a[i].name != b[i].name || a[i].arguments != b[i].arguments)
      return false;
  }
  return true;
}

void check(const StatementClass& judged) {
  demand((judged.target == Target::replica) == (judged.cause == Cause::none));
  for (const Statement& statement : judged.statements) {
    demand(judged.target == Target::primary ||
           (statement.cause == Cause::none && statement.kind == Kind::read));
  }
  if (judged.target != Target::replica) return;
  demand(judged.writes.empty() && judged.tables_written.empty());
  demand(!judged.has_session_step && !judged.has_transaction_step && !judged.may_commit &&
         !judged.is_ddl);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Dialect dialect{.standard_conforming_strings = (data[0] & 1) == 0};
  const Bytes text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto judged = fresh(text, dialect);
  check(*judged);

  std::vector<Token> tokens;
  TokenSink sink(text, tokens);
  if (Scanner<TokenSink>(text, dialect, sink).run() == ScanEnd::broken) return 0;
  // Several hints are several words of the shape; the rewritten text has one at most.
  if (sink.seen_hint().any()) return 0;
  const auto other = fresh(rewritten(text, tokens), dialect);
  demand(other->shape == judged->shape);
  demand(other->target == judged->target && other->cause == judged->cause &&
         other->kind == judged->kind);
  demand(other->tables_read == judged->tables_read &&
         other->tables_written == judged->tables_written);
  demand(other->statements.size() == judged->statements.size() &&
         same(other->functions, judged->functions));
  demand(other->reads.keys == judged->reads.keys && other->writes.keys == judged->writes.keys);
  demand(other->reads.all == judged->reads.all && other->writes.all == judged->writes.all);
  demand(other->has_session_step == judged->has_session_step &&
         other->depends_on_literal == judged->depends_on_literal);
  return 0;
}
