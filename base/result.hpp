// Result<T>: a value or an Error, for failures that are expected while a run goes on.
//
// The house has three mechanisms for three kinds of failure: CHECK (check.hpp) for our own bugs,
// Fatal (error.hpp) for "this process cannot go on", and Result for what a distributed run must
// live with: a timeout, a lost peer, a torn file. Shaped like std::expected, which g++ 12 does not
// have.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.hpp"

namespace isthmus {

/// What went wrong, in one line: what, where, what to do.
struct Error {
    std::string message;
};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::move(value)) {}
    Result(Error error) : state_(std::move(error)) {}

    bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    T& value() & {
        CHECK(has_value(), "value() of a failed Result: {}", error().message);
        return std::get<0>(state_);
    }
    const T& value() const& { return const_cast<Result*>(this)->value(); }
    /// By value: a reference into a temporary would end before a range-for over it begins.
    T value() && { return std::move(value()); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const Error& error() const { return std::get<1>(state_); }

  private:
    std::variant<T, Error> state_;
};

/// Success without a value.
struct Done {};
using Status = Result<Done>;

}  // namespace isthmus
