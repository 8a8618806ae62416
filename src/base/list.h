// An intrusive, typed, doubly linked list: no allocation, and an element can't be taken off a list it is
// not on, because the hook is part of the list's type.
#pragma once

#include <cstddef>

#include "base/check.h"

namespace pgweir {

template <class T>
struct ListHook {
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { ENSURE(!linked); }

  T* previous = nullptr;
  T* next = nullptr;
  bool linked = false;
};

/// Elements are borrowed: they take themselves off before they die (the hook ensures it).
template <class T, ListHook<T> T::* Hook>
class List {
 public:
  List() = default;
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { ENSURE(size_ == 0); }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  T* front() const noexcept { return front_; }
  T* back() const noexcept { return back_; }
  static T* next(const T& element) noexcept { return (element.*Hook).next; }
  static bool linked(const T& element) noexcept { return (element.*Hook).linked; }

  void push_back(T& element) noexcept { insert(element, nullptr); }
  void push_front(T& element) noexcept { insert(element, front_); }

  void remove(T& element) noexcept {
    ListHook<T>& hook = element.*Hook;
    ENSURE(hook.linked);
    (hook.previous ? (hook.previous->*Hook).next : front_) = hook.next;
    (hook.next ? (hook.next->*Hook).previous : back_) = hook.previous;
    hook.previous = hook.next = nullptr;
    hook.linked = false;
    --size_;
  }

  T* pop_front() noexcept {
    T* element = front_;
    if (element) remove(*element);
    return element;
  }

 private:
  /// Puts `element` before `before`; at the end when that is null.
  void insert(T& element, T* before) noexcept {
    ListHook<T>& hook = element.*Hook;
    ENSURE(!hook.linked);
    hook.next = before;
    hook.previous = before ? (before->*Hook).previous : back_;
    (hook.previous ? (hook.previous->*Hook).next : front_) = &element;
    (before ? (before->*Hook).previous : back_) = &element;
    hook.linked = true;
    ++size_;
  }

  T* front_ = nullptr;
  T* back_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pgweir
