#pragma once

#include <mutex>
#include <optional>

#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/workers/worker_hub.hpp"

namespace kv_offload {

/// Brings what the workers' hub says to the scheduler_step actor. A closable slot, like LaneSink: after `close()` every
/// call is dropped and no actor handle is kept. Thread-safe.
class WorkerSink : public WorkerOrderSink {
 public:
  /// Before the first order.
  void open(SchedulerStepActor step);
  void close();

  void order_outcome(OrderOutcome outcome) override;
  void order_quiesced(std::uint64_t id) override;

 private:
  std::mutex mutex_;
  SchedulerStepActor step_;
  std::optional<OrderOutcome> kept_;  ///< a success, whose quiesced follows at once: both go as one message
};

}  // namespace kv_offload
