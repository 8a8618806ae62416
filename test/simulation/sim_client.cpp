#include "sim_client.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "protocol/error_fields.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

namespace pgweir::sim {

using namespace protocol;

namespace {

/// No answer of a simulated node is longer: more is a stream that was torn.
constexpr std::uint32_t kMessageMax = 1U << 20;

std::string printable(Bytes bytes) {
  std::string out;
  for (char c : bytes.substr(0, 300)) {
    if (c >= 32 && c < 127) {
      out += c;
    } else {
      out += "\\" + std::to_string(static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

/// A cancel request's own connection.
class SimClient::Canceller final : public io::TransportUser {
 public:
  Canceller(ClientWorld& world, std::uint32_t pid, std::uint32_t key) : pid_(pid), key_(key) {
    transport_ = world.network.connect({.host = "canceller", .port = 1}, world.pooler, *this);
  }
  void on_connected() noexcept override {
    std::string bytes;
    append_cancel(bytes, pid_, key_);
    transport_->send(bytes);
  }
  void on_bytes(Bytes) noexcept override {}
  void on_drained() noexcept override {}
  void on_closed(const Error&) noexcept override { done_ = true; }
  bool done() const noexcept { return done_; }

 private:
  std::uint32_t pid_;
  std::uint32_t key_;
  std::unique_ptr<io::Transport> transport_;
  bool done_ = false;
};

SimClient::SimClient(ClientWorld& world, Dice dice, std::string user)
    : world_(world), dice_(dice), user_(std::move(user)) {}

SimClient::~SimClient() = default;

// ---- connection

void SimClient::reset_session() {
  ++life_;
  id_ = ++world_.last_client;
  name_ = "client " + std::to_string(id_);
  last_unit_ = last_statement_ = 0;
  ready_ = cancelled_ = pinned_ = left_state_ = leaving_ = false;
  status_ = 'I';
  units_.clear();
  prepared_.clear();
  listening_.clear();
  sql_prepared_.clear();
  block_server_.clear();
  read_only_ = repeatable_ = block_used_ = false;
  block_snapshot_.reset();
  own_memory_ = {};
  memory_ = &own_memory_;
  framer_ = Framer(kMessageMax);
  collector_ = Collector();
  settings_ = {{"timezone", "UTC"},
               {"application_name", ""},
               {"search_path", "\"$user\", public"},
               {"work_mem", "4MB"}};
  reported_.clear();
}

void SimClient::connect() {
  reset_session();
  if (dice_.chance(300)) settings_["timezone"] = "Start" + std::to_string(dice_.between(1, 3));
  if (dice_.chance(300))
    settings_["application_name"] = "app" + std::to_string(dice_.between(1, 3));
  defaults_ = settings_;
  connecting_ = true;
  transport_ = world_.network.connect({.host = "client", .port = static_cast<std::uint16_t>(id_)},
                                      world_.pooler, *this);
}

void SimClient::on_connected() noexcept {
  std::vector<std::pair<std::string, std::string>> parameters = {{"user", user_},
                                                                 {"database", world_.database}};
  if (settings_["timezone"] != "UTC") parameters.emplace_back("TimeZone", settings_["timezone"]);
  if (!settings_["application_name"].empty())
    parameters.emplace_back("application_name", settings_["application_name"]);
  std::string bytes;
  append_startup(bytes, parameters);
  transport_->send(bytes);
}

void SimClient::leave(bool politely) {
  if (!transport_ || leaving_) return;
  world_.loop.note(name_ + (politely ? " says goodbye" : " breaks off"));
  ready_ = false;
  units_.clear();
  if (politely) {
    // The end of the closed connection is what lets the next one begin.
    leaving_ = true;
    std::string bytes;
    append_terminate(bytes);
    transport_->send(bytes);
    transport_->close();
    return;
  }
  ++life_;
  transport_.reset();
  rest();
}

void SimClient::on_closed(const Error& why) noexcept {
  world_.loop.note(concat(
      {name_, leaving_ ? " has left" : " lost its connection: ", leaving_ ? "" : why.text()}));
  if (!world_.trouble && !leaving_) fail("its connection was closed: " + why.text());
  ready_ = leaving_ = connecting_ = false;
  units_.clear();
  rest();
}

void SimClient::rest() {
  if (!on_rest) return;
  world_.loop.after(Duration{1}, [this, life = life_] {
    if (life == life_ && on_rest) on_rest();
  });
}

void SimClient::pause_reading(Duration time) {
  if (!transport_) return;
  transport_->pause(true);
  world_.loop.after(time, [this, life = life_] {
    if (life == life_ && transport_) transport_->pause(false);
  });
}

void SimClient::send(Unit unit) {
  if (!ready_) return;
  world_.loop.note(concat({unit.marker.text(), " asks: ", unit.what}));
  left_state_ = left_state_ || unit.leaves_state;
  unit.must = world_.truth.must_see(*memory_, world_.cluster.primary().applied());
  // All statements of such a block see what the first one saw.
  if (repeatable_ && !(unit.reads.empty() && unit.writes.empty())) {
    if (!std::exchange(block_used_, true)) block_must_ = unit.must;
    unit.must = block_must_;
  }
  transport_->send(unit.bytes);
  units_.push_back(std::move(unit));
}

void SimClient::cancel() {
  std::erase_if(cancellers_, [](const std::unique_ptr<Canceller>& one) { return one->done(); });
  cancelled_ = true;
  world_.loop.note(name_ + " cancels");
  cancellers_.push_back(std::make_unique<Canceller>(world_, pid_, key_));
}

// ---- messages

void SimClient::on_bytes(Bytes bytes) noexcept {
  const Bytes all = bytes;
  const std::uint64_t life = life_;
  while (std::optional<Slice> slice = framer_.next(bytes)) {
    if (std::optional<Bytes> body = collector_.add(*slice)) on_message(slice->type, *body);
    if (life != life_) return;
  }
  if (framer_.broken()) fail(concat({"got bytes that are no message: ", printable(all)}));
}

void SimClient::on_message(char type, Bytes body) {
  if (type == backend::kParameterStatus || type == backend::kNotificationResponse ||
      type == backend::kNoticeResponse) {
    return on_asynchronous(type, body);
  }
  if (!ready_ && units_.empty() && status_ != 'X') return on_startup_message(type, body);
  if (units_.empty()) {
    const ErrorFields error = type == backend::kErrorResponse ? parse_error(body) : ErrorFields();
    if (error.ends_connection() && world_.trouble) return;
    return fail(concat(
        {"got a message ", std::string(1, type), " that it did not ask for ", error.message}));
  }
  Unit& unit = units_.front();
  switch (type) {
    case backend::kErrorResponse:
      return on_error(unit, body);
    case backend::kReadyForQuery:
      return on_ready(unit, body);
    case backend::kDataRow:
      on_row(unit, body);
      break;
    case backend::kCopyData:
      on_copy_row(unit, body);
      break;
    default:
      break;
  }
  step(unit, type);
}

void SimClient::on_startup_message(char type, Bytes body) {
  switch (type) {
    case backend::kAuthentication:
      if (Reader(body).u32() != authentication::kOk)
        fail("was asked for a password that trust does not need");
      return;
    case backend::kBackendKeyData: {
      Reader reader(body);
      pid_ = reader.u32();
      key_ = reader.u32();
      return;
    }
    case backend::kReadyForQuery:
      ready_ = true;
      connecting_ = false;
      ++connections_;
      world_.loop.note(name_ + " is connected");
      return rest();
    case backend::kErrorResponse: {
      const ErrorFields error = parse_error(body);
      if (!world_.trouble) fail(concat({"could not log in: ", error.message}));
      return;
    }
    default:
      fail(concat({"got a message ", std::string(1, type), " during login"}));
  }
}

void SimClient::on_asynchronous(char type, Bytes body) {
  Reader reader(body);
  if (type == backend::kParameterStatus) {
    const std::string name = to_lower(reader.cstring());
    reported_[name] = std::string(reader.cstring());
    return;
  }
  if (type == backend::kNoticeResponse) {
    check_foreign(parse_error(body).message, {id_, 0});
    return;
  }
  reader.u32();
  const std::string channel(reader.cstring());
  ++notifications_;
  if (listening_.count(channel) == 0)
    fail("was notified on " + channel + ", on which it does not listen");
}

/// The next message must be what the unit says.
void SimClient::step(Unit& unit, char type) {
  if (unit.failed)
    return fail(concat({unit.marker.text(), " got ", std::string(1, type), " behind an error"}));
  const auto expects = [&unit](std::size_t at) {
    return at < unit.expected.size() ? unit.expected[at] : '\0';
  };
  if (type == backend::kDataRow || (type == backend::kCopyData && expects(unit.at) != '*')) {
    if (type == backend::kDataRow && expects(unit.at) == '*') return;
  }
  if (type == backend::kCopyData && expects(unit.at) == '*') return;
  if (expects(unit.at) == '*') ++unit.at;
  if (expects(unit.at) != type) {
    return fail(
        concat({unit.marker.text(), " (", unit.what, ") got ", std::string(1, type), " where ",
                unit.expected.substr(std::min(unit.at, unit.expected.size())), " had to come"}));
  }
  ++unit.at;
  if (type == backend::kParseComplete && !unit.prepares.empty()) {
    const std::vector<std::string_view> parts = split(unit.prepares, '\n');
    prepared_[std::string(parts[0])] = {
        std::string(parts[1]), static_cast<std::uint32_t>(std::stoul(std::string(parts[2])))};
  }
  if (expects(unit.at) == '>') {
    ++unit.at;
    transport_->send(unit.later);
    unit.later.clear();
  }
}

void SimClient::on_error(Unit& unit, Bytes body) {
  const ErrorFields error = parse_error(body);
  world_.loop.note(concat(
      {unit.marker.text(), " gets ", error.severity, " ", error.sqlstate, " ", error.message}));
  check_foreign(error.message, unit.marker);
  if (unit.failed && !error.ends_connection()) fail(unit.marker.text() + " got a second error");
  unit.failed = true;
  unit.error = std::string(error.sqlstate);
  if (!fair(unit, error.sqlstate, error.ends_connection())) {
    fail(concat({unit.marker.text(), " (", unit.what, ") got an error that it must not get: ",
                 error.severity, " ", error.sqlstate, " ", error.message}));
  }
  if (error.ends_connection()) {
    status_ = 'X';
    return;
  }
  if (!unit.later.empty() && !unit.after_error.empty()) transport_->send(unit.after_error);
  unit.later.clear();
}

bool SimClient::fair(const Unit& unit, std::string_view sqlstate, bool fatal) const {
  if (std::find(unit.may_fail.begin(), unit.may_fail.end(), sqlstate) != unit.may_fail.end())
    return true;
  if (sqlstate == "57014" && cancelled_) return true;
  if (sqlstate == "25P02") return status_ == 'E';
  if (sqlstate == "40001") return unit.rows_seen || repeatable_;  // Rows can't be taken back.
  // What a standby, a lagging replica or the pooler's own bookkeeping says is never the client's
  // business.
  if (sqlstate == "25006" && world_.roles_move) return true;
  for (const std::string_view never :
       {"25006", "26000", "42P05", "34000", "42P01", "42601", "XX000", "0A000", "55000"}) {
    if (sqlstate == never) return false;
  }
  return world_.trouble &&
         (fatal || sqlstate.substr(0, 2) == "08" || sqlstate.substr(0, 2) == "57" ||
          sqlstate.substr(0, 2) == "53" || sqlstate == "28P01");
}

void SimClient::check_foreign(std::string_view text, const Marker& own) {
  const std::optional<Marker> marker = find_marker(text);
  if (!marker) return;
  const bool ours = marker->client == own.client && (own.unit == 0 || marker->unit == own.unit);
  if (!ours) fail(concat({own.text(), " was told of ", marker->text(), ": ", text}));
}

void SimClient::on_row(Unit& unit, Bytes body) {
  const bool first = !std::exchange(unit.rows_seen, true);
  // The many rows of one statement are alike; what was found good once need not be taken apart
  // again.
  if (body == unit.last_row) return;
  unit.last_row = body;
  Reader reader(body);
  std::vector<std::string> fields(reader.u16());
  for (std::string& field : fields) {
    const std::int32_t size = reader.i32();
    if (size >= 0) field = std::string(reader.bytes(static_cast<std::size_t>(size)));
  }
  if (fields.size() != 9) return;  // SHOW, set_config and the like.
  const std::string& marker = fields[0];
  if (marker != unit.marker.text())
    return fail(concat({unit.marker.text(), " got the row of ", marker}));
  RecordId snapshot = 0;
  std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), snapshot);
  std::uint32_t tables = 0;
  std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), tables);
  const auto names = [tables](const std::vector<std::uint32_t>& masks) {
    return std::find(masks.begin(), masks.end(), tables) != masks.end();
  };
  if (!names(unit.reads) && !names(unit.writes) && unit.may_fail.empty()) {
    return fail(
        concat({unit.marker.text(), " (", unit.what, ") got rows of the tables ", fields[2]}));
  }
  last_node_ = fields[3];
  last_snapshot_ = snapshot;
  const bool on_primary = fields[3] == world_.cluster.primary().host();
  if (repeatable_) {
    if (block_snapshot_ && *block_snapshot_ != snapshot) {
      fail(concat({unit.marker.text(), " saw another state in a block that is repeatable"}));
    }
    block_snapshot_ = snapshot;
  }
  if (names(unit.reads)) {
    if (first) ++(on_primary ? world_.truth.reads_on_primary : world_.truth.reads_on_replicas);
    world_.truth.read(unit.marker, *memory_, tables, snapshot, unit.must, fields[3], on_primary);
  }
  const std::string server = concat({fields[3], " ", fields[4]});
  if (status_ == 'T') {
    // What runs by itself does so before the block has come to a server, and shows the latest.
    const bool by_itself = world_.blocks_move && !repeatable_ && block_server_.empty() &&
                           names(unit.reads) && !server.ends_with(" block");
    if (block_server_.empty() && !by_itself) block_server_ = server;
    if (by_itself && !on_primary && first) ++world_.truth.block_reads_moved;
    if (!by_itself && !on_primary && first) ++world_.truth.blocks_on_replicas;
    if (!by_itself && !server.ends_with(" block"))
      fail(concat({unit.marker.text(), ": ran outside of its transaction, on ", server}));
    if (!by_itself && block_server_ != server)
      fail(concat(
          {unit.marker.text(), ": its transaction went from ", block_server_, " to ", server}));
  }
  static constexpr const char* kSettings[] = {"timezone", "application_name", "search_path",
                                              "work_mem"};
  for (std::size_t i = 0; i < 4; ++i) {
    // Quotes around a schema's name mean nothing.
    std::string shown = fields[5 + i];
    if (i == 2 && shown != "\"$user\", public") std::erase(shown, '"');
    if (i == 3 && left_state_ && shown == kLeftBehind) continue;
    if (shown != settings_[kSettings[i]]) {
      fail(concat({unit.marker.text(), " (", unit.what, ") ran on ", server, " with ", kSettings[i],
                   " = \"", fields[5 + i], "\", not \"", settings_[kSettings[i]], "\""}));
    }
  }
}

/// "c1.2 TAB snapshot TAB node"
void SimClient::on_copy_row(Unit& unit, Bytes body) {
  unit.rows_seen = true;
  const std::vector<std::string_view> fields = split(body, '\t');
  if (fields.size() != 3 || fields[0] != unit.marker.text()) {
    return fail(concat({unit.marker.text(), " got the COPY line ", body}));
  }
  RecordId snapshot = 0;
  std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), snapshot);
  if (repeatable_) {
    if (block_snapshot_ && *block_snapshot_ != snapshot) {
      fail(concat({unit.marker.text(), " copied another state in a block that is repeatable"}));
    }
    block_snapshot_ = snapshot;
  }
  world_.truth.read(unit.marker, *memory_, unit.reads.front(), snapshot, unit.must, fields[2],
                    fields[2] == world_.cluster.primary().host());
}

