// The token as an application carries it from one session to another (SHOW and SET pgweir.token): in a cookie, a message, a job. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "tokens/lsn.h"

namespace pgweir::tokens {

/// 7312345678901234567:3:16/B374D848
/// |                   | |
/// |                   | position in the WAL
/// |                   timeline
/// the cluster's system identifier
///
/// All databases of a cluster write one WAL, so it holds in each of them.
struct CarriedToken {
  std::string system_id;
  Token token;
};

std::string to_string(const CarriedToken& carried);
/// The error says what was expected, and not what was given.
Result<CarriedToken> parse_carried_token(Bytes text);

/// What is known of the primary.
struct KnownPrimary {
  std::string_view system_id;
  std::uint32_t timeline = 0;
  Lsn insert;  ///< it has got at least as far
  Lsn first;   ///< where it was when it was first seen with its present identity
  WalGeometry geometry;
};

struct TokenVerdict {
  enum class What : std::uint8_t {
    taken,    ///< whoever has it must see `lsn`
    ahead,    ///< of all that is known of the primary: another process may know more, so the primary is to be asked
    refused,
  };
  What what = What::refused;
  Lsn lsn;
  std::string why;  ///< of ahead and refused: what was expected
};

/// A token of an older timeline asks for no more than what survived: the position at which the present primary began is the most.
/// One that the primary has not reached is of a history that was lost, or made up: it would keep all reads of a shared key on the
/// primary for ever.
TokenVerdict judge(const CarriedToken& carried, const KnownPrimary& primary);

}  // namespace pgweir::tokens
