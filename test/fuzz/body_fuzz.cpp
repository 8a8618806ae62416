// Bodies of functions: a reader that has read others gives what a fresh one gives, and what the classifier takes for a write in a text
// the reader does not take for a harmless body.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/random.h"
#include "base/text.h"
#include "sql/body_reader.h"
#include "sql/classifier.h"

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

enum class Language : std::uint8_t { sql, plpgsql };

Body read(BodyReader& reader, Language language, Bytes text) {
  Body body;
  language == Language::sql ? reader.read_sql(text, body) : reader.read_plpgsql(text, body);
  return body;
}

bool harmless(const Body& body) {
  return body.readable && !body.dynamic && !body.writes_all && !body.primary_only && body.found.writes.empty() &&
         !body.found.locks_rows && !body.found.select_into && !body.found.broken;
}

bool same(const Body& a, const Body& b) {
  return a.readable == b.readable && a.dynamic == b.dynamic && a.reads_all == b.reads_all && a.writes_all == b.writes_all &&
         a.primary_only == b.primary_only && a.found.reads == b.found.reads && a.found.writes == b.found.writes &&
         a.found.write_uses == b.found.write_uses && a.found.calls.size() == b.found.calls.size() &&
         a.found.operators == b.found.operators && a.found.types == b.found.types && a.found.dotted == b.found.dotted;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Language language = (data[0] & 1) == 0 ? Language::sql : Language::plpgsql;
  const Bytes text(reinterpret_cast<const char*>(data) + 1, size - 1);
  BodyReader fresh;
  const Body body = read(fresh, language, text);
  static BodyReader used;
  demand(same(read(used, language, text), body));
  demand(same(read(used, language, text), body));

  // Each statement of SQL that writes does so in a body, too, whatever language runs it. INTO is another word in PL/pgSQL.
  FixedRandom random;
  Classifier classifier(random, 8);
  const auto judged = classifier.classify(text, {});
  bool writes = false;
  for (const Statement& statement : judged->statements) writes = writes || statement.cause == Cause::write;
  if (!writes) return 0;
  BodyReader reader;
  demand(!harmless(read(reader, Language::sql, text)));
  const Bytes word = text.substr(0, 7);
  // `insert := …` assigns to a variable of that name.
  const bool assigns = text.find('=') != Bytes::npos && text.find('=') < 16;
  const bool begins = !assigns && (equals_ignoring_case(word, "insert ") || equals_ignoring_case(word, "update ") || equals_ignoring_case(word, "delete "));
  if (begins && judged->statements.size() == 1 && judged->statements.front().kind == Kind::write && !judged->tables_written.empty()) {
    const std::string wrapped = "BEGIN " + std::string(text) + "\n; END";
    demand(!harmless(read(reader, Language::plpgsql, wrapped)));
  }
  return 0;
}
