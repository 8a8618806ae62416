#include "sim_backend.h"

#include <algorithm>

#include "base/text.h"
#include "protocol/extended.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "sim_catalog.h"
#include "sim_cluster.h"

namespace pgweir::sim {

using namespace protocol;

namespace {

void append_error_with_routine(std::string& out, std::string_view severity,
                               std::string_view sqlstate, std::string_view message,
                               std::string_view routine) {
  Writer writer(out);
  writer.begin(backend::kErrorResponse);
  for (const auto& [field, text] :
       {std::pair('S', severity), std::pair('V', severity), std::pair('C', sqlstate),
        std::pair('M', message), std::pair('F', std::string_view("sim.c")),
        std::pair('R', routine)}) {
    writer.u8(static_cast<std::uint8_t>(field));
    writer.cstring(text);
  }
  writer.u8(0);
  writer.end();
}

}  // namespace

SimBackend::SimBackend(SimNode& node, std::unique_ptr<io::Door> door)
    : node_(node),
      transport_(static_cast<SimTransport*>(door->admit(*this).release())),
      pid_(node.cluster().next_pid()) {
  key_ = static_cast<std::uint32_t>(node.cluster().dice().next());
}

SimBackend::~SimBackend() = default;

void SimBackend::on_closed(const Error&) noexcept {
  rollback();
  gone_ = true;
}

void SimBackend::close() {
  // A backend that ends takes its transaction with it at once, whatever the network still has to
  // tell.
  rollback();
  gone_ = true;
  transport_->close();
}

void SimBackend::shut_down(bool crash) {
  if (gone_) return;
  if (!crash) {
    append_error_with_routine(out_, "FATAL", "57P01",
                              "terminating connection due to administrator command",
                              "ProcessInterrupts");
    say_now();
  }
  close();
}

// ---- login

void SimBackend::on_bytes(Bytes bytes) noexcept {
  if (gone_) return;
  if (phase_ == Phase::startup) {
    startup_ += bytes;
    Bytes input = startup_;
    on_startup(input);
    return;
  }
  while (std::optional<Slice> slice = framer_.next(bytes)) {
    if (std::optional<Bytes> body = collector_.add(*slice))
      messages_.push_back({slice->type, std::string(*body)});
  }
  if (framer_.broken()) {
    node_.cluster().truth().fail(
        concat({node_.host(), ": the pooler sent bytes that are no message"}));
    close();
    return;
  }
  pump();
}

void SimBackend::on_startup(Bytes& input) {
  const Result<std::optional<std::uint32_t>> size = startup_size(input);
  if (!size || !*size || input.size() < **size) return;
  const Result<StartupPacket> packet = parse_startup(input.substr(0, **size));
  startup_.erase(0, **size);
  if (!packet) return close();
  if (std::holds_alternative<SslRequest>(*packet) || std::holds_alternative<GssRequest>(*packet)) {
    transport_->send("N");
    return;
  }
  if (const auto* cancel = std::get_if<CancelRequest>(&*packet)) {
    canceller_ = true;
    node_.cancel(cancel->pid, cancel->key);
    return close();
  }
  on_login(std::get<Startup>(*packet));
}

void SimBackend::on_login(const Startup& startup) {
  const std::string* user = startup.find("user");
  user_ = user ? *user : "";
  for (const auto& [name, value] : kReportedSettings)
    defaults_[to_lower(name)] = std::string(value);
  defaults_["in_hot_standby"] = node_.is_primary() ? "off" : "on";
  defaults_["session_authorization"] = user_;
  defaults_["work_mem"] = "4MB";
  defaults_["search_path"] = "\"$user\", public";
  for (const auto& [name, value] : startup.parameters) {
    if (name != "user" && name != "database" && name != "options")
      defaults_[to_lower(name)] = value;
  }
  settings_ = defaults_;
  if (node_.habits.refuses_logins) {
    append_error_with_routine(out_, "FATAL", "28P01",
                              concat({"password authentication failed for user \"", user_, "\""}),
                              "auth_failed");
    say_now();
    return close();
  }
  if (node_.cluster().password.empty()) return login_done();
  phase_ = Phase::password;
  append_auth_cleartext(out_);
  say_now();
}

void SimBackend::login_done() {
  phase_ = Phase::ready;
  node_.check_limits(user_);
  append_auth_ok(out_);
  for (const auto& [name, value] : kReportedSettings) {
    reported_[to_lower(name)] = settings_[to_lower(name)];
    append_parameter_status(out_, name, settings_[to_lower(name)]);
  }
  append_backend_key(out_, pid_, key_);
  busy_ = node_.cluster().dice().between(Duration{200}, Duration{3000});
  ready();
  answer();
}

// ---- messages

void SimBackend::pump() {
  while (!gone_ && !waiting_ && !messages_.empty()) {
    const Message message = std::move(messages_.front());
    messages_.pop_front();
    take(message);
  }
}

void SimBackend::take(const Message& message) {
  // Of most messages the first text says which statement they are about.
  const Bytes first =
      message.type == frontend::kBind
          ? Bytes(message.body).substr(std::min<std::size_t>(1, message.body.size()))
      : message.type == frontend::kClose || message.type == frontend::kDescribe
          ? Bytes(message.body).substr(std::min<std::size_t>(1, message.body.size()))
          : Bytes(message.body);
  const bool named = message.type == frontend::kParse || message.type == frontend::kBind ||
                     message.type == frontend::kClose || message.type == frontend::kQuery;
  node_.cluster().loop().note(
      concat({node_.host(), " ", std::to_string(pid_), " takes ", Bytes(&message.type, 1), " ",
              named ? Reader(first).cstring() : Bytes(), skip_to_sync_ ? " and skips it" : ""}));
  if (phase_ == Phase::password) {
    if (message.type != frontend::kPassword) return close();
    if (Reader(message.body).cstring() == node_.cluster().password) return login_done();
    append_error_with_routine(out_, "FATAL", "28P01", "password authentication failed",
                              "auth_failed");
    say_now();
    return close();
  }
  if (copy_ != Copy::none) return on_copy_message(message);
  switch (message.type) {
    case frontend::kTerminate:
      return close();
    case frontend::kQuery:
      skip_to_sync_ = false;
      return on_query(std::string(Reader(message.body).cstring()));
    case frontend::kSync:
      return on_sync();
    case frontend::kCopyData:
    case frontend::kCopyDone:
    case frontend::kCopyFail:
      return;  // Left over from a COPY that failed.
    default:
      if (skip_to_sync_) return;
      on_extended(message);
      if (skip_to_sync_ && !waiting_ && !gone_) answer();  // An error goes out at once.
  }
}

void SimBackend::on_query(const std::string& text) {
  prepared_.erase("");
  portals_.clear();
  cancel_ends_query_ = true;
  if (text.starts_with("WAIT FOR LSN ")) return wait_for_lsn(text);
  for (const Statement& statement : read_statements(text)) {
    if (!run(statement, false)) break;
    if (copy_ != Copy::none) return answer();
  }
  end_of_message();
}

void SimBackend::wait_for_lsn(const std::string& text) {
  const auto between = [&text](std::string_view before, std::string_view after) {
    const std::size_t from = text.find(before);
    if (from == std::string::npos) return std::string();
    const std::size_t begin = from + before.size();
    return text.substr(begin, text.find(after, begin) - begin);
  };
  const std::optional<tokens::Lsn> lsn = tokens::parse_lsn(between("LSN '", "'"));
  const std::string milliseconds = between("TIMEOUT '", "ms'");
  if (node_.cluster().truth().server_version < 19 || !lsn || milliseconds.empty() || !text.ends_with(", NO_THROW)") || block_ != Block::none) {
    node_.cluster().truth().fail(concat({node_.host(), ": a WAIT FOR LSN that this server can't run: ", text}));
    return close();
  }
  if (!node_.is_primary() && node_.replay_lsn() < *lsn) ++node_.cluster().truth().waited_there;
  go_on_waiting(*lsn, node_.cluster().loop().now() + std::chrono::milliseconds(std::stoll(milliseconds)));
}

void SimBackend::go_on_waiting(tokens::Lsn lsn, Time until) {
  const bool there = node_.replay_lsn() >= lsn;
  if (node_.is_primary() || there || node_.cluster().loop().now() >= until) {
    describe_rows();
    const std::optional<Bytes> status[] = {node_.is_primary() ? Bytes("not in recovery") : there ? Bytes("success") : Bytes("timeout")};
    append_data_row(out_, status);
    complete("WAIT");
    return end_of_message();
  }
  waiting_ = true;
  const std::uint64_t number = ++wait_number_;
  node_.cluster().loop().after(std::chrono::milliseconds{1}, [node = &node_, pid = pid_, number, lsn, until] {
    for (const std::unique_ptr<SimBackend>& backend : node->backends()) {
      if (backend->pid_ != pid || backend->gone_ || backend->wait_number_ != number) continue;
      backend->waiting_ = false;
      return backend->go_on_waiting(lsn, until);
    }
  });
}

/// The end of a simple query: the implicit transaction ends, and Z says how things stand.
void SimBackend::end_of_message() {
  skip_to_sync_ = false;
  if (block_ == Block::implicit) commit(writer_);
  deliver_notifications();
  ready();
  answer();
}

void SimBackend::on_sync() {
  skip_to_sync_ = false;
  cancel_ends_query_ = true;
  if (block_ == Block::implicit) commit(writer_);
  if (block_ == Block::none) portals_.clear();
  deliver_notifications();
  ready();
  answer();
}

bool SimBackend::refused_in_failed_block(const Statement& statement) {
  if (block_ != Block::failed || statement.verb == Verb::commit || statement.verb == Verb::rollback)
    return false;
  fail("25P02", "current transaction is aborted, commands ignored until end of transaction block");
  return true;
}

void SimBackend::on_extended(const Message& message) {
  switch (message.type) {
    case frontend::kParse: {
      const std::optional<Parse> parse = parse_parse(message.body);
      if (!parse) return close();
      if (refused_in_failed_block(read_statement(parse->query))) break;
      if (!parse->name.empty() && prepared_.count(std::string(parse->name)) != 0) {
        fail("42P05", concat({"prepared statement \"", parse->name, "\" already exists"}));
        break;
      }
      const Statement statement = read_statement(parse->query);
      if (statement.missing ||
          (statement.tables == 1U << kFreshTable && statement.verb == Verb::select &&
           node_.cluster().truth().record(node_.applied()).versions[kFreshTable] == 0)) {
        begin_implicit();
        fail("42P01", "relation does not exist", "parserOpenTable");
        break;
      }
      prepared_[std::string(parse->name)] = std::string(parse->query);
      append_parse_complete(out_);
      break;
    }
    case frontend::kBind: {
      const std::optional<Bind> bind = parse_bind(message.body);
      if (!bind) return close();
      const auto found = prepared_.find(std::string(bind->statement));
      if (found == prepared_.end()) {
        fail("26000", concat({"prepared statement \"", bind->statement, "\" does not exist"}));
        break;
      }
      Portal portal{read_statement(found->second), found->second};
      if (refused_in_failed_block(portal.statement)) break;
      // Parameters are text; the first marker among them is the unit's.
      if (std::optional<Marker> marker = find_marker(bind->rest)) portal.statement.marker = marker;
      portals_[std::string(bind->portal)] = std::move(portal);
      append_bind_complete(out_);
      break;
    }
    case frontend::kDescribe: {
      const std::optional<Target> target = parse_describe(message.body);
      if (!target) return close();
      Statement statement;
      if (target->is_statement()) {
        const auto found = prepared_.find(std::string(target->name));
        if (found == prepared_.end()) {
          fail("26000", concat({"prepared statement \"", target->name, "\" does not exist"}));
          break;
        }
        statement = read_statement(found->second);
        const std::uint32_t types[] = {25};
        append_parameter_description(out_, found->second.find("$1") == std::string::npos
                                               ? std::span<const std::uint32_t>()
                                               : std::span<const std::uint32_t>(types));
      } else {
        const auto found = portals_.find(std::string(target->name));
        if (found == portals_.end()) {
          fail("34000", concat({"portal \"", target->name, "\" does not exist"}));
          break;
        }
        statement = found->second.statement;
      }
      const bool rows = statement.verb == Verb::select || statement.verb == Verb::hidden_write ||
                        statement.verb == Verb::divide ||
                        (statement.verb == Verb::write && statement.returning) ||
                        statement.verb == Verb::system || statement.verb == Verb::show ||
                        statement.verb == Verb::set_config;
      rows ? describe_rows() : append_no_data(out_);
      break;
    }
    case frontend::kExecute: {
      const std::optional<Execute> execute = parse_execute(message.body);
      if (!execute) return close();
      const auto found = portals_.find(std::string(execute->portal));
      if (found == portals_.end()) {
        fail("34000", concat({"portal \"", execute->portal, "\" does not exist"}));
        break;
      }
      cancel_ends_query_ = false;
      run(found->second.statement, true);
      if (copy_ != Copy::none) return answer();
      break;
    }
    case frontend::kClose: {
      const std::optional<Target> target = parse_close(message.body);
      if (!target) return close();
      target->is_statement() ? static_cast<void>(prepared_.erase(std::string(target->name)))
                             : static_cast<void>(portals_.erase(std::string(target->name)));
      append_close_complete(out_);
      break;
    }
    case frontend::kFlush:
      return answer();
    default:
      node_.cluster().truth().fail(concat(
          {node_.host(), ": the pooler sent a message of type ", std::string(1, message.type)}));
      close();
  }
}

void SimBackend::on_copy_message(const Message& message) {
  const Copy mode = copy_;
  switch (message.type) {
    case frontend::kCopyData:
    case frontend::kFlush:
      return;
    case frontend::kSync:
      return;  // Read over while data is expected, as PostgreSQL does.
    case frontend::kCopyDone: {
      copy_ = Copy::none;
      written_ |= copying_.tables;
      if (copying_.marker) {
        writer_ = copying_.marker;
        writers_.insert(*copying_.marker);
      }
      complete("COPY 1");
      break;
    }
    case frontend::kCopyFail:
      copy_ = Copy::none;
      fail("57014", "COPY from stdin failed: sim");
      break;
    default:
      copy_ = Copy::none;
      fail("08P01", "unexpected message type during COPY from stdin");
      break;
  }
  if (mode == Copy::simple) end_of_message();
}

// ---- answers

void SimBackend::say_now() {
  if (!out_.empty()) transport_->send(out_);
  out_.clear();
  cancel_at_.reset();
  busy_ = {};
}

void SimBackend::answer() {
  waiting_ = true;
  const std::uint64_t number = ++wait_number_;
  Dice& dice = node_.cluster().dice();
  const Duration time = busy_ + dice.between(Duration{5}, Duration{60});
  // The event finds the backend again by its pid: the node may have freed it meanwhile.
  node_.cluster().loop().after(time, [node = &node_, pid = pid_, number] {
    for (const std::unique_ptr<SimBackend>& backend : node->backends()) {
      if (backend->pid_ != pid || backend->gone_ || backend->wait_number_ != number) continue;
      backend->waiting_ = false;
      backend->say_now();
      backend->pump();
      return;
    }
  });
}

void SimBackend::cancel() {
  if (!waiting_ || !cancel_at_) return;
  ++node_.cluster().truth().cancels_hit;
  out_.resize(*cancel_at_);
  busy_ = {};
  fail("57014", "canceling statement due to user request", "ProcessInterrupts");
  if (cancel_ends_query_) {
    skip_to_sync_ = false;
    ready();
  }
  answer();
}

char SimBackend::status() const noexcept {
  switch (block_) {
    case Block::none:
    case Block::implicit:
      return transaction_status::kIdle;
    case Block::open:
      return transaction_status::kInTransaction;
    case Block::failed:
      return transaction_status::kFailed;
  }
  return transaction_status::kIdle;
}

void SimBackend::ready() {
  report_changes();
  append_ready(out_, status());
}
void SimBackend::complete(std::string_view tag) { append_command_complete(out_, tag); }

bool SimBackend::fail(std::string_view sqlstate, const std::string& message,
                      std::string_view routine) {
  append_error_with_routine(out_, "ERROR", sqlstate, message, routine);
  if (block_ == Block::implicit || block_ == Block::none) rollback();
  if (block_ == Block::open) {
    block_ = Block::failed;
    written_ = 0;
    writers_.clear();
  }
  skip_to_sync_ = true;  // Of a simple query its own end takes this back.
  copy_ = Copy::none;
  return false;
}

void SimBackend::notify(const std::string& channel, const std::string& payload, std::uint32_t pid) {
  std::string message;
  Writer writer(message);
  writer.begin(protocol::backend::kNotificationResponse);
  writer.u32(pid);
  writer.cstring(channel);
  writer.cstring(payload);
  writer.end();
  if (idle()) {
    transport_->send(message);
  } else {
    notifications_.push_back(std::move(message));
  }
}

void SimBackend::deliver_notifications() {
  if (block_ != Block::none) return;
  for (const std::string& message : notifications_) out_ += message;
  notifications_.clear();
}

}  // namespace pgweir::sim
