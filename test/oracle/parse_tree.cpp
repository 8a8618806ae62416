// Statements on standard input, their parse trees on standard output: each a length (4 bytes, big-endian) and that many
// bytes. A tree is libpg_query's JSON; where there is none, the answer begins with `!` and says why.
#include <pg_query.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

bool read_text(std::string& text) {
  std::array<unsigned char, 4> head{};
  if (std::fread(head.data(), 1, head.size(), stdin) != head.size()) return false;
  std::uint32_t size = 0;
  for (unsigned char byte : head) size = size << 8 | byte;
  text.resize(size);
  return std::fread(text.data(), 1, size, stdin) == size;
}

void write_text(const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  for (int shift = 24; shift >= 0; shift -= 8) std::fputc(static_cast<int>(size >> shift & 0xFF), stdout);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (std::string text; read_text(text);) {
    const PgQueryParseResult result = pg_query_parse(text.c_str());
    write_text(result.error != nullptr ? "!" + std::string(result.error->message) : std::string(result.parse_tree));
    pg_query_free_parse_result(result);
  }
  return 0;
}
