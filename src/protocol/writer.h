// Writes messages. Everything is appended to a string that the caller owns and usually reuses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"

namespace pgweir::protocol {

/// Builds one message after another: begin(), fields, end(), which fills in the length.
class Writer {
 public:
  explicit Writer(std::string& out) noexcept : out_(out) {}

  void begin(char type);
  /// For the packets of the startup, which have a length and no type.
  void begin_untyped();
  void u8(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void u16(std::uint16_t value);
  void i16(std::int16_t value) { u16(static_cast<std::uint16_t>(value)); }
  void u32(std::uint32_t value);
  void i32(std::int32_t value) { u32(static_cast<std::uint32_t>(value)); }
  /// The text and a zero byte. A zero byte within `text` would end it early on the other side, so
  /// the text is cut there.
  void cstring(Bytes text);
  void bytes(Bytes raw) { out_ += raw; }
  void end();

 private:
  std::string& out_;
  std::size_t length_at_ = 0;
};

/// Towards servers.
void append_query(std::string& out, Bytes sql);
void append_parse(std::string& out, Bytes name, Bytes sql,
                  std::span<const std::uint32_t> types = {});
/// Parameters and results in text format; nullopt is NULL.
void append_bind(std::string& out, Bytes portal, Bytes statement,
                 std::span<const std::optional<Bytes>> parameters = {});
/// `kind` is 'S' for a statement, 'P' for a portal.
void append_describe(std::string& out, char kind, Bytes name);
void append_close(std::string& out, char kind, Bytes name);
void append_execute(std::string& out, Bytes portal, std::uint32_t max_rows = 0);
void append_sync(std::string& out);
void append_flush(std::string& out);
void append_terminate(std::string& out);
void append_copy_data(std::string& out, Bytes data);
void append_copy_done(std::string& out);
void append_copy_fail(std::string& out, Bytes reason);
/// A password or its md5 form, with the zero byte that ends it.
void append_password(std::string& out, Bytes password);
void append_sasl_initial(std::string& out, Bytes mechanism, Bytes response);
void append_sasl_response(std::string& out, Bytes response);
/// Version 3.0.
void append_startup(std::string& out,
                    std::span<const std::pair<std::string, std::string>> parameters);
void append_ssl_request(std::string& out);
void append_cancel(std::string& out, std::uint32_t pid, std::uint32_t key);

/// Towards clients. Errors and notices carry the fields S, C and M, and D and H when given.
void append_error(std::string& out, Bytes severity, Bytes sqlstate, Bytes message,
                  Bytes detail = {}, Bytes hint = {});
void append_notice(std::string& out, Bytes severity, Bytes sqlstate, Bytes message,
                   Bytes detail = {}, Bytes hint = {});
/// `status` is one of transaction_status.
void append_ready(std::string& out, char status);
void append_parameter_status(std::string& out, Bytes name, Bytes value);
void append_command_complete(std::string& out, Bytes tag);
void append_backend_key(std::string& out, std::uint32_t pid, std::uint32_t key);
void append_auth_ok(std::string& out);
void append_auth_cleartext(std::string& out);
/// `salt` has four bytes.
void append_auth_md5(std::string& out, Bytes salt);
void append_auth_sasl(std::string& out, std::span<const Bytes> mechanisms);
void append_auth_sasl_continue(std::string& out, Bytes data);
void append_auth_sasl_final(std::string& out, Bytes data);
void append_parse_complete(std::string& out);
void append_bind_complete(std::string& out);
void append_close_complete(std::string& out);
void append_no_data(std::string& out);
void append_empty_query(std::string& out);
void append_portal_suspended(std::string& out);
/// Tells a client that asked for 3.1 or later, or for _pq_ options, what it gets: 3.`newest_minor`
/// without `options`.
void append_negotiate_version(std::string& out, std::uint16_t newest_minor,
                              std::span<const std::string> options);
void append_parameter_description(std::string& out, std::span<const std::uint32_t> types);

struct Column {
  Bytes name;
  std::uint32_t type = 25;      ///< Oid; 25 is text.
  std::int16_t type_size = -1;  ///< Of a fixed-length type; -1 for the others.
  std::uint16_t format = 0;     ///< 0 text, 1 binary.
};
void append_row_description(std::string& out, std::span<const Column> columns);
/// nullopt is NULL.
void append_data_row(std::string& out, std::span<const std::optional<Bytes>> values);

}  // namespace pgweir::protocol
