// The words of PostgreSQL's grammar (versions 15 to 18): what the rules ask about by name, and what kind of
// word each is, which decides whether `word (` can be a function call at all.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace pgweir::sql {

/// Words that some rule asks about; `other` is every other key word, `none` is no key word. Not an enum class: a
/// rule switches over int{word}, because no rule has something to say about each of them.
struct Words {
  enum Word : std::uint8_t {
    none,
    other,
    abort, all, alter, analyse, analyze, and_, as, atomic, authorization, begin, binary, call,
    cascade, case_, cast, catalog, chain, characteristics, checkpoint, close, cluster, comment,
    commit, concurrently, constraints, copy, create, current, cursor, cycle, data, database,
    deallocate, declare, default_, delete_, discard, distinct, do_, drop, end, except,
    execute, exists, explain, fetch, for_, force, foreign, freeze, from, full, function, global,
    grant, group, having, hold, if_, import, in, index, insert, intersect, into, is, join, key,
    lateral, limit, listen, load, local, lock, materialized, merge, move, names, no, not_,
    notify, offset, on, only, operator_, option, or_, order, ordinality, plans, policy, prepare, prepared,
    procedure, program, reassign, recursive, refresh, reindex, release, replace, reset, returning,
    revoke, role, rollback, rows, rule, savepoint, schema, search, security, select, sequence,
    sequences, session, set, share, show, start, statistics, stdin_, stdout_, subscription, system,
    table, tablesample, tablespace, temp, temporary, time, to, transaction, treat, trigger,
    truncate, uescape, union_, unlisten, unlogged, update, using_, vacuum, values, variadic,
    verbose, view, when, where, window, with, work, xml, zone,
  };
};
using Word = Words::Word;

/// PostgreSQL's four kinds of key words, with one more cut out of `unreserved`.
enum class WordKind : std::uint8_t {
  name,           ///< No key word.
  unreserved,
  before_parens,  ///< Unreserved, but the grammar itself puts it before a parenthesis (OVER, FILTER, ...).
  column_name,    ///< Never the name of a function: what stands before `(` is syntax or a type.
  type_function,
  reserved,
};

struct WordEntry {
  Bytes text;
  Word word = Word::none;
  WordKind kind = WordKind::name;
};

/// `text` in any case; the entry of `none` when it is no key word.
const WordEntry& find_word(Bytes text) noexcept;

}  // namespace pgweir::sql