void SimClient::on_ready(Unit& unit, Bytes body) {
  if (!unit.failed) {
    step(unit, backend::kReadyForQuery);
    if (unit.at != unit.expected.size())
      fail(unit.marker.text() + " was ready before its answer had ended");
  }
  const char status = body.empty() ? '?' : body.front();
  const bool chained = unit.chains && !unit.failed;
  if (status != 'T' || status_ != 'T' || chained) block_server_.clear();
  const bool began = status_ == 'I' && status != 'I';
  if (began) before_block_ = settings_;
  if (unit.must_fail && !unit.failed)
    fail(concat({unit.marker.text(), " (", unit.what, ") should have failed"}));
  if (status == 'I' || began || chained) {
    block_used_ = false;
    block_snapshot_.reset();
    if (!chained) {
      read_only_ = began && unit.read_only;
      repeatable_ = began && unit.repeatable;
    }
  } else if (unit.rows_seen) {
    block_used_ = true;
  }
  const bool was_failed = status_ == 'E';
  if (unit.failed && status_ == 'T' && status != 'E')
    fail(unit.marker.text() + ": an error left its transaction open");
  if (!unit.failed) {
    const char due = unit.begins || unit.chains ? 'T' : unit.ends || status_ == 'I' ? 'I' : status_;
    if (status != due)
      fail(concat({unit.marker.text(), " ended with status ", std::string(1, status), ", not ",
                   std::string(1, due)}));
    apply(unit);
  }
  // A block that ended without a commit takes its settings back.
  if (status_ != 'I' && (status == 'I' || chained) && (unit.rolls_back || was_failed))
    settings_ = before_block_;
  if (chained) before_block_ = settings_;
  status_ = status;
  last_error_ = unit.failed ? unit.error : std::string();
  world_.truth.acknowledged(unit.marker, *memory_);
  world_.loop.note(
      concat({unit.marker.text(), " is answered", unit.failed ? " with " + unit.error : ""}));
  ++answered_;
  units_.pop_front();
  if (status_ == 'I') {
    for (const char* name : {"timezone", "application_name"}) {
      const auto told = reported_.find(name);
      if (told != reported_.end() && told->second != settings_[name] && units_.empty()) {
        fail(concat({"was told that ", name, " is \"", told->second, "\", but it set \"",
                     settings_[name], "\""}));
      }
    }
  }
  if (units_.empty()) rest();
}

void SimClient::apply(const Unit& unit) {
  for (const auto& [name, value] : unit.sets) {
    settings_[name] = value ? *value : defaults_[name];
  }
  if (!unit.listens.empty()) {
    listening_.insert(unit.listens);
    pinned_ = true;
  }
  if (!unit.sql_deallocates.empty()) sql_prepared_.erase(unit.sql_deallocates);
  if (!unit.sql_prepares.empty()) {
    sql_prepared_[unit.sql_prepares] = unit.sql_tables;
    pinned_ = true;
  }
  if (unit.causal_key) memory_ = unit.causal_key->empty() ? &own_memory_ : &world_.truth.keys[*unit.causal_key];
  if (unit.reset_all) {
    left_state_ = false;
    memory_ = &own_memory_;
    settings_ = defaults_;
    listening_.clear();
    prepared_.clear();
    sql_prepared_.clear();
    pinned_ = false;
  }
}

void SimClient::fail(const std::string& what) { world_.truth.fail(concat({name_, ": ", what})); }

}  // namespace pgweir::sim
