#include "kv_offload/actors/parent_gate.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <utility>

namespace kv_offload {

ParentGate::ParentGate(TierIndex tier, std::uint32_t calls_max,
                       std::shared_ptr<std::atomic<std::uint64_t>> expired)
    : tier_(tier),
      credits_(std::make_shared<std::atomic<std::int64_t>>(calls_max)),
      expired_(std::move(expired)) {}

void ParentGate::open(SchedulerStepActor step) {
  const std::scoped_lock lock(mutex_);
  step_ = std::move(step);
}

void ParentGate::close() {
  const std::scoped_lock lock(mutex_);
  step_ = nullptr;
}

template <class T, class Make>
void ParentGate::call(bool takes_credit, Callback<T> callback, Make make) {
  if (takes_credit && credits_->fetch_sub(1, std::memory_order_acq_rel) <= 0) {
    credits_->fetch_add(1, std::memory_order_acq_rel);
    if (callback) callback(OffloadError{OffloadErrc::busy, "calls_max: too many calls of this tier are outstanding"});
    return;
  }
  auto slot = std::make_shared<CompletionSlot<T>>(0U, takes_credit ? credits_ : nullptr);
  {
    const std::scoped_lock lock(mutex_);
    if (step_) {
      caf::anon_send(step_, make(Reply<T>(slot)));
    } else {
      expired_->fetch_add(1, std::memory_order_relaxed);
      slot->deliver(OffloadError{OffloadErrc::expired, "the tier no longer serves: it was stopped or disabled"});
    }
  }
  if (callback) slot->on_ready(std::move(callback));
}

void ParentGate::new_request(NewRequest request, Callback<OpenedRequest> callback) {
  call<OpenedRequest>(true, std::move(callback), [&](Reply<OpenedRequest> reply) {
    return NewRequestCall{std::move(request), tier_, std::move(reply)};
  });
}

void ParentGate::lookup(RequestHandle request, KeyList keys, LookupOptions options,
                        Callback<LookupAnswer> callback) {
  call<LookupAnswer>(true, std::move(callback), [&](Reply<LookupAnswer> reply) {
    return LookupCall{request, std::make_shared<const KeyList>(std::move(keys)), options, std::move(reply)};
  });
}

void ParentGate::create_store_job(RequestHandle request, KeyList keys, Callback<StoreJobPlan> callback) {
  call<StoreJobPlan>(true, std::move(callback), [&](Reply<StoreJobPlan> reply) {
    return StoreJobCall{tier_, request, std::make_shared<const KeyList>(std::move(keys)), std::move(reply)};
  });
}

void ParentGate::request_finished(RequestHandle request, Callback<RequestSummary> callback) {
  call<RequestSummary>(false, std::move(callback), [&](Reply<RequestSummary> reply) {
    return FinishCall{request, std::move(reply)};
  });
}

}  // namespace kv_offload
