#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kv_offload {

/// What all actors of one engine share. Immutable after start.
struct ActorEnvironment {
  /// One line for operators; callable from any thread.
  std::function<void(std::string_view level, const std::string& line)> log;
  /// Tests only: sees every handled message. Null in production.
  std::function<void(std::string_view actor, std::string_view message)> trace;
  /// Deadlines are met to within this; totals are published this often.
  /// 100 ms: six actors then wake an idle engine 60 times a second, below 0.5 % of a core.
  Duration tick = std::chrono::milliseconds(100);
  /// With several domains: binds the calling thread, which is one actor's own, to a domain's processors and memory.
  std::function<void(DomainId domain, std::string_view actor)> enter_domain;
  /// Is the calling thread on a processor of that domain? Null: one domain, or processors that are not this machine's.
  std::function<bool(DomainId domain)> is_in_domain;
};
using SharedEnvironment = std::shared_ptr<const ActorEnvironment>;

/// Wraps one member function as a message handler that counts, and under test records, each message.
/// `State` provides `environment()`, `actor_totals()` and a static `name`; actors of a domain also `domain()`.
template <class State, class Message>
auto handled_by(State* state, void (State::*handler)(const Message&)) {
  return [state, handler](const Message& message) {
    ++state->actor_totals().messages;
    if constexpr (requires { state->domain(); })
      if (const auto& is_in = state->environment().is_in_domain; is_in && !is_in(state->domain()))
        ++state->actor_totals().foreign_executions;
    if (state->environment().trace) state->environment().trace(State::name, Message::kName);
    (state->*handler)(message);
  };
}

}  // namespace kv_offload
