#include "sim_unit.h"

#include "base/text.h"
#include "protocol/writer.h"

namespace pgweir::sim {

using namespace protocol;

namespace {

Unit new_unit(const PlanContext& with, std::string what) {
  Unit unit;
  unit.marker = {with.client, ++with.last_unit};
  unit.what = std::move(what);
  return unit;
}

std::string quoted(const Marker& marker) { return concat({"'", marker.text(), "'"}); }
std::string comment(const Marker& marker) { return concat({"/* ", marker.text(), " */ "}); }

/// One statement through the extended protocol. `parameter` is bound as $1.
void extend(const PlanContext& with, Unit& unit, const std::string& text, bool has_rows,
            bool has_parameter, std::uint32_t tables) {
  Dice& dice = with.dice;
  const std::string marker = unit.marker.text();
  const std::optional<Bytes> parameter[] = {Bytes(marker)};
  const std::span<const std::optional<Bytes>> parameters =
      has_parameter ? std::span(parameter) : std::span<const std::optional<Bytes>>();
  const std::string row_letters = has_rows ? "T" : "n";
  const std::string result = has_rows ? "*C" : "C";
  const int style = dice.between(0, with.named_statements ? 5 : 2);
  if (style <= 1) {  // The unnamed statement, all in one.
    append_parse(unit.bytes, "", text);
    append_bind(unit.bytes, "", "", parameters);
    append_describe(unit.bytes, 'P', "");
    append_execute(unit.bytes, "");
    append_sync(unit.bytes);
    unit.expected = "12" + row_letters + result + "Z";
    return;
  }
  if (style == 2) {  // As drivers do that want to know the types first: Flush, and the rest after
                     // its answer.
    append_parse(unit.bytes, "", text);
    append_describe(unit.bytes, 'S', "");
    append_flush(unit.bytes);
    append_bind(unit.later, "", "", parameters);
    append_execute(unit.later, "");
    append_sync(unit.later);
    append_sync(unit.after_error);
    unit.expected = "1t" + row_letters + ">2" + result + "Z";
    return;
  }
  // A named statement, prepared when it is new.
  std::string name;
  for (const auto& [known, meaning] : with.prepared) {
    if (meaning.first == text) name = known;
  }
  if (name.empty()) {
    name = "s" + std::to_string(++with.last_statement);
    append_parse(unit.bytes, name, text);
    unit.prepares = name + "\n" + text + "\n" + std::to_string(tables);
    unit.expected = "1";
    if (style == 3) {
      append_describe(unit.bytes, 'S', name);
      unit.expected += "t" + row_letters;
    }
  }
  append_bind(unit.bytes, "", name, parameters);
  append_execute(unit.bytes, "");
  append_sync(unit.bytes);
  unit.expected += "2" + result + "Z";
}

void simple(Unit& unit, const std::string& text, const std::string& expected) {
  append_query(unit.bytes, text);
  unit.expected = expected;
}

std::string from_clause(std::uint32_t tables) {
  std::string out;
  for (std::size_t i = 0; i < kTables; ++i) {
    if ((tables & (1U << i)) != 0) out += concat({out.empty() ? "" : ", ", table_name(i)});
  }
  return out;
}

std::size_t written_table(Dice& dice) { return dice.below(1 + dice.below(1 + dice.below(6))); }

std::uint32_t some_tables(Dice& dice) {
  if (dice.chance(30)) return 1U << kHiddenTable;
  std::uint32_t tables = 1U << dice.below(6);
  if (dice.chance(150)) tables |= 1U << dice.below(6);
  return tables;
}

}  // namespace

Unit plan_simple(const PlanContext& with, const std::string& text, const std::string& expected) {
  Unit unit = new_unit(with, text);
  std::string marked = text;
  for (std::size_t at = marked.find('@'); at != std::string::npos; at = marked.find('@')) {
    marked.replace(at, 1, unit.marker.text());
  }
  simple(unit, marked, expected);
  return unit;
}

Unit plan_read(const PlanContext& with) { return plan_read_of(with, some_tables(with.dice)); }

Unit plan_read_of(const PlanContext& with, std::uint32_t tables) {
  Unit unit = new_unit(with, "read " + from_clause(tables));
  unit.reads = {tables};
  const std::string from = from_clause(tables);
  if (with.dice.chance(450)) {
    simple(unit, concat({"SELECT v, ", quoted(unit.marker), " FROM ", from}), "T*CZ");
  } else {
    extend(with, unit, concat({"SELECT v, $1 FROM ", from}), true, true, tables);
  }
  return unit;
}

Unit plan_big_read(const PlanContext& with) {
  const std::uint32_t tables = some_tables(with.dice);
  Unit unit = new_unit(with, "big read " + from_clause(tables));
  unit.reads = {tables};
  unit.many_rows = true;
  const std::string rows = std::to_string(with.dice.between(50, 2500));
  simple(
      unit,
      concat({"SELECT v, ", quoted(unit.marker), " FROM ", from_clause(tables), " LIMIT ", rows}),
      "T*CZ");
  return unit;
}

Unit plan_slow_read(const PlanContext& with, double seconds) {
  const std::uint32_t tables = some_tables(with.dice);
  Unit unit = new_unit(with, "slow read " + from_clause(tables));
  unit.reads = {tables};
  unit.slow = true;
  simple(unit,
         concat({"SELECT v, ", quoted(unit.marker), ", pg_sleep(", std::to_string(seconds),
                 ") FROM ", from_clause(tables)}),
         "T*CZ");
  return unit;
}

/// Some tables are written all the time and some hardly ever: on both sides of the border something
/// can go wrong.
Unit plan_write(const PlanContext& with) { return plan_write_of(with, written_table(with.dice)); }

Unit plan_write_of(const PlanContext& with, std::size_t table) {
  const std::string name(table_name(table));
  Unit unit = new_unit(with, "write " + name);
  unit.writes = {1U << table};
  switch (with.dice.below(5)) {
    case 0:
      simple(unit, concat({comment(unit.marker), "UPDATE ", name, " SET v = v + 1"}), "CZ");
      break;
    case 1:
      simple(unit, concat({"INSERT INTO ", name, " VALUES (1) RETURNING ", quoted(unit.marker)}),
             "T*CZ");
      break;
    case 2:
      simple(unit,
             concat({"WITH w AS (UPDATE ", name, " SET v = v + 1 RETURNING ", quoted(unit.marker),
                     ") SELECT * FROM w"}),
             "T*CZ");
      break;
    default:
      extend(with, unit, concat({"UPDATE ", name, " SET v = v + 1 RETURNING $1"}), true, true,
             1U << table);
  }
  return unit;
}

Unit plan_hidden_write(const PlanContext& with) {
  Unit unit = new_unit(with, "hidden write");
  unit.writes = {1U << kHiddenTable};
  if (with.catalog_warns) {
    simple(unit, concat({"SELECT ", quoted(unit.marker), " === 1"}), "T*CZ");
  } else if (with.dice.chance(500)) {
    simple(unit, concat({"SELECT hidden_write(", quoted(unit.marker), ")"}), "T*CZ");
  } else {
    extend(with, unit, "SELECT hidden_write($1)", true, true, 1U << kHiddenTable);
  }
  return unit;
}

Unit plan_error(const PlanContext& with) {
  Unit unit = new_unit(with, "division by zero");
  unit.may_fail = {"22012"};
  simple(unit, concat({"SELECT 1/0, ", quoted(unit.marker)}), "T*CZ");
  return unit;
}

Unit plan_begin(const PlanContext& with) {
  Unit unit = new_unit(with, "begin");
  unit.begins = true;
  if (with.dice.chance(700)) {
    simple(unit, comment(unit.marker) + "BEGIN", "CZ");
  } else {
    extend(with, unit, "BEGIN", false, false, 0);
  }
  return unit;
}

Unit plan_special_begin(const PlanContext& with) {
  static constexpr const char* kTexts[] = {
      "BEGIN READ ONLY",
      "START TRANSACTION READ ONLY",
      "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY",
      "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
      "START TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ, NOT DEFERRABLE",
      "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, DEFERRABLE",
      "BEGIN ISOLATION LEVEL REPEATABLE READ"};
  const std::string text = kTexts[with.dice.below(7)];
  Unit unit = new_unit(with, text);
  unit.begins = true;
  unit.read_only = text.find("ONLY") != std::string::npos;
  unit.repeatable = text.find("REPEATABLE") != std::string::npos;
  if (with.dice.chance(700)) {
    simple(unit, comment(unit.marker) + text, "CZ");
  } else {
    extend(with, unit, text, false, false, 0);
  }
  return unit;
}

Unit plan_set_transaction(const PlanContext& with) {
  Unit unit = new_unit(with, "set transaction");
  unit.may_fail = {"25001"};
  unit.must_fail = true;
  simple(unit, comment(unit.marker) + "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "CZ");
  return unit;
}

Unit plan_end(const PlanContext& with, bool commit) {
  const bool chain = with.in_transaction && with.dice.chance(100);
  Unit unit = new_unit(with, concat({commit ? "commit" : "rollback", chain ? " and chain" : ""}));
  unit.ends = true;
  unit.rolls_back = !commit;
  unit.chains = chain;
  // Its answer is the acknowledgement of all that was written, so it has to be known by its marker.
  const std::string text =
      concat({comment(unit.marker), commit ? "COMMIT" : "ROLLBACK", chain ? " AND CHAIN" : ""});
  if (with.dice.chance(700)) {
    simple(unit, text, "CZ");
  } else {
    extend(with, unit, text, false, false, 0);
  }
  return unit;
}

Unit plan_causal_key(const PlanContext& with) {
  Unit unit = new_unit(with, "causal key");
  const bool none = with.dice.chance(300);
  unit.causal_key = none ? std::string() : concat({"k", std::to_string(with.dice.between(1, 2))});
  const std::string text = none && with.dice.chance(500) ? std::string("RESET pgweir.causal_key")
                                                         : concat({"SET pgweir.causal_key = '", *unit.causal_key, "'"});
  if (with.dice.chance(600)) {
    simple(unit, text, "CZ");
    return unit;
  }
  append_parse(unit.bytes, "", text);
  append_bind(unit.bytes, "", "", {});
  append_describe(unit.bytes, 'P', "");
  append_execute(unit.bytes, "");
  append_sync(unit.bytes);
  unit.expected = "12nCZ";
  return unit;
}

Unit plan_tracked_setting(const PlanContext& with) {
  Unit unit = new_unit(with, "set");
  static constexpr const char* kNames[] = {"TimeZone", "application_name", "search_path"};
  const std::string name = kNames[with.dice.below(with.tracks_session_state ? 3 : 2)];
  // A RESET takes a setting back to what the client asked for at login, where we can know: outside
  // a block.
  if (with.resets_to_login && !with.in_transaction && with.dice.chance(150)) {
    unit.sets.emplace_back(to_lower(name), std::nullopt);
    simple(unit, concat({comment(unit.marker), "RESET ", name}), "CZ");
    return unit;
  }
  const std::string value = concat({"zone", std::to_string(with.dice.between(1, 4))});
  unit.sets.emplace_back(to_lower(name), value);
  const std::string text =
      concat({"SET ", name, with.dice.chance(500) ? " = '" : " TO '", value, "'"});
  if (with.dice.chance(600)) {
    simple(unit, comment(unit.marker) + text, "CZ");
  } else {
    extend(with, unit, text, false, false, 0);
  }
  return unit;
}

Unit plan_other_setting(const PlanContext& with) {
  Unit unit = new_unit(with, "set work_mem");
  const std::string value = std::to_string(with.dice.between(5, 9)) + "MB";
  unit.sets.emplace_back("work_mem", value);
  simple(unit, concat({comment(unit.marker), "SET work_mem = '", value, "'"}), "CZ");
  return unit;
}

Unit plan_bad_setting(const PlanContext& with) {
  Unit unit = new_unit(with, "set what can't be set");
  unit.may_fail = {"22023"};
  simple(unit, comment(unit.marker) + "SET TimeZone = 'Nowhere'", "CZ");
  return unit;
}

Unit plan_discard(const PlanContext& with) {
  Unit unit = new_unit(with, "discard all");
  unit.reset_all = true;
  simple(unit, comment(unit.marker) + "DISCARD ALL", "CZ");
  return unit;
}

Unit plan_copy(const PlanContext& with) {
  const std::size_t table = written_table(with.dice);
  const std::string name(table_name(table));
  Unit unit = new_unit(with, "copy " + name);
  if (with.dice.chance(350)) {
    simple(unit, concat({comment(unit.marker), "COPY ", name, " TO STDOUT"}), "Hd*cCZ");
    unit.reads = {1U << table};
    return unit;
  }
  unit.writes = {1U << table};
  const std::string text = concat({comment(unit.marker), "COPY ", name, " FROM STDIN"});
  const bool gives_up = with.dice.chance(200);
  for (int lines = with.dice.between(0, 3); lines > 0; --lines) append_copy_data(unit.later, "1\n");
  gives_up ? append_copy_fail(unit.later, "changed my mind") : append_copy_done(unit.later);
  if (gives_up) unit.may_fail = {"57014"};
  if (with.dice.chance(500)) {
    simple(unit, text, "G>CZ");
  } else {
    append_parse(unit.bytes, "", text);
    append_bind(unit.bytes, "", "");
    append_execute(unit.bytes, "");
    if (with.dice.chance(500)) append_flush(unit.bytes);
    append_sync(unit.later);
    append_sync(unit.after_error);
    unit.expected = "12G>CZ";
  }
  return unit;
}

/// Several statements in one simple query.
Unit plan_several(const PlanContext& with) {
  const std::size_t table = written_table(with.dice);
  const std::string name(table_name(table));
  Unit unit = new_unit(with, "several with " + name);
  const std::string mark = quoted(unit.marker);
  const std::string read = concat({"SELECT v, ", mark, " FROM ", name});
  const std::string write = concat({"UPDATE ", name, " SET v = v + 1 RETURNING ", mark});
  unit.reads = unit.writes = {1U << table};
  switch (with.dice.below(4)) {
    case 0:
      simple(unit, concat({read, "; ", read}), "T*CT*CZ");
      break;
    case 1:
      simple(unit, concat({write, "; ", read}), "T*CT*CZ");
      break;
    case 2:
      unit.may_fail = {"22012"};
      simple(unit, concat({"BEGIN; ", write, "; COMMIT; SELECT 1/0, ", mark}), "CT*CCT*CZ");
      break;
    default:
      simple(unit, concat({"BEGIN; ", write, "; ", read, "; ROLLBACK"}), "CT*CT*CCZ");
  }
  return unit;
}

Unit plan_commit_and_fail(const PlanContext& with) {
  Unit unit = new_unit(with, "call that commits and fails");
  unit.may_fail = {"P0001"};
  unit.leaves_state = with.shares_servers;
  simple(unit, concat({"CALL commit_and_fail(", quoted(unit.marker), with.shares_servers ? ", 'leaves something')" : ")"}), "CZ");
  return unit;
}

Unit plan_listen(const PlanContext& with) {
  Unit unit = new_unit(with, "listen");
  unit.listens = "channel" + std::to_string(with.dice.between(1, 2));
  simple(unit, comment(unit.marker) + "LISTEN " + unit.listens, "CZ");
  return unit;
}

Unit plan_notify(const PlanContext& with) {
  Unit unit = new_unit(with, "notify");
  simple(unit,
         concat({comment(unit.marker), "NOTIFY channel", std::to_string(with.dice.between(1, 2)),
                 ", 'from ", unit.marker.text(), "'"}),
         "CZ");
  return unit;
}

namespace {

/// Its text, and what it does for the unit.
std::string sql_prepare(Unit& unit, const PlanContext& with, const std::string& name) {
  unit.sql_prepares = name;
  if (with.dice.chance(500)) {
    const std::size_t table = written_table(with.dice);
    unit.sql_tables = (1U << table) | kPreparedWrite;
    return concat({"PREPARE ", name, " AS UPDATE ", table_name(table), " SET v = v + 1"});
  }
  unit.sql_tables = some_tables(with.dice);
  return concat({"PREPARE ", name, " AS SELECT v FROM ", from_clause(unit.sql_tables)});
}

}  // namespace

Unit plan_sql_prepare(const PlanContext& with, const std::string& name) {
  Unit unit = new_unit(with, "prepare");
  const std::string text = sql_prepare(unit, with, name.empty() ? "q" + std::to_string(++with.last_statement) : name);
  simple(unit, comment(unit.marker) + text, "CZ");
  return unit;
}

Unit plan_sql_deallocate(const PlanContext& with, const std::string& name) {
  Unit unit = new_unit(with, "deallocate");
  unit.sql_deallocates = name;
  simple(unit, comment(unit.marker) + "DEALLOCATE " + name, "CZ");
  return unit;
}

Unit plan_sql_prepare_again(const PlanContext& with, const std::string& name) {
  Unit unit = new_unit(with, "prepare again");
  unit.sql_deallocates = name;
  const std::string text = sql_prepare(unit, with, name);
  simple(unit, concat({comment(unit.marker), "DEALLOCATE ", name, "; ", text}), "CCZ");
  return unit;
}

Unit plan_sql_execute(const PlanContext& with, const std::string& name, std::uint32_t tables) {
  Unit unit = new_unit(with, "execute " + from_clause(tables & ~kPreparedWrite));
  if ((tables & kPreparedWrite) != 0) {
    unit.writes = {tables & ~kPreparedWrite};
    simple(unit, concat({comment(unit.marker), "EXECUTE ", name}), "CZ");
    return unit;
  }
  unit.reads = {tables};
  simple(unit, concat({comment(unit.marker), "EXECUTE ", name}), "T*CZ");
  return unit;
}

}  // namespace pgweir::sim
