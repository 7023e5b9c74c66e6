#pragma once

#include "kv_offload/messages/protocol/actor_interfaces.hpp"

#include <caf/send.hpp>

#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace kv_offload {

/// The domain that a call belongs to: that of its request or lease; 0 for what concerns the whole engine, and for
/// handles that no domain gave out, which is for the actor to say.
template <class Call>
DomainId domain_of(const Call& call, std::size_t domains) {
  const auto known = [domains](DomainId domain) { return domain < domains ? domain : DomainId{0}; };
  if constexpr (requires {
                  { call.lease } -> std::convertible_to<LeaseId>;
                })
    return known(call.lease.domain);
  else if constexpr (requires {
                       { call.request } -> std::convertible_to<RequestHandle>;
                     })
    return known(call.request.domain);
  else
    return 0;
}

template <class Call>
void send_call(const std::vector<SchedulerStepActor>& steps, Call call) {
  const auto domain = domain_of(call, steps.size());
  caf::anon_send(steps[domain], std::move(call));
}

/// Asks every domain, with `make(reply)` each, and answers `reply` when all have: the first error, else the answers
/// put together by `add(whole, part)`.
template <class T, class Make, class Add>
void ask_all(const std::vector<SchedulerStepActor>& steps, Reply<T> reply, Make make, Add add) {
  if (steps.size() == 1) return send_call(steps, make(std::move(reply)));
  struct Answers {
    std::mutex mutex;
    std::optional<Expected<T>> whole;
    std::size_t waiting = 0;
    Reply<T> reply;
  };
  auto answers = std::make_shared<Answers>();
  answers->waiting = steps.size();
  answers->reply = std::move(reply);
  for (const auto& step : steps) {
    auto slot = std::make_shared<CompletionSlot<T>>(0U);
    slot->on_ready([answers, add](Expected<T> part) {
      std::unique_lock lock(answers->mutex);
      if (!answers->whole)
        answers->whole.emplace(std::move(part));
      else if (answers->whole->has_value() && part)
        add(**answers->whole, std::move(*part));
      else if (answers->whole->has_value())
        answers->whole.emplace(std::move(part));
      if (--answers->waiting > 0) return;
      lock.unlock();
      answers->reply.deliver(std::move(*answers->whole));
    });
    caf::anon_send(step, make(Reply<T>(slot)));
  }
}

}  // namespace kv_offload
