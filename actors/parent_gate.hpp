#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/parent_manager.hpp"

namespace kv_offload {

/// One tier's way into the engine. A closable slot like LaneSink: after `close()` no actor handle is kept
/// and every call answers `expired`. Calls outstanding are bounded by `calls_max`; beyond it `busy`.
class ParentGate final : public ParentManager {
 public:
  /// `expired` counts calls that came too late, for the metrics.
  ParentGate(TierIndex tier, std::uint32_t calls_max, std::shared_ptr<std::atomic<std::uint64_t>> expired);

  void open(SchedulerStepActor step);
  void close();

  void new_request(NewRequest request, Callback<OpenedRequest> callback) override;
  void lookup(RequestHandle request, KeyList keys, LookupOptions options, Callback<LookupAnswer> callback) override;
  void create_store_job(RequestHandle request, KeyList keys, Callback<StoreJobPlan> callback) override;
  void request_finished(RequestHandle request, Callback<RequestSummary> callback) override;

 private:
  template <class T, class Make>
  void call(bool takes_credit, Callback<T> callback, Make make);

  const TierIndex tier_;
  const std::shared_ptr<std::atomic<std::int64_t>> credits_;
  const std::shared_ptr<std::atomic<std::uint64_t>> expired_;
  std::mutex mutex_;  // held only while a message is put into the mailbox
  SchedulerStepActor step_;
};

}  // namespace kv_offload
