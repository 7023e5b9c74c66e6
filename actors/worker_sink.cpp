#include "kv_offload/actors/worker_sink.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <utility>

namespace kv_offload {

void WorkerSink::open(SchedulerStepActor step) {
  const std::scoped_lock lock(mutex_);
  step_ = std::move(step);
}

void WorkerSink::close() {
  const std::scoped_lock lock(mutex_);
  step_ = nullptr;
  kept_.reset();
}

void WorkerSink::order_outcome(OrderOutcome outcome) {
  const std::scoped_lock lock(mutex_);
  if (!step_) return;
  if (outcome.success) {
    kept_ = std::move(outcome);
    return;
  }
  const auto id = outcome.id;
  caf::anon_send(step_, WorkerReport{id, std::move(outcome), false});
}

void WorkerSink::order_quiesced(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  if (!step_) return;
  WorkerReport report{id, std::nullopt, true};
  if (kept_ && kept_->id == id) report.outcome = std::exchange(kept_, std::nullopt);
  caf::anon_send(step_, std::move(report));
}

}  // namespace kv_offload
