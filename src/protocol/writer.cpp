#include "protocol/writer.h"

#include "base/check.h"
#include "protocol/message.h"

namespace pgweir::protocol {
namespace {

/// The code that stands in a startup packet where the version would.
constexpr std::uint32_t kVersion30 = 3u << 16;
constexpr std::uint32_t kCancelCode = 80877102;
constexpr std::uint32_t kSslCode = 80877103;

void append_empty(std::string& out, char type) {
  const char message[] = {type, 0, 0, 0, 4};
  out.append(message, sizeof message);
}

void append_text(std::string& out, char type, Bytes text) {
  Writer writer(out);
  writer.begin(type);
  writer.cstring(text);
  writer.end();
}

void append_raw(std::string& out, char type, Bytes body) {
  Writer writer(out);
  writer.begin(type);
  writer.bytes(body);
  writer.end();
}

void append_target(std::string& out, char type, char kind, Bytes name) {
  Writer writer(out);
  writer.begin(type);
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.cstring(name);
  writer.end();
}

void append_authentication(std::string& out, std::uint32_t what, Bytes data) {
  Writer writer(out);
  writer.begin(backend::kAuthentication);
  writer.u32(what);
  writer.bytes(data);
  writer.end();
}

void append_report(std::string& out, char type, Bytes severity, Bytes sqlstate, Bytes message,
                   Bytes detail, Bytes hint) {
  Writer writer(out);
  const auto field = [&writer](char code, Bytes value) {
    writer.u8(static_cast<std::uint8_t>(code));
    writer.cstring(value);
  };
  writer.begin(type);
  field('S', severity);
  field('C', sqlstate);
  field('M', message);
  if (!detail.empty()) field('D', detail);
  if (!hint.empty()) field('H', hint);
  writer.u8(0);
  writer.end();
}

void write_values(Writer& writer, std::span<const std::optional<Bytes>> values) {
  writer.u16(static_cast<std::uint16_t>(values.size()));
  for (const std::optional<Bytes>& value : values) {
    if (!value) {
      writer.i32(-1);
      continue;
    }
    writer.u32(static_cast<std::uint32_t>(value->size()));
    writer.bytes(*value);
  }
}

}  // namespace

void Writer::begin(char type) {
  out_.push_back(type);
  begin_untyped();
}

void Writer::begin_untyped() {
  length_at_ = out_.size();
  out_.append(4, '\0');
}

void Writer::u16(std::uint16_t value) {
  char raw[2];
  store_u16(raw, value);
  out_.append(raw, sizeof raw);
}

void Writer::u32(std::uint32_t value) {
  char raw[4];
  store_u32(raw, value);
  out_.append(raw, sizeof raw);
}

void Writer::cstring(Bytes text) {
  out_ += text.substr(0, text.find('\0'));
  out_.push_back('\0');
}

void Writer::end() {
  const std::size_t length = out_.size() - length_at_;
  // A length that wrapped around would let the message's own bytes be read as further messages.
  ENSURE(length <= 0x7fffffff);
  store_u32(out_.data() + length_at_, static_cast<std::uint32_t>(length));
}

void append_query(std::string& out, Bytes sql) { append_text(out, frontend::kQuery, sql); }

void append_parse(std::string& out, Bytes name, Bytes sql, std::span<const std::uint32_t> types) {
  Writer writer(out);
  writer.begin(frontend::kParse);
  writer.cstring(name);
  writer.cstring(sql);
  writer.u16(static_cast<std::uint16_t>(types.size()));
  for (std::uint32_t type : types) writer.u32(type);
  writer.end();
}

void append_bind(std::string& out, Bytes portal, Bytes statement,
                 std::span<const std::optional<Bytes>> parameters) {
  Writer writer(out);
  writer.begin(frontend::kBind);
  writer.cstring(portal);
  writer.cstring(statement);
  writer.u16(0);  // No parameter formats: all are text.
  write_values(writer, parameters);
  writer.u16(0);  // No result formats: all are text.
  writer.end();
}

void append_describe(std::string& out, char kind, Bytes name) {
  append_target(out, frontend::kDescribe, kind, name);
}

void append_close(std::string& out, char kind, Bytes name) {
  append_target(out, frontend::kClose, kind, name);
}

void append_execute(std::string& out, Bytes portal, std::uint32_t max_rows) {
  Writer writer(out);
  writer.begin(frontend::kExecute);
  writer.cstring(portal);
  writer.u32(max_rows);
  writer.end();
}

void append_sync(std::string& out) { append_empty(out, frontend::kSync); }
void append_flush(std::string& out) { append_empty(out, frontend::kFlush); }
void append_terminate(std::string& out) { append_empty(out, frontend::kTerminate); }
void append_copy_data(std::string& out, Bytes data) { append_raw(out, frontend::kCopyData, data); }
void append_copy_done(std::string& out) { append_empty(out, frontend::kCopyDone); }
void append_copy_fail(std::string& out, Bytes reason) {
  append_text(out, frontend::kCopyFail, reason);
}
void append_password(std::string& out, Bytes password) {
  append_text(out, frontend::kPassword, password);
}

void append_sasl_initial(std::string& out, Bytes mechanism, Bytes response) {
  Writer writer(out);
  writer.begin(frontend::kPassword);
  writer.cstring(mechanism);
  writer.u32(static_cast<std::uint32_t>(response.size()));
  writer.bytes(response);
  writer.end();
}

void append_sasl_response(std::string& out, Bytes response) {
  append_raw(out, frontend::kPassword, response);
}

void append_startup(std::string& out,
                    std::span<const std::pair<std::string, std::string>> parameters) {
  Writer writer(out);
  writer.begin_untyped();
  writer.u32(kVersion30);
  for (const auto& [name, value] : parameters) {
    writer.cstring(name);
    writer.cstring(value);
  }
  writer.u8(0);
  writer.end();
}

void append_ssl_request(std::string& out) {
  Writer writer(out);
  writer.begin_untyped();
  writer.u32(kSslCode);
  writer.end();
}

void append_cancel(std::string& out, std::uint32_t pid, std::uint32_t key) {
  Writer writer(out);
  writer.begin_untyped();
  writer.u32(kCancelCode);
  writer.u32(pid);
  writer.u32(key);
  writer.end();
}

void append_error(std::string& out, Bytes severity, Bytes sqlstate, Bytes message, Bytes detail,
                  Bytes hint) {
  append_report(out, backend::kErrorResponse, severity, sqlstate, message, detail, hint);
}

void append_notice(std::string& out, Bytes severity, Bytes sqlstate, Bytes message, Bytes detail,
                   Bytes hint) {
  append_report(out, backend::kNoticeResponse, severity, sqlstate, message, detail, hint);
}

void append_ready(std::string& out, char status) {
  append_raw(out, backend::kReadyForQuery, Bytes(&status, 1));
}

void append_parameter_status(std::string& out, Bytes name, Bytes value) {
  Writer writer(out);
  writer.begin(backend::kParameterStatus);
  writer.cstring(name);
  writer.cstring(value);
  writer.end();
}

void append_command_complete(std::string& out, Bytes tag) {
  append_text(out, backend::kCommandComplete, tag);
}

void append_backend_key(std::string& out, std::uint32_t pid, std::uint32_t key) {
  Writer writer(out);
  writer.begin(backend::kBackendKeyData);
  writer.u32(pid);
  writer.u32(key);
  writer.end();
}

void append_auth_ok(std::string& out) { append_authentication(out, authentication::kOk, {}); }
void append_auth_cleartext(std::string& out) {
  append_authentication(out, authentication::kCleartext, {});
}
void append_auth_md5(std::string& out, Bytes salt) {
  append_authentication(out, authentication::kMd5, salt);
}

void append_auth_sasl(std::string& out, std::span<const Bytes> mechanisms) {
  Writer writer(out);
  writer.begin(backend::kAuthentication);
  writer.u32(authentication::kSasl);
  for (Bytes mechanism : mechanisms) writer.cstring(mechanism);
  writer.u8(0);
  writer.end();
}

void append_auth_sasl_continue(std::string& out, Bytes data) {
  append_authentication(out, authentication::kSaslContinue, data);
}

void append_auth_sasl_final(std::string& out, Bytes data) {
  append_authentication(out, authentication::kSaslFinal, data);
}

void append_parse_complete(std::string& out) { append_empty(out, backend::kParseComplete); }
void append_bind_complete(std::string& out) { append_empty(out, backend::kBindComplete); }
void append_close_complete(std::string& out) { append_empty(out, backend::kCloseComplete); }
void append_no_data(std::string& out) { append_empty(out, backend::kNoData); }
void append_empty_query(std::string& out) { append_empty(out, backend::kEmptyQueryResponse); }
void append_portal_suspended(std::string& out) { append_empty(out, backend::kPortalSuspended); }

void append_negotiate_version(std::string& out, std::uint16_t newest_minor,
                              std::span<const std::string> options) {
  Writer writer(out);
  writer.begin(backend::kNegotiateProtocolVersion);
  // The manual speaks of the minor version; servers send, and libpq reads, major and minor as in a
  // startup packet.
  writer.u32(kVersion30 | newest_minor);
  writer.u32(static_cast<std::uint32_t>(options.size()));
  for (const std::string& option : options) writer.cstring(option);
  writer.end();
}

void append_parameter_description(std::string& out, std::span<const std::uint32_t> types) {
  Writer writer(out);
  writer.begin(backend::kParameterDescription);
  writer.u16(static_cast<std::uint16_t>(types.size()));
  for (std::uint32_t type : types) writer.u32(type);
  writer.end();
}

void append_row_description(std::string& out, std::span<const Column> columns) {
  Writer writer(out);
  writer.begin(backend::kRowDescription);
  writer.u16(static_cast<std::uint16_t>(columns.size()));
  for (const Column& column : columns) {
    writer.cstring(column.name);
    writer.u32(0);  // Of no table,
    writer.u16(0);  // and none of its columns.
    writer.u32(column.type);
    writer.i16(column.type_size);
    writer.i32(-1);  // No type modifier.
    writer.u16(column.format);
  }
  writer.end();
}

void append_data_row(std::string& out, std::span<const std::optional<Bytes>> values) {
  Writer writer(out);
  writer.begin(backend::kDataRow);
  write_values(writer, values);
  writer.end();
}

}  // namespace pgweir::protocol
