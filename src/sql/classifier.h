// Text to StatementClass, with the bounded cache keyed by shape that makes it cheap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/random.h"
#include "sql/catalog.h"
#include "sql/encoding.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

/// How the session that sent a text reads it.
struct Dialect {
  bool standard_conforming_strings = true;
  /// Of the client, as far as reading depends on it.
  Encoding encoding = Encoding::ascii_safe;
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

  /// The same, past the cache, with the names behind its keys and what led to its cause: for
  /// people.
  std::shared_ptr<const StatementClass> explain(Bytes text, Dialect dialect, Trace& trace);

  std::size_t cached() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgweir::sql
