// What an application says to the router itself: SET, RESET and SHOW of pgweir.*, answered here in both protocols. They take effect at
// once, also within a transaction, and a ROLLBACK does not take them back.
#include <utility>

#include "base/text.h"
#include "protocol/extended.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/own_settings.h"
#include "session/own_unit.h"
#include "session/server_session.h"
#include "tokens/carried_token.h"

namespace pgweir::session {

using namespace protocol::frontend;

namespace {

bool has_no_parameters(const protocol::Bind& bind) noexcept {
  protocol::Reader rest(bind.rest);
  for (int formats = rest.i16(); formats > 0 && !rest.failed(); --formats) rest.i16();
  return rest.i16() == 0 && !rest.failed();
}

}  // namespace

OwnUnit read_own_unit(Bytes input) noexcept {
  OwnUnit unit;
  bool bound = false;
  bool executed = false;
  std::size_t at = 0;
  while (at < input.size()) {
    const std::optional<std::uint64_t> size = protocol::peek_wire_size(input.substr(at));
    if (!size || *size < protocol::kHeaderSize || input.size() - at < *size) return unit;
    const char type = input[at];
    const Bytes body = input.substr(at + protocol::kHeaderSize, static_cast<std::size_t>(*size) - protocol::kHeaderSize);
    at += static_cast<std::size_t>(*size);
    switch (type) {
      case kParse: unit.fits = at == *size; break;  // Only the first.
      case kBind: {
        const auto bind = protocol::parse_bind(body);
        unit.fits = bind && bind->portal.empty() && bind->statement.empty() && has_no_parameters(*bind) && !executed;
        bound = true;
        break;
      }
      case kDescribe: {
        const auto target = protocol::parse_describe(body);
        unit.fits = target && target->name.empty() && (target->is_statement() || bound);
        break;
      }
      case kExecute: {
        const auto execute = protocol::parse_execute(body);
        unit.fits = execute && execute->portal.empty() && bound && !std::exchange(executed, true);
        break;
      }
      case kSync:
        unit.size = at;
        unit.fits = executed;
        return unit;
      default: unit.fits = false;
    }
    if (!unit.fits) return unit;
  }
  return unit;
}

/// The unit at the front of `input`, when it is one for pgweir itself: how much of it is done with, 0 while more must come. nullopt: it
/// is the server's. Only between units, in no failed transaction.
std::optional<std::size_t> ClientSession::answer_own(char type, std::uint64_t size, Bytes input) {
  if (input.size() < size) return std::nullopt;
  const Bytes body = input.substr(protocol::kHeaderSize, static_cast<std::size_t>(size) - protocol::kHeaderSize);
  if (type == kQuery) {
    const std::optional<OwnOrder> order = own_order(protocol::Reader(body).cstring());
    if (!order) return std::nullopt;
    if (order->setting == OwnSetting::token && !settle_token(*order)) return 0;
    scratch_.clear();
    answer_order(*order, true);
    protocol::append_ready(scratch_, told_status());
    deliver(scratch_);
    return static_cast<std::size_t>(size);
  }
  if (type != kParse || !body.starts_with('\0')) return std::nullopt;
  const auto parse = protocol::parse_parse(body);
  const std::optional<OwnOrder> order = parse ? own_order(parse->query) : std::nullopt;
  if (!order) return std::nullopt;
  const OwnUnit unit = read_own_unit(input);
  if (!unit.fits) return std::nullopt;
  if (unit.size == 0) {
    starving_ = true;
    return 0;
  }
  if (order->setting == OwnSetting::token && !settle_token(*order)) return 0;
  scratch_.clear();
  answer_extended(*order, input.substr(0, unit.size));
  unnamed_.reset();
  deliver(scratch_);
  return unit.size;
}

/// Whether a whole message at the front of `input` begins such a unit.
bool ClientSession::is_own_front(Bytes input) {
  if (input.empty() || (input[0] != kQuery && input[0] != kParse)) return false;
  const std::optional<std::uint64_t> size = protocol::peek_wire_size(input);
  if (!size || *size <= protocol::kHeaderSize || input.size() < *size) return false;
  const Bytes body = input.substr(protocol::kHeaderSize, static_cast<std::size_t>(*size) - protocol::kHeaderSize);
  if (input[0] == kQuery) return own_order(protocol::Reader(body).cstring()).has_value();
  const auto parse = protocol::parse_parse(body);
  return parse && parse->name.empty() && own_order(parse->query).has_value();
}

void ClientSession::answer_extended(const OwnOrder& order, Bytes unit) {
  bool failed = false;
  for (std::size_t at = 0; at < unit.size();) {
    const auto size = static_cast<std::size_t>(*protocol::peek_wire_size(unit.substr(at)));
    switch (unit[at]) {
      case kParse: protocol::append_parse_complete(scratch_); break;
      case kBind: protocol::append_bind_complete(scratch_); break;
      case kDescribe:
        if (failed) break;
        if (unit[at + protocol::kHeaderSize] == 'S') protocol::append_parameter_description(scratch_, {});
        if (order.what == OwnOrder::What::show) {
          append_own_columns(order);
        } else {
          protocol::append_no_data(scratch_);
        }
        break;
      case kExecute: failed = !answer_order(order, false); break;
      case kSync: protocol::append_ready(scratch_, told_status()); break;
    }
    at += size;
  }
}

void ClientSession::append_own_columns(const OwnOrder& order) {
  const protocol::Column column{.name = to_string(order.setting)};
  protocol::append_row_description(scratch_, {&column, 1});
}

/// False when it was answered by an error.
bool ClientSession::answer_order(const OwnOrder& order, bool with_columns) {
  if (order.what == OwnOrder::What::show) {
    if (order.setting == OwnSetting::token && !own_state_->token) {
      protocol::append_error(scratch_, "ERROR", own_state_->token.error().sqlstate(), own_state_->token.error().text());
      return false;
    }
    if (with_columns) append_own_columns(order);
    const std::string value = own_value(order.setting);
    const std::optional<Bytes> cell = Bytes(value);
    protocol::append_data_row(scratch_, {&cell, 1});
    protocol::append_command_complete(scratch_, "SHOW");
    return true;
  }
  const bool resets = order.what == OwnOrder::What::reset;
  const Status done = resets ? reset_own(order.setting) : set_own(order.setting, order.value);
  if (!done) {
    protocol::append_error(scratch_, "ERROR", done.error().sqlstate(), done.error().text());
    return false;
  }
  protocol::append_command_complete(scratch_, resets ? "RESET" : "SET");
  return true;
}

Status ClientSession::check_own(OwnSetting setting, std::string_view value) const {
  const auto refuse = [&](std::string_view expected) { return refused_value(setting, value, expected); };
  switch (setting) {
    case OwnSetting::causal_key: {
      if (!is_causal_key(value)) {
        return Error("22023", concat({"invalid value for parameter \"", to_string(setting), "\": expected at most ",
                                      std::to_string(CausalKeys::kKeyBytesMax), " printable bytes"}));
      }
      return {};
    }
    case OwnSetting::read_consistency: {
      const Result<config::ConsistencyLevel> level = config::parse_consistency(value);
      return level ? Status{} : Status(refuse(level.error().text()));
    }
    case OwnSetting::token: {
      const Result<tokens::CarriedToken> token = value.empty() ? tokens::CarriedToken() : tokens::parse_carried_token(value);
      return token ? Status{} : Status(refuse(token.error().text()));
    }
    case OwnSetting::last_route:
      return Error("55P02", concat({"parameter \"", to_string(setting), "\" cannot be changed"}));
  }
  return {};
}

/// The database is split.
Status ClientSession::set_own(OwnSetting setting, std::string_view value) {
  if (Status checked = check_own(setting, value); !checked) return checked;
  switch (setting) {
    case OwnSetting::causal_key:
      if (!own_state_) own_state_ = std::make_unique<OwnState>();
      own_state_->key = value;
      key_ = value.empty() ? nullptr : pool_->database->marks->keys.get(value, *pool_->database->captures);
      // What the open block has shown under another key it must go on showing.
      if (block_open()) see_latest(causality());
      break;
    case OwnSetting::read_consistency:
      level_ = *config::parse_consistency(value);
      // What the old level did not have to remember.
      see_latest(causality());
      break;
    case OwnSetting::token: return own_state_->token ? Status{} : Status(own_state_->token.error());
    case OwnSetting::last_route: break;
  }
  return {};
}

/// To what the client asked for at login, else to what is configured.
Status ClientSession::reset_own(OwnSetting setting) {
  switch (setting) {
    case OwnSetting::causal_key: return set_own(setting, own_state_ ? std::string(own_state_->key_at_login) : std::string());
    case OwnSetting::read_consistency:
      level_ = own_state_ ? own_state_->level_at_login : std::nullopt;
      see_latest(causality());
      return {};
    case OwnSetting::token: return {};  // What has been written and seen stays so.
    case OwnSetting::last_route: return check_own(setting, {});
  }
  return {};
}

/// RESET ALL and DISCARD ALL.
void ClientSession::reset_all_own() {
  if (!pool_->database->captures || (!own_state_ && !level_)) return;
  (void)reset_own(OwnSetting::causal_key);
  (void)reset_own(OwnSetting::read_consistency);
}

/// Asked for in the startup packet.
Status ClientSession::take_own_at_login(OwnSetting setting, std::string_view value) {
  if (Status checked = check_own(setting, value); !checked) return checked;
  if (!own_state_) own_state_ = std::make_unique<OwnState>();
  if (setting == OwnSetting::causal_key) own_state_->key_at_login = value;
  if (setting == OwnSetting::token) own_state_->token_at_login = value;
  if (setting == OwnSetting::read_consistency) own_state_->level_at_login = *config::parse_consistency(value);
  return {};
}

std::string ClientSession::own_value(OwnSetting setting) const {
  switch (setting) {
    case OwnSetting::causal_key: return own_state_ ? own_state_->key : std::string();
    case OwnSetting::read_consistency: return std::string(config::to_string(session_level()));
    case OwnSetting::token: return *own_state_->token;
    case OwnSetting::last_route:
      if (!last_node_) return {};
      return concat({last_target_ == sql::Target::primary ? "primary " : "replica ", hub_.node_name(last_node_), " (",
                     routing::to_string(last_reason_), ")"});
  }
  return {};
}

}  // namespace pgweir::session
