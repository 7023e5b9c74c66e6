#pragma once

#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/workers/worker_hub.hpp"

#include <mutex>
#include <optional>
#include <vector>

namespace kv_offload {

/// Brings what the workers' hub says to the scheduler_step actors; whose order it is knows it, the others ignore it. A closable slot, like LaneSink: after `close()` every
/// call is dropped and no actor handle is kept. Thread-safe.
class WorkerSink : public WorkerOrderSink {
 public:
  /// Before the first order.
  void open(std::vector<SchedulerStepActor> steps);
  void close();

  void order_outcome(OrderOutcome outcome) override;
  void order_quiesced(std::uint64_t id) override;

 private:
  void send(const WorkerReport& report);  ///< with the lock

  std::mutex mutex_;
  std::vector<SchedulerStepActor> steps_;  ///< empty: closed
  std::optional<OrderOutcome> kept_;  ///< a success, whose quiesced follows at once: both go as one message
};

}  // namespace kv_offload
