#pragma once

#include "kv_offload/tiers/secondary_tier.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// A tier's way to its sink that can be shut: a lane thread that outlives its tier (it never came back
/// from a system call) finds the gate closed and touches nothing. Any thread.
class SinkGate {
 public:
  explicit SinkGate(TierSink* sink) : sink_(sink) {}

  void probed(ProbeId probe, std::vector<LookupResult> verdicts) {
    const std::lock_guard lock(mutex_);
    if (sink_ != nullptr) sink_->probed(probe, std::move(verdicts));
  }
  /// Both ends of a job whose I/O is over, in order.
  void job_ended(JobResult result) {
    const std::lock_guard lock(mutex_);
    if (sink_ == nullptr) return;
    const JobId id = result.job_id;
    sink_->job_outcome(std::move(result));
    sink_->job_quiesced(id);
  }
  void forgot(ForgetId forget, std::uint64_t chunks, std::string error) {
    const std::lock_guard lock(mutex_);
    if (sink_ != nullptr) sink_->forgot(forget, chunks, std::move(error));
  }
  void lane_died(std::string why) {
    const std::lock_guard lock(mutex_);
    if (sink_ != nullptr) sink_->lane_died(std::move(why));
  }
  void close() {
    const std::lock_guard lock(mutex_);
    sink_ = nullptr;
  }

 private:
  std::recursive_mutex mutex_;  // a sink may call its tier, which may report at once
  TierSink* sink_;
};

}  // namespace kv_offload
