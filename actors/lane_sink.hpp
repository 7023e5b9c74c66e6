#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

namespace kv_offload {

/// Brings what a tier's lanes say to that tier's actor. A closable slot: after `close()` every call is
/// dropped and no actor handle is kept, even if a lane never returns. Thread-safe; holds its lock only
/// while a message is put into a mailbox.
///
/// A job's Outcome is kept for a moment so that its Quiesced, which nearly always follows at once,
/// travels in the same message; `flush()`, called by the actor's tick, bounds that moment.
class LaneSink : public TierSink {
 public:
  explicit LaneSink(TierIndex tier) : tier_(tier) {}

  /// Start-up wiring, before any lane runs.
  void open(SecondaryTierActor actor);
  void close();
  void flush();

  void probed(ProbeId probe, std::vector<LookupResult> verdicts) override;
  void job_outcome(JobResult result) override;
  void job_quiesced(JobId job) override;
  void forgot(ForgetId forget, std::uint64_t chunks, std::string error) override;
  void lane_died(std::string why) override;

 private:
  void flush_locked();

  const TierIndex tier_;
  std::mutex mutex_;
  SecondaryTierActor actor_;
  std::optional<JobResult> kept_;
};

}  // namespace kv_offload
