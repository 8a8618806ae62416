// Result<T>, Status and Error: how a function says that the world did not go along.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace pgweir {

/// What went wrong, in words for a person: the thing, its value, what was expected.
class [[nodiscard]] Error {
 public:
  explicit Error(std::string text) : text_(std::move(text)) {}
  Error(std::string sqlstate, std::string text) : text_(std::move(text)), sqlstate_(std::move(sqlstate)) {}

  /// What a server said: it is passed on in the server's words and with its SQLSTATE, whatever sqlstate_style asks for ours.
  static Error of_server(std::string sqlstate, std::string text) {
    Error error(std::move(sqlstate), std::move(text));
    error.of_server_ = true;
    return error;
  }

  const std::string& text() const noexcept { return text_; }
  bool is_of_server() const noexcept { return of_server_; }
  /// Five characters, or empty when no SQLSTATE was named.
  const std::string& sqlstate() const noexcept { return sqlstate_; }

  /// The same error with the place where it was found in front: "file:line: text".
  Error at(const std::string& where) && {
    text_.insert(0, where + ": ");
    return std::move(*this);
  }

 private:
  std::string text_;
  std::string sqlstate_;
  bool of_server_ = false;
};

/// A value, or the Error that kept it from being made. Reading the value of an error ends the process.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}    // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return state_.index() == 0; }
  bool ok() const noexcept { return state_.index() == 0; }

  T& value() & {
    ENSURE(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    ENSURE(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    ENSURE(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    ENSURE(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    ENSURE(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return !error_; }
  bool ok() const noexcept { return !error_; }
  const Error& error() const& {
    ENSURE(error_.has_value());
    return *error_;
  }
  Error error_at(const std::string& where) && {
    ENSURE(error_.has_value());
    return std::move(*error_).at(where);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace pgweir
