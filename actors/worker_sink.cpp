#include "kv_offload/actors/worker_sink.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <utility>

namespace kv_offload {

void WorkerSink::open(std::vector<SchedulerStepActor> steps) {
  const std::scoped_lock lock(mutex_);
  steps_ = std::move(steps);
}

void WorkerSink::send(const WorkerReport& report) {
  for (const auto& step : steps_) caf::anon_send(step, report);
}

void WorkerSink::close() {
  const std::scoped_lock lock(mutex_);
  steps_.clear();
  kept_.reset();
}

void WorkerSink::order_outcome(OrderOutcome outcome) {
  const std::scoped_lock lock(mutex_);
  if (steps_.empty()) return;
  if (outcome.success) {
    kept_ = std::move(outcome);
    return;
  }
  const auto id = outcome.id;
  send({id, std::move(outcome), false});
}

void WorkerSink::order_quiesced(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  if (steps_.empty()) return;
  WorkerReport report{id, std::nullopt, true};
  if (kept_ && kept_->id == id) report.outcome = std::exchange(kept_, std::nullopt);
  send(report);
}

}  // namespace kv_offload
