// The texts that begin and end a transaction block, as far as they are understood whole. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace pgweir::session {

enum class Isolation : std::uint8_t {
  unset,           ///< as default_transaction_isolation says
  read_committed,  ///< and READ UNCOMMITTED, which is the same
  repeatable_read,
  serializable,
};

struct BlockStart {
  Isolation isolation = Isolation::unset;
  bool read_only = false;
  bool begin = true;  ///< BEGIN; else START TRANSACTION, which is what its answer says
};

/// "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" and the like; comments and semicolons may stand around it. nullopt: it is
/// something else, or more.
std::optional<BlockStart> read_block_start(Bytes sql) noexcept;

struct BlockEnd {
  bool commit = false;
  bool chain = false;
};

/// "COMMIT", "END WORK", "ROLLBACK AND CHAIN"; nullopt: it is something else, or more.
std::optional<BlockEnd> read_block_end(Bytes sql) noexcept;

/// Whether a statement, or a value bound to it, may ask for the time of its transaction: it names one of the functions that tell
/// it, or one of the words that date and time values are written with ('now', 'today').
bool asks_for_the_time(Bytes bytes) noexcept;

}  // namespace pgweir::session
