// What the statements of the workloads do: the other half of sim_backend.
#include <algorithm>

#include "base/text.h"
#include "protocol/message.h"
#include "protocol/writer.h"
#include "sim_backend.h"
#include "sim_catalog.h"
#include "sim_cluster.h"

namespace pgweir::sim {

using namespace protocol;

namespace {

/// The columns of every answer: who asked, as of which record, which tables, who answered, and what
/// is set there.
constexpr Column kColumns[] = {{.name = "marker"},
                               {.name = "snapshot"},
                               {.name = "tables"},
                               {.name = "node"},
                               {.name = "pid"},
                               {.name = "timezone"},
                               {.name = "application_name"},
                               {.name = "search_path"},
                               {.name = "work_mem"}};

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && equals_ignoring_case(text.substr(0, word.size()), word);
}

}  // namespace

void SimBackend::begin_implicit() {
  if (block_ != Block::none) return;
  block_ = Block::implicit;
  settings_before_ = settings_;
}

void SimBackend::commit(std::optional<Marker> unit) {
  if (block_ == Block::none) return;
  Truth& truth = node_.cluster().truth();
  if (written_ != 0) {
    truth.ensure(node_.is_primary() && !node_.stray,
                 concat({"a write was committed on ", node_.host(), ", which is not the primary"}));
    const RecordId id = node_.append(written_);
    if (!node_.stray) {
      // The answer to the unit that commits is the acknowledgement, not those to the ones before
      // it.
      if (unit) writers_ = {*unit};
      for (const Marker& writer : writers_) truth.committed(writer, id);
    }
    node_.cluster().loop().note(concat({node_.host(), " commits record ", std::to_string(id),
                                        " for ", unit ? unit->text() : "nobody"}));
  }
  for (const auto& [name, value] : local_before_) set(name, value);
  for (const auto& [channel, payload] : to_notify_) {
    for (const std::unique_ptr<SimBackend>& other : node_.backends()) {
      if (!other->gone() && other->listens(channel)) other->notify(channel, payload, pid_);
    }
  }
  written_ = 0;
  writers_.clear();
  writer_.reset();
  owner_.reset();
  local_before_.clear();
  to_notify_.clear();
  block_ = Block::none;
  begun_as_ = {};
  snapshot_.reset();
}

void SimBackend::rollback() {
  if (block_ != Block::none) {
    for (const auto& [name, value] : settings_before_) {
      if (settings_[name] != value) set(name, value);
    }
    std::erase_if(settings_,
                  [this](const auto& entry) { return settings_before_.count(entry.first) == 0; });
  }
  written_ = 0;
  writers_.clear();
  writer_.reset();
  owner_.reset();
  local_before_.clear();
  to_notify_.clear();
  block_ = Block::none;
  begun_as_ = {};
  snapshot_.reset();
}

/// The transaction has ended; AND CHAIN begins another one like it.
void SimBackend::end_block(const Statement& statement, std::string_view tag) {
  const Characteristics like = begun_as_;
  tag == "COMMIT" ? commit(statement.marker) : rollback();
  complete(tag);
  if (!statement.chain) return;
  begin_implicit();
  block_ = Block::open;
  begun_as_ = like;
  if (statement.marker) owner_ = statement.marker->client;
}

RecordId SimBackend::take_snapshot() {
  if (!snapshot_ || !begun_as_.repeatable) snapshot_ = node_.applied();
  return *snapshot_;
}

/// One server per transaction: whatever runs in a block is of the client that opened it.
void SimBackend::check_owner(const Statement& statement) {
  if (!statement.marker || block_ != Block::open) return;
  if (!owner_) owner_ = statement.marker->client;
  node_.cluster().truth().ensure(
      *owner_ == statement.marker->client,
      concat({statement.marker->text(), " ran in the transaction of client ",
              std::to_string(*owner_)}));
}

bool SimBackend::refused_here(const Statement& statement, std::string_view command) {
  if (block_ == Block::open && begun_as_.read_only) {
    fail("25006", concat({"cannot execute ", command, " in a read-only transaction"}),
         "PreventCommandIfReadOnly");
    return true;
  }
  const bool read_only = defaults_["default_transaction_read_only"] == "on";
  if (node_.is_primary() && !read_only) return false;
  node_.cluster().truth().refused(statement.marker.value_or(Marker{}));
  fail("25006", concat({"cannot execute ", command, " in a read-only transaction"}),
       "PreventCommandIfReadOnly");
  return true;
}

