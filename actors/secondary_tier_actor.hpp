#pragma once

#include <absl/container/flat_hash_map.h>

#include <map>
#include <memory>
#include <vector>

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/actors/lane_sink.hpp"
#include "kv_offload/actors/parent_gate.hpp"
#include "kv_offload/actors/verdict_table.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

namespace kv_offload {

struct SecondaryTierDeps {
  SharedEnvironment env;
  TierIndex tier_idx = 0;
  std::shared_ptr<SecondaryTier> tier;  ///< started; used from this actor only until it stops
  std::shared_ptr<LaneSink> sink;
  std::shared_ptr<ParentGate> gate;     ///< closed when the tier is gone; may be null
  JobTrackerActor tracker;
  EngineMetricsActor metrics;
  std::uint32_t probes_max = 0;  ///< keys waiting for a verdict
  Duration probe_ttl{};          ///< a probe unanswered for so long is forgotten
  Duration forget_ttl{};         ///< a forget unanswered for so long has failed
};

/// Stands for one secondary tier: hands probes and jobs to its lanes, and what the lanes say to whoever
/// asked. Never blocks; the I/O is the lanes'.
class SecondaryTierState {
 public:
  static inline const char* name = "kv_offload.secondary_tier";
  explicit SecondaryTierState(SecondaryTierActor::pointer self) : self_(self) {}
  SecondaryTierActor::behavior_type make_behavior(SecondaryTierDeps deps);

  ActorTotals& actor_totals() { return totals_.actor; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }

 private:
  struct OpenProbe {
    caf::strong_actor_ptr step;
    OpId op = 0;
    std::uint32_t round = 0;
    std::uint32_t num_keys = 0;
    MonotonicTime started;
    Duration handler_time{};
    bool polled = false;                 ///< for the verdict table: nobody waits
    KeyList keys;                        ///< polled
    std::vector<std::uint32_t> skipped;  ///< positions that were not probed: being stored
  };
  struct ActiveJob {
    KeyList keys;
    bool is_promotion = false;
    bool outcome_given = false;
  };
  /// Waits until no job that could bring its keys back is active.
  struct OpenForget {
    ForgetKeys what;
    ForgetId id = 0;
    std::vector<JobId> behind;  ///< jobs that were active when it came and still are
    bool running = false;
    MonotonicTime deadline;
  };

  void probe(const TierProbe& m);
  void take_events(const TakeEvents& m);
  void change_revision(const ChangeRevision& m);
  void fence(const Fence& m);
  void submit(const SubmitJobs& m);
  void open_request(const OpenRequest& m);
  void close_request(const CloseRequest& m);
  void touch(const TouchKeys& m);
  void forget(const ForgetKeys& m);
  void lane_forgot(const LaneForgot& m);
  void cancel(const CancelJob& m);
  void cancel_queued(const CancelQueued& m);
  void lane_report(const LaneReport& m);
  void lane_probed(const LaneProbed& m);
  void lane_died(const LaneDied& m);
  void tier_down(const TierDown& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);

  /// Its lane is gone: whoever waits for the tier is told, and nobody may ask through it any more.
  void end_service();
  void probe_polled(const TierProbe& m);
  void job_outcome(const JobResult& result);
  void job_quiesced(JobId job);
  void run_forget(OpenForget& forget);
  void end_forget(std::size_t at, std::uint64_t chunks, std::string error);
  void answer(const OpenProbe& probe, std::vector<TierVerdict> verdicts);
  void answer_all(const OpenProbe& probe, TierVerdict verdict);
  void publish_totals();

  SecondaryTierActor::pointer self_;
  SecondaryTierDeps deps_;
  TierActorTotals totals_;
  std::map<ProbeId, OpenProbe> probes_;  // bounded by probes_max keys
  std::uint64_t keys_probing_ = 0;
  ProbeId next_probe_ = 0;
  VerdictTable verdicts_{0};
  std::map<JobId, ActiveJob> jobs_;                               // submitted, not quiesced; bounded by jobs_max
  absl::flat_hash_map<OffloadKey, std::uint32_t> storing_;        // keys of stores without Outcome
  std::vector<OpenForget> forgets_;                               // bounded by calls_max
  ForgetId next_forget_ = 0;
};

SecondaryTierActor::behavior_type secondary_tier_actor(
    SecondaryTierActor::stateful_pointer<SecondaryTierState> self, SecondaryTierDeps deps);

}  // namespace kv_offload
