// Texts in encodings whose characters hold bytes that look like ASCII: what is converted can be read back to the same bytes, so no two
// texts become one; and it is judged as the converted text is.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "sql/classifier.h"
#include "sql/encoding.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr Encoding kEncodings[] = {Encoding::sjis, Encoding::double_byte, Encoding::gb18030, Encoding::johab};
  const Dialect dialect{.standard_conforming_strings = (data[0] & 4) == 0, .encoding = kEncodings[data[0] & 3]};
  const Bytes text(reinterpret_cast<const char*>(data) + 1, size - 1);

  std::vector<char> converted;
  const bool whole = without_hidden_ascii(dialect.encoding, text, converted);
  FixedRandom random;
  Classifier classifier(random, 8);
  const auto judged = classifier.classify(text, dialect);
  if (!whole) {
    demand(judged->cause == Cause::unparsed);
    return 0;
  }
  std::string back;
  for (std::size_t at = 0; at < converted.size(); ++at) {
    const auto byte = static_cast<unsigned char>(converted[at]);
    if (byte < 0x80) {
      back += converted[at];
      continue;
    }
    demand(byte >= 0xF0 && at + 1 < converted.size());
    const auto low = static_cast<unsigned char>(converted[++at]);
    demand(low >= 0xF0);
    back += static_cast<char>((byte & 0xFU) << 4 | (low & 0xFU));
  }
  demand(back == text);

  // A text of the same encoding that holds ASCII alone, or the converted one of none: the same tokens stand in both.
  const Dialect plain{.standard_conforming_strings = dialect.standard_conforming_strings, .encoding = Encoding::ascii_safe};
  const auto as_converted = classifier.classify(Bytes(converted.data(), converted.size()), plain);
  if (judged->cause != Cause::unparsed) {
    demand(judged->cause == as_converted->cause && judged->kind == as_converted->kind);
    demand(judged->statements.size() == as_converted->statements.size());
    demand(judged->reads.all == as_converted->reads.all && judged->writes.all == as_converted->writes.all);
  }
  // Doubt only ever adds.
  if (judged->target == Target::replica) demand(as_converted->target == Target::replica);
  return 0;
}
