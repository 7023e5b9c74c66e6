#pragma once

#include "kv_offload/messages/protocol/primary_messages.hpp"
#include "kv_offload/messages/transfer_job.hpp"

#include <caf/actor_control_block.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

// -- scheduler_step → job_tracker and back ------------------------------------------------------------

/// Numbered, admitted and pinned jobs: registers each with its deadline and submits it.
struct TrackJobs {
  static constexpr std::string_view kName = "TrackJobs";
  std::vector<TransferJob> jobs;
};
/// How jobs ended, for open calls and request summaries. Sent after the effects.
struct JobsEnded {
  static constexpr std::string_view kName = "JobsEnded";
  struct Entry {
    JobId job;
    RequestHandle request;
    bool is_promotion = false;
    bool outcome = false;   ///< the counts below are valid
    bool released = false;  ///< quiesced or abandoned: the job no longer counts as open
    std::uint32_t chunks_done = 0;
    std::uint32_t chunks_failed = 0;
    std::uint64_t bytes = 0;
    TierIndex tier = 0;
    Duration took{};        ///< submission to the end of its I/O; with outcome
  };
  std::vector<Entry> entries;
};
struct DrainJobs {
  static constexpr std::string_view kName = "DrainJobs";
  OpId op = 0;
  bool cancel_queued = false;
  MonotonicTime deadline;
};
struct JobsDrained {
  static constexpr std::string_view kName = "JobsDrained";
  OpId op = 0;
  bool drained = false;               ///< false: the deadline came first
  std::vector<ChunkId> busy_chunks;   ///< that unfinished jobs may still touch
};
struct NewEpoch {
  static constexpr std::string_view kName = "NewEpoch";
  Epoch epoch = 0;
};

// -- job_tracker → secondary_tier ---------------------------------------------------------------------

struct SubmitJobs {
  static constexpr std::string_view kName = "SubmitJobs";
  std::vector<TransferJob> jobs;
};
struct CancelJob {
  static constexpr std::string_view kName = "CancelJob";
  JobId job;
};
struct CancelQueued {
  static constexpr std::string_view kName = "CancelQueued";
};

// -- lane → secondary_tier → job_tracker ----------------------------------------------------------------

/// Results of one tier's lanes, batched; each job's Outcome before its Quiesced.
struct LaneReport {
  static constexpr std::string_view kName = "LaneReport";
  TierIndex tier = 0;
  std::vector<JobResult> outcomes;
  std::vector<JobId> quiesced;
};
/// Start-up wiring, sent before any job can exist: the tracker's handle of a tier's actor.
struct TierUp {
  static constexpr std::string_view kName = "TierUp";
  TierIndex tier = 0;
  caf::strong_actor_ptr actor;
};
/// The tier's lane or actor is gone: its jobs end as abandoned, the tier is disabled.
struct TierDown {
  static constexpr std::string_view kName = "TierDown";
  TierIndex tier = 0;
  std::string why;
};

}  // namespace kv_offload
