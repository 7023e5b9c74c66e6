#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/messages/request.hpp"
#include "kv_offload/messages/tier_traits.hpp"
#include "kv_offload/messages/transfer_job.hpp"
#include "kv_offload/tiers/io_mode.hpp"
#include "kv_offload/tiers/parent_manager.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// One existence question: a window of keys. `probe_id` comes back with the answer.
using ProbeId = std::uint64_t;
/// One forget; comes back with its answer.
using ForgetId = std::uint64_t;

/// Where a tier's I/O threads put results. Implemented by the engine; every function may be called
/// from any lane thread, never blocks and never throws. After `close()` of the engine's sink the calls
/// are dropped, so a lane that never returns cannot keep an actor alive.
class TierSink {
 public:
  virtual ~TierSink() = default;
  /// Verdicts co-indexed with the keys of the probe: hit, miss, or retry (an error verdict: unknown).
  virtual void probed(ProbeId probe, std::vector<LookupResult> verdicts) = 0;
  /// First end of a job; exactly once for each job that was submitted.
  virtual void job_outcome(JobResult result) = 0;
  /// Second end: no I/O can touch the job's slots any more; exactly once, never before job_outcome.
  virtual void job_quiesced(JobId job) = 0;
  /// Answer of one forget: how many chunks went; `error` empty if all that were asked for are gone.
  virtual void forgot(ForgetId /*forget*/, std::uint64_t /*chunks*/, std::string /*error*/) {}
  /// A lane thread ended without being asked to. Jobs it held will never report.
  virtual void lane_died(std::string why) = 0;
};

/// Cumulative numbers of a tier, for metrics and logs.
struct TierStats {
  std::uint64_t queued_jobs = 0;       ///< gauge: accepted, not started
  std::uint64_t running_jobs = 0;      ///< gauge
  std::uint64_t unverified_chunks = 0; ///< accepted without our digest (foreign_files: accept)
  std::uint64_t corrupt_chunks = 0;    ///< digest mismatch or short file, quarantined
  std::uint64_t foreign_refused = 0;
  std::uint64_t probes = 0;            ///< keys probed on the lane
  std::uint64_t late_bytes_discarded = 0;
  std::vector<MetricSample> samples;   ///< of the tier's own declared series
};

/// What a tier is built with besides its own parameters.
struct TierEnvironment {
  std::string label;                  ///< "1:fs"; names its threads and log lines
  PrimaryView primary;
  TierSink* sink = nullptr;           ///< outlives the tier
  ParentManager* parent = nullptr;    ///< outlives the tier; for tiers that serve others
  std::function<MonotonicTime()> now; ///< the injected clock
  std::uint32_t probes_max = 0;       ///< keys waiting for a verdict, bound of the probe queue
  std::uint32_t jobs_max = 0;         ///< jobs accepted and not quiesced
  IoMode io = IoMode::automatic;      ///< unless the tier's own key `io` says otherwise
  bool kv_events = true;              ///< the engine publishes events; without it tiers make none
  std::function<void(std::string)> log; ///< one line for operators; callable from any thread
  std::function<void(std::string)>
      warn;  ///< the same, for what somebody should look into; may be empty
};

/// A store of chunks behind the primary tier: file system, object store, peer. Extension point.
///
/// All member functions are called by the tier's actor, one at a time, and never block (start, stop
/// excepted). Transfers run on the tier's own I/O threads (lanes). The tier itself filters what it
/// already has, evicts and allocates; slots named by a job are pinned or reserved until job_quiesced.
/// Nothing read from the tier is reported `done` before its digest was verified.
class SecondaryTier {
 public:
  virtual ~SecondaryTier() = default;

  [[nodiscard]] virtual TierTraits traits() const = 0;
  /// Opens what the tier needs and starts its lanes. Errors are one line for the operator.
  virtual Expected<Ok> start() = 0;

  /// Asks which of `keys` the tier holds; the answer comes through the sink, in any order of probes.
  /// False: the probe queue is full, nothing was taken.
  virtual bool probe(ProbeId probe, KeyList keys) = 0;
  /// What the tier knows of a key without any I/O: hit, miss, or nullopt if it has to look (probe).
  [[nodiscard]] virtual std::optional<LookupResult> lookup(const OffloadKey& /*key*/) { return std::nullopt; }
  /// Takes a batch of jobs (loads and stores). Each ends in job_outcome and job_quiesced.
  virtual void submit(std::vector<TransferJob> jobs) = 0;
  /// Drops the job if it is still queued (it then ends as `cancelled`); a running one goes on.
  virtual void cancel(JobId job) = 0;
  /// Cancels every queued job; running ones end by themselves. New jobs are accepted afterwards.
  virtual void cancel_queued() = 0;
  /// Recency hint, if traits().wants_touch.
  virtual void touch(const KeyList& /*keys*/) {}
  /// If traits().asks_requests: a request begins; may ask for all of its chunks.
  virtual OffloadPolicy on_new_request(const RequestContext& /*request*/) { return OffloadPolicy::chunk_level; }
  /// If traits().asks_requests: all stores of the request were submitted; transfers may still run.
  virtual void on_request_finished(const RequestContext& /*request*/) {}
  /// Removes keys of which no job is active; the answer comes through the sink. False: not supported.
  virtual bool forget(ForgetId /*forget*/, KeyList /*keys*/) { return false; }
  /// The same for every key with this salt (OffloadKey::salted).
  virtual bool forget_tenant(ForgetId /*forget*/, std::uint64_t /*salt*/) { return false; }
  /// Makes chunks of other revisions unreachable: the namespace identity changes. Called only while no
  /// job is active. Tiers without a namespace answer `unsupported`.
  virtual Expected<Ok> set_revision(const std::string& /*revision*/) {
    return OffloadError{OffloadErrc::unsupported, "this tier has no revisions"};
  }
  /// What the tier itself publishes as stored/removed; drained by the call.
  virtual std::vector<OffloadingEvent> take_events() { return {}; }
  [[nodiscard]] virtual TierStats stats() const = 0;
  [[nodiscard]] virtual std::vector<MetricDefinition> metric_definitions() const { return {}; }

  /// Stops the lanes: queued jobs are cancelled, running ones end. False if a lane did not return by
  /// `patience`; its ring, thread state and the region must then be leaked by the caller.
  virtual bool stop(Duration patience) = 0;
};

}  // namespace kv_offload
