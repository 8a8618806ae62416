// What a server still owes: a queue of expected answers, each with what is to happen to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "session/statements.h"

namespace pgweir::session {

/// The message that was sent, by the answer it gets.
enum class Answer : std::uint8_t {
  parse,               ///< 1
  bind,                ///< 2
  close,               ///< 3
  describe_statement,  ///< t, then T or n
  describe_portal,     ///< T or n
  execute,             ///< rows, then C, I or s
  query,               ///< anything, then Z
  sync,                ///< Z
  function_call,       ///< V, then Z
  flush,               ///< nothing: everything before it has been answered
  copy_end,            ///< nothing: the end of a COPY that the server has not begun yet
};

enum class Fate : std::uint8_t {
  forward,  ///< to the client
  swallow,  ///< it was our own message
  invent,   ///< nothing was sent: the client gets an answer of ours when its turn comes
  replace,  ///< sent so that the server fails; the client gets `text` as the error
};

/// A simple query of our own.
enum class Errand : std::uint8_t { none, identify, connect_query, check, reset, settings, open_block, wait, position, look_up, leftovers };

struct Owed {
  Answer answer = Answer::query;
  Fate fate = Fate::forward;
  Errand errand = Errand::none;
  StatementRef statement;  ///< of parse and close, and what a bind or describe uses
  std::uint64_t unit = 0;  ///< of a named parse: in which it was sent, see ServerStatements
  std::string text;        ///< parse, close: the client's name for it; replace: SQLSTATE and error text
};

/// A ring that grows. What is in it is bounded by the unit buffer: each entry stands for a message that was sent.
class OwedQueue {
 public:
  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  Owed& front() noexcept {
    ENSURE(size_ != 0);
    return ring_[head_];
  }
  Owed& operator[](std::size_t i) noexcept { return ring_[(head_ + i) & (ring_.size() - 1)]; }

  void push(Owed&& owed) {
    if (size_ == ring_.size()) grow();
    ring_[(head_ + size_) & (ring_.size() - 1)] = std::move(owed);
    ++size_;
  }
  /// An answer to be forwarded that nothing more has to be known of; a free place holds no statement, unit or text.
  void push(Answer forwarded) {
    if (size_ == ring_.size()) grow();
    Owed& owed = ring_[(head_ + size_) & (ring_.size() - 1)];
    owed.answer = forwarded;
    owed.fate = Fate::forward;
    owed.errand = Errand::none;
    ++size_;
  }
  void pop() noexcept {
    ENSURE(size_ != 0);
    Owed& gone = ring_[head_];
    gone.statement.reset();
    gone.text.clear();
    gone.unit = 0;
    head_ = (head_ + 1) & (ring_.size() - 1);
    --size_;
  }
  /// Takes out the entry `i`; the order of the others stays.
  void erase(std::size_t i) {
    for (; i > 0; --i) std::swap((*this)[i], (*this)[i - 1]);
    pop();
  }

 private:
  void grow() {
    std::vector<Owed> bigger(ring_.empty() ? 8 : ring_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) bigger[i] = std::move((*this)[i]);
    ring_ = std::move(bigger);
    head_ = 0;
  }

  std::vector<Owed> ring_;  ///< size is 0 or a power of two
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace pgweir::session