bool SimBackend::run(const Statement& statement, bool extended) {
  Dice& dice = node_.cluster().dice();
  busy_ += dice.between(node_.habits.statement_min, node_.habits.statement_max);
  cancel_at_.reset();
  if (statement.verb == Verb::empty) {
    append_empty_query(out_);
    return true;
  }
  if (block_ == Block::failed && statement.verb != Verb::rollback &&
      statement.verb != Verb::commit) {
    return fail("25P02",
                "current transaction is aborted, commands ignored until end of transaction block");
  }
  begin_implicit();
  check_owner(statement);
  switch (statement.verb) {
    case Verb::empty:
      return true;
    case Verb::select:
    case Verb::divide:
    case Verb::hidden_write:
      return run_select(statement, extended);
    case Verb::write:
    case Verb::create_table:
    case Verb::commit_and_fail:
      return run_write(statement, extended);
    case Verb::copy_in:
    case Verb::copy_out:
      return run_copy(statement, extended);
    case Verb::begin:
      block_ = Block::open;
      begun_as_ = {.read_only = statement.read_only, .repeatable = statement.repeatable};
      if (statement.marker) owner_ = statement.marker->client;
      complete("BEGIN");
      return true;
    case Verb::commit:
      end_block(statement, block_ == Block::failed ? "ROLLBACK" : "COMMIT");
      return true;
    case Verb::rollback:
      end_block(statement, "ROLLBACK");
      return true;
    case Verb::rollback_to:
      return fail("3B001", "savepoint does not exist");
    case Verb::set_transaction:
      if (snapshot_) return fail("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query");
      begun_as_.repeatable = true;
      complete("SET");
      return true;
    case Verb::nothing:
      take_snapshot();
      complete("SELECT 1");
      return true;
    case Verb::set:
    case Verb::reset:
    case Verb::reset_all:
    case Verb::set_config:
    case Verb::show:
      return run_setting(statement);
    case Verb::discard_all:
      if (block_ == Block::open)
        return fail("25001", "DISCARD ALL cannot run inside a transaction block");
      for (const auto& [name, value] : defaults_) set(name, value);
      settings_ = defaults_;
      settings_before_ = settings_;
      prepared_.clear();
      portals_.clear();
      listening_.clear();
      complete("DISCARD ALL");
      return true;
    case Verb::prepare:
      if (prepared_.count(statement.name) != 0) {
        return fail("42P05",
                    concat({"prepared statement \"", statement.name, "\" already exists"}));
      }
      prepared_[statement.name] = statement.value;
      complete("PREPARE");
      return true;
    case Verb::execute: {
      const auto found = prepared_.find(statement.name);
      if (found == prepared_.end()) {
        return fail("26000",
                    concat({"prepared statement \"", statement.name, "\" does not exist"}));
      }
      Statement prepared = read_statement(found->second);
      prepared.marker = statement.marker;
      return run(prepared, extended);
    }
    case Verb::deallocate:
      if (prepared_.erase(statement.name) == 0) {
        return fail("26000",
                    concat({"prepared statement \"", statement.name, "\" does not exist"}));
      }
      complete("DEALLOCATE");
      return true;
    case Verb::deallocate_all:
      prepared_.clear();
      complete("DEALLOCATE ALL");
      return true;
    case Verb::listen:
      if (refused_here(statement, "LISTEN")) return false;
      listening_.insert(statement.name);
      complete("LISTEN");
      return true;
    case Verb::unlisten:
      listening_.clear();
      complete("UNLISTEN");
      return true;
    case Verb::notify:
      if (refused_here(statement, "NOTIFY")) return false;
      to_notify_.emplace_back(statement.name, statement.value);
      complete("NOTIFY");
      return true;
    case Verb::system:
      return run_system(statement, extended);
  }
  return true;
}

void SimBackend::describe_rows() { append_row_description(out_, kColumns); }

