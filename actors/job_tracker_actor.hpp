#pragma once

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/messages/domain_map.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

struct JobTrackerDeps {
  SharedEnvironment env;
  std::vector<PrimaryTierActor> primaries;  ///< by domain
  DomainMap map;
  AdmissionControllerActor admission;
  EngineMetricsActor metrics;
  std::vector<std::string> tier_labels;  ///< by TierIndex, "1:fs"
  /// A job whose I/O has not ended this long after its Outcome has lost its lane.
  Duration abandon_after{};
};

/// Tracks every submitted job until its two ends: Outcome (result or deadline; waiters are told) and
/// Quiesced (nothing can touch its slots any more) or Abandoned (its lane is dead). Each comes exactly
/// once per registered job. Effects go to primary and admission before scheduler_step is told.
class JobTrackerState {
 public:
  static inline const char* name = "kv_offload.job_tracker";
  explicit JobTrackerState(JobTrackerActor::pointer self) : self_(self) {}
  JobTrackerActor::behavior_type make_behavior(JobTrackerDeps deps);

  ActorTotals& actor_totals() { return totals_.actor; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }

 private:
  struct TrackedJob {
    caf::strong_actor_ptr step;  ///< who is told
    RequestHandle request;
    TierIndex tier = 0;
    bool is_promotion = false;
    Epoch epoch = 0;
    std::vector<TicketShare> tickets;
    std::vector<ChunkId> chunk_ids;
    std::uint64_t chunk_bytes = 0;
    MonotonicTime submitted_at;
    MonotonicTime deadline;
    bool outcome_given = false;
    MonotonicTime outcome_at;
    CompletedTransfer transfer;  ///< for admission, at the second end
  };
  struct OpenDrain {
    OpId op = 0;
    caf::strong_actor_ptr step;
    MonotonicTime deadline;
  };
  /// What one handler has to send on, batched.
  struct Ends {
    TransfersEnded to_primary;
    AdmissionCompleted to_admission;
    std::map<caf::strong_actor_ptr, JobsEnded> to_steps;
  };

  void track(const TrackJobs& m);
  void lane_report(const LaneReport& m);
  void drain(const DrainJobs& m);
  void new_epoch(const NewEpoch& m);
  void forget(const ForgetKeys& m);
  void tier_forgot(const TierForgot& m);
  void fence(const Fence& m);
  void tier_up(const TierUp& m);
  void tier_down(const TierDown& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);

  /// First end. Returns the entry to which a second end in the same handler is added.
  TransferEnd& give_outcome(JobId id, TrackedJob& job, const JobResult& result, MonotonicTime now, Ends& ends);
  void count_outcome(const TrackedJob& job, const JobResult& result);
  /// A failing tier is said aloud, at most once in ten seconds.
  void log_failure(const TrackedJob& job, const JobResult& result, MonotonicTime now);
  /// Second end; the job is forgotten.
  void give_release(std::map<JobId, TrackedJob>::iterator job, bool abandoned, TransferEnd* same_handler,
                    Ends& ends);
  /// Nothing more is submitted to it; what is in flight still ends by itself.
  void disable_tier(TierIndex tier, const std::string& why);
  void abandon_tier(TierIndex tier, const std::string& why, MonotonicTime now, Ends& ends);
  void expire_overdue(MonotonicTime now);
  /// Two deadlines missed, one deadline apart, and nothing in between: the lane has died silently.
  [[nodiscard]] bool is_silent(TierIndex tier, MonotonicTime now);
  void send_ends(Ends& ends);
  /// To the homes of the jobs' chunks.
  void send_to_primaries(TransfersEnded ended);
  void answer_drains(MonotonicTime now);
  void publish_totals();

  JobTrackerActor::pointer self_;
  JobTrackerDeps deps_;
  TrackerTotals totals_;
  Epoch epoch_ = 0;
  std::map<JobId, TrackedJob> jobs_;           // bounded by jobs_max at scheduler_step; swept in id order
  std::vector<caf::strong_actor_ptr> tiers_;   // by TierIndex
  struct FailureLog {
    std::optional<MonotonicTime> last;
    std::uint64_t untold = 0;
  };
  std::vector<FailureLog> failure_log_;        // by TierIndex
  std::vector<std::optional<MonotonicTime>> silent_since_;  // by TierIndex: first deadline missed since a result
  std::vector<OpenDrain> drains_;              // bounded by calls_max
  std::map<OpId, std::uint32_t> fences_;       // copies seen; bounded by calls_max
};

JobTrackerActor::behavior_type job_tracker_actor(JobTrackerActor::stateful_pointer<JobTrackerState> self,
                                                 JobTrackerDeps deps);

}  // namespace kv_offload
