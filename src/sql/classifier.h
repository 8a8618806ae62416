// Text to StatementClass, with the bounded cache keyed by shape that makes it cheap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/random.h"
#include "sql/catalog.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

/// How the session that sent a text reads it.
struct Dialect {
  bool standard_conforming_strings = true;
  /// False for encodings whose multi-byte characters may hold ASCII bytes (SJIS, BIG5, GBK, UHC,
  /// GB18030, JOHAB): then everything but plain ASCII text is unparsed.
  bool ascii_safe_encoding = true;
};

/// What a database line adds to the rules: names of functions (lower case, `*` at the end as a
/// pattern).
struct FunctionRules {
  std::vector<std::string>
      replica;  ///< allowed on replicas whatever the catalog says; they write nothing
  std::vector<std::string> primary;  ///< never on a replica
};

/// One for each database that is split. Not thread-safe.
class Classifier {
 public:
  /// `secret` draws the key of the shape hash; `cache_entries_max` bounds the cache (an old entry
  /// makes room).
  Classifier(Random& secret, std::size_t cache_entries_max);
  ~Classifier();

  /// Names are looked up in `catalog` from now on (null: none is known); forgets what was cached.
  void use_catalog(std::shared_ptr<const Catalog> catalog);
  void use_rules(FunctionRules rules);

  /// Never null. Linear in the text; no allocation when the shape is cached. Texts longer than 1
  /// MiB are unparsed.
  std::shared_ptr<const StatementClass> classify(Bytes text, Dialect dialect);

  std::size_t cached() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgweir::sql