void SimBackend::row(const Statement& statement) {
  const std::string marker = statement.marker ? statement.marker->text() : "";
  const std::string snapshot = std::to_string(take_snapshot());
  const std::string tables = std::to_string(statement.tables);
  // A block is told from a statement that runs by itself.
  const std::string pid = concat({std::to_string(pid_), block_ == Block::open ? " block" : ""});
  const std::string zone = setting("timezone");
  const std::string application = setting("application_name");
  const std::string path = setting("search_path");
  const std::string memory = setting("work_mem");
  const std::optional<Bytes> values[] = {Bytes(marker),       Bytes(snapshot), Bytes(tables),
                                         Bytes(node_.host()), Bytes(pid),      Bytes(zone),
                                         Bytes(application),  Bytes(path),     Bytes(memory)};
  append_data_row(out_, values);
}

bool SimBackend::run_select(const Statement& statement, bool extended) {
  Dice& dice = node_.cluster().dice();
  const std::string marker = statement.marker ? statement.marker->text() : "";
  if (statement.missing ||
      (statement.tables == 1U << kFreshTable &&
       node_.cluster().truth().record(node_.applied()).versions[kFreshTable] == 0)) {
    return fail("42P01", concat({"relation does not exist, said for ", marker}), "parserOpenTable");
  }
  const bool conflict = !node_.is_primary() && dice.chance(node_.habits.conflicts);
  if (conflict && dice.chance(200)) {
    die("40001", "terminating connection due to conflict with recovery");
    return false;
  }
  if (conflict && statement.rows == 1) {
    return fail("40001", "canceling statement due to conflict with recovery", "ProcessInterrupts");
  }
  if (statement.verb == Verb::hidden_write) {
    if (refused_here(statement, "INSERT")) return false;
    written_ |= 1U << kHiddenTable;
    if (statement.marker) {
      writer_ = statement.marker;
      writers_.insert(*statement.marker);
    }
  }
  if (statement.sleep_seconds > 0) {
    busy_ += Duration(static_cast<Duration::rep>(statement.sleep_seconds * 1e6));
    if (written_ == 0) cancel_at_ = out_.size();
  }
  if (!extended) describe_rows();
  if (statement.verb == Verb::divide)
    return fail("22012", concat({"division by zero, said for ", marker}), "int4div");
  const std::size_t first_at = out_.size();
  row(statement);
  const std::string one_row = out_.substr(first_at);
  for (int i = 0; i < statement.rows; ++i) {
    if (i > 0) out_ += one_row;
    if (conflict && i == statement.rows / 2) {
      return fail("40001", "canceling statement due to conflict with recovery",
                  "ProcessInterrupts");
    }
  }
  complete(concat({"SELECT ", std::to_string(statement.rows)}));
  return true;
}

void SimBackend::die(std::string_view sqlstate, std::string_view text) {
  append_error(out_, "FATAL", sqlstate, text);
  say_now();
  close();
}

bool SimBackend::run_write(const Statement& statement, bool extended) {
  if (refused_here(statement, statement.verb == Verb::create_table ? "CREATE TABLE" : "UPDATE"))
    return false;
  if (statement.tables == 0) {
    return fail("42P01",
                concat({"relation does not exist, said for ",
                        statement.marker ? statement.marker->text() : ""}),
                "parserOpenTable");
  }
  take_snapshot();
  written_ |= statement.tables;
  if (statement.marker) {
    writer_ = statement.marker;
    writers_.insert(*statement.marker);
  }
  if (statement.verb == Verb::commit_and_fail) {
    if (block_ == Block::open) return fail("2D000", "invalid transaction termination");
    // As set_config() within it would: nobody is told.
    if (statement.text.find("leaves") != std::string::npos) set("work_mem", std::string(kLeftBehind));
    commit(statement.marker);
    return fail("P0001",
                concat({"failed behind its commit, said for ",
                        statement.marker ? statement.marker->text() : ""}),
                "exec_stmt_raise");
  }
  if (statement.verb == Verb::create_table) {
    complete("CREATE TABLE");
    return true;
  }
  if (statement.returning) {
    if (!extended) describe_rows();
    row(statement);
  }
  complete(starts_with_word(statement.text, "insert") ? "INSERT 0 1" : "UPDATE 1");
  return true;
}

