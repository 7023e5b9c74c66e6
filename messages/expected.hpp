#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kv_offload {

/// Everything a call can fail with. Refused, dropped and failed transfers are not errors of a call:
/// they are counted per tier (engine_stats.hpp).
enum class OffloadErrc {
  invalid_argument = 1,  ///< the call itself is malformed: unknown id, empty keys, key too long
  invalid_config,        ///< found by validation, before anything starts
  duplicate_request,     ///< a live request already has this id
  unknown_request,       ///< never announced, finished, or from before a reset
  unknown_lease,         ///< never granted or already completed
  no_space,              ///< prepare_store cannot have its slots now; nothing changed, ask again later
  busy,                  ///< all call credits of the domain are out
  aborted,               ///< the request was aborted while the call waited
  deadline,              ///< the wait ended by its configured deadline
  resetting,             ///< a reset is running; completions are still accepted
  shutting_down,         ///< new work is refused; completions are still accepted
  expired,               ///< the address it was made through has been revoked
  engine_failed,         ///< an actor died: the engine is in a named failed state
  io_error,              ///< the operating system refused, with errno in the text
  unsupported,           ///< this machine or build cannot do it; the text says what would help
};

constexpr std::string_view to_string(OffloadErrc code) {
  switch (code) {
    case OffloadErrc::invalid_argument: return "invalid_argument";
    case OffloadErrc::invalid_config: return "invalid_config";
    case OffloadErrc::duplicate_request: return "duplicate_request";
    case OffloadErrc::unknown_request: return "unknown_request";
    case OffloadErrc::unknown_lease: return "unknown_lease";
    case OffloadErrc::no_space: return "no_space";
    case OffloadErrc::busy: return "busy";
    case OffloadErrc::aborted: return "aborted";
    case OffloadErrc::deadline: return "deadline";
    case OffloadErrc::resetting: return "resetting";
    case OffloadErrc::shutting_down: return "shutting_down";
    case OffloadErrc::expired: return "expired";
    case OffloadErrc::engine_failed: return "engine_failed";
    case OffloadErrc::io_error: return "io_error";
    case OffloadErrc::unsupported: return "unsupported";
  }
  return "unknown";
}

struct OffloadError {
  OffloadErrc code = OffloadErrc::invalid_argument;
  std::string detail;  ///< one line for people: field, value, what is allowed
};

inline std::string to_string(const OffloadError& error) {
  return error.detail.empty() ? std::string(to_string(error.code)) : error.detail;
}

/// Nothing to return but success.
struct Ok {
  friend bool operator==(Ok, Ok) = default;
};

/// A value or an OffloadError. Expected trouble is a value; exceptions do not cross a room's border.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Expected(OffloadError error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  Expected(OffloadErrc code, std::string detail)
      : state_(std::in_place_index<1>, OffloadError{code, std::move(detail)}) {}

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return assert(has_value()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(has_value()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(has_value()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const OffloadError& error() const { return assert(!has_value()), *std::get_if<1>(&state_); }

 private:
  std::variant<T, OffloadError> state_;
};

}  // namespace kv_offload