std::string SimBackend::setting(const std::string& name) const {
  const auto found = settings_.find(to_lower(name));
  return found == settings_.end() ? "" : found->second;
}

/// PostgreSQL up to 13 tells of a change at once, later ones ahead of ReadyForQuery.
void SimBackend::set(const std::string& name, const std::string& value) {
  settings_[to_lower(name)] = value;
  settings_changed_ = true;
  if (node_.cluster().reports_at_once) report_changes();
}

void SimBackend::report_changes() {
  if (gone_ || !settings_changed_) return;
  settings_changed_ = false;
  for (const auto& [name, fallback] : kReportedSettings) {
    const std::string value = setting(std::string(name));
    std::string& told = reported_[to_lower(name)];
    if (told == value) continue;
    told = value;
    append_parameter_status(out_, name, value);
  }
}

bool SimBackend::run_setting(const Statement& statement) {
  const std::string name = to_lower(statement.name);
  if (statement.verb == Verb::set) {
    if (statement.value == "Nowhere") {
      return fail("22023", concat({"invalid value for parameter \"", name, "\": \"Nowhere\""}),
                  "set_config_option");
    }
    if (statement.local && block_ == Block::open) local_before_.emplace(name, setting(name));
    if (!statement.local || block_ == Block::open) set(name, statement.value);
    complete("SET");
  } else if (statement.verb == Verb::reset) {
    set(name, defaults_.count(name) != 0 ? defaults_[name] : "");
    complete("RESET");
  } else if (statement.verb == Verb::reset_all) {
    for (const auto& [each, value] : defaults_) set(each, value);
    settings_ = defaults_;
    complete("RESET");
  } else if (statement.verb == Verb::set_config) {
    std::vector<Column> columns;
    std::vector<std::optional<Bytes>> values;
    for (const auto& [each, value] : statement.configs) {
      columns.push_back({.name = "set_config"});
      values.emplace_back(value);
    }
    append_row_description(out_, columns);
    append_data_row(out_, values);
    for (const auto& [each, value] : statement.configs) set(each, value);
    complete("SELECT 1");
  } else {
    const Column column[] = {{.name = statement.name}};
    const std::string value = setting(name);
    const std::optional<Bytes> values[] = {Bytes(value)};
    append_row_description(out_, column);
    append_data_row(out_, values);
    complete("SHOW");
  }
  return true;
}

bool SimBackend::run_copy(const Statement& statement, bool extended) {
  if (statement.verb == Verb::copy_in) {
    if (refused_here(statement, "COPY FROM")) return false;
    Writer writer(out_);
    writer.begin(protocol::backend::kCopyInResponse);
    writer.u8(0);
    writer.u16(1);
    writer.u16(0);
    writer.end();
    take_snapshot();
    copying_ = statement;
    copy_ = extended ? Copy::extended : Copy::simple;
    return true;
  }
  Writer writer(out_);
  writer.begin(protocol::backend::kCopyOutResponse);
  writer.u8(0);
  writer.u16(1);
  writer.u16(0);
  writer.end();
  append_copy_data(out_, concat({statement.marker ? statement.marker->text() : "", "\t",
                                 std::to_string(take_snapshot()), "\t", node_.host(), "\n"}));
  append_copy_done(out_);
  complete("COPY 1");
  return true;
}

bool SimBackend::run_system(const Statement& statement, bool extended) {
  const std::optional<monitor::Rows> rows = system_answer(node_, statement.text);
  if (!rows) {
    node_.cluster().truth().fail(
        concat({node_.host(), ": asked what no simulated node knows: ", statement.text}));
    return fail("42601", "syntax error");
  }
  std::vector<Column> columns(rows->empty() ? 1 : rows->front().size(), Column{.name = "answer"});
  if (!extended) append_row_description(out_, columns);
  for (const auto& answer_row : *rows) {
    std::vector<std::optional<Bytes>> values;
    for (const std::optional<std::string>& value : answer_row) {
      values.push_back(value ? std::optional<Bytes>(*value) : std::nullopt);
    }
    append_data_row(out_, values);
  }
  complete(concat({"SELECT ", std::to_string(rows->size())}));
  return true;
}

}  // namespace pgweir::sim
