#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/messages/pending.hpp"
#include "kv_offload/messages/request.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kv_offload {

/// The engine as a serving process embeds it. Every member may be called from any thread at any time.
///
/// Each call returns a Pending<T>: `.get()` waits, `.then(f)` calls back on an engine thread (f must not
/// block, least of all in another call's get(): the engine's threads are few) or on `EngineConfig::executor`, `.future()`
/// converts. Answers are values or an OffloadError; nothing throws. Calls that start work
/// take one of `calls_max` credits and answer `busy` at once when none is left; calls that end work
/// (complete_*, abort, request_finished) need none and are accepted during reset and shutdown.
///
/// In a child forked while the engine runs every call answers `engine_failed` at once, there are no chunks, and the
/// destructor leaves everything to the parent. What was pending at the fork is never answered there.
///
///     auto request = engine.new_request({.req_id = "r1", .prompt_tokens = 4096}).get();
///     auto found   = engine.lookup(*request, keys).get();               // promotes what tiers hold
///     auto load    = engine.prepare_load(*request, hit_keys).get();     // pins the leading hits
///     …copy engine.chunk(load->chunk_ids[i]) → device…
///     engine.complete_load(load->lease);
///     auto plan    = engine.prepare_store(*request, missing_keys).get();
///     …copy device → engine.chunk(plan->chunk_ids[i])…
///     engine.complete_store(plan->lease);
///     engine.request_finished(*request);
class KV_OFFLOAD_EXPORT OffloadEngine {
 public:
  /// Validates, allocates the primary tier, starts tiers and actors. On error nothing is left behind.
  static Expected<std::unique_ptr<OffloadEngine>> start(EngineConfig config);
  /// Shuts down with the configured deadline if shutdown() was not called.
  ~OffloadEngine();
  OffloadEngine(const OffloadEngine&) = delete;
  OffloadEngine& operator=(const OffloadEngine&) = delete;

  // -- requests ----------------------------------------------------------------------------------
  /// Announces a request; mandatory before its other calls. A live duplicate id in its domain is an error.
  /// The answer stands for the request's handle in every other call.
  Pending<OpenedRequest> new_request(NewRequest request);
  /// Finds `keys` in the primary tier and, where it lacks them, in the secondary tiers in order;
  /// starts promotions of what they hold. See LookupOptions for what to wait for.
  Pending<LookupAnswer> lookup(RequestHandle request, KeyList keys, LookupOptions options = {});
  /// The same for a caller that keeps the list and asks again with it: with LookupWait::polled, as long as nothing has
  /// changed for the request, the repetition is answered from memory, without a look at any key (`worth` is then of the
  /// time when the answer was made). Whoever changes the list makes another one: this one is shared.
  Pending<LookupAnswer> lookup_shared(RequestHandle request, SharedKeys keys, LookupOptions options = {});
  /// The same, and `on_growth` is told the number of leading keys (the device's own included) that prepare_load would
  /// find readable, each time it has grown: larger each time, at most once per batch of results, never after the answer or
  /// an abort's. First chunks are loaded in jobs of their own, so that they land first. Runs where then() does, one
  /// call at a time; must not throw, and on an engine thread must not block. The answer waits for a call that runs.
  Pending<LookupAnswer> lookup_growing(RequestHandle request, KeyList keys, LookupOptions options,
                                       std::function<void(std::uint32_t)> on_growth);
  /// Starts the loads of what secondary tiers hold and keeps nobody waiting for them, but as `options` say.
  Pending<LookupAnswer> prefetch(RequestHandle request, KeyList keys, PrefetchOptions options = {});
  /// The device allocated the request with `device_tokens` already there: ends its lookup metrics.
  Pending<Ok> allocated(RequestHandle request, std::uint64_t device_tokens);
  /// Recency hint, processed from the last key to the first.
  Pending<Ok> touch(RequestHandle request, KeyList keys);
  /// Ends the request's waits now: open lookups answer `aborted`, its holds are dropped. Leases stay
  /// valid until completed; loads that others wait for go on.
  Pending<Ok> abort(RequestHandle request);
  /// No more lookup/prepare calls will follow; open leases may still be completed.
  Pending<RequestSummary> request_finished(RequestHandle request);

  // -- device → primary ----------------------------------------------------------------------------
  /// Reserves a slot for each key that is not there in any state; all or nothing (`no_space`).
  /// What the request's limits leave out is in StorePlan::capped.
  Pending<StorePlan> prepare_store(RequestHandle request, KeyList keys, StoreOptions options = {});
  /// Publishes (or drops) what was reserved and offers it to every secondary tier.
  Pending<StoreOutcome> complete_store(LeaseId lease, CompleteStoreOptions options = {});

  // -- primary → device ----------------------------------------------------------------------------
  /// Pins the leading keys that are still present and readable, and says how many.
  Pending<LoadPlan> prepare_load(RequestHandle request, KeyList keys);
  Pending<Ok> complete_load(LeaseId lease);

  // -- copies by the engine's workers -----------------------------------------------------------------
  /// With EngineConfig::workers: every worker copies these device blocks to the rows of prepare_store's lease, then the
  /// lease is completed as complete_store would. `blocks`: those of its chunks, in their order. Fails with `deadline` or
  /// `io_error` if a worker was too late, failed or died; the lease then ends by itself as soon as no worker can
  /// touch its rows any more. Until then its keys are being written: lookups find them pending, prepare_store leaves them
  /// out. Any other error (`busy`: a worker is missing, or jobs_max orders are out): nothing began, and the lease is
  /// still the caller's, as it was.
  Pending<StoreOutcome> store_blocks(LeaseId lease, BlockList blocks, CopyOptions options = {});
  /// The same towards the devices, for prepare_load's lease. On failure the blocks' contents are undefined.
  Pending<Ok> load_blocks(LeaseId lease, BlockList blocks, CopyOptions options = {});

  // -- step-driven embedders -------------------------------------------------------------------------
  /// The polling view: lookups with LookupWait::polled answer at once and are asked again every step.
  /// Both are fences: answered after all results tracked before the call are applied. The end of a step
  /// submits the promotions granted in it.
  Pending<Ok> step_begin();
  Pending<Ok> step_end(ScheduleEnd step);
  /// Whether steps are worth taking although no request is scheduled: jobs or cascades are on their way.
  Pending<bool> has_pending_work();

  // -- engine ----------------------------------------------------------------------------------------
  Pending<std::vector<OffloadingEvent>> take_events();
  /// Behind a fence, see EngineStats.
  Pending<EngineStats> stats();
  /// Answers when no job is active, or `deadline`.
  Pending<Ok> drain();
  /// Forgets the primary tier's contents; secondary tiers keep theirs. Live requests stay registered.
  Pending<Ok> reset();
  /// Removes these chunks (of `tenant`, if they are one's) from every tier, also while they are used: nobody
  /// finds them afterwards. Answers when it is done, or `deadline`.
  Pending<ForgetSummary> forget(KeyList keys, std::string tenant = {});
  /// The same for everything stored under requests of this tenant.
  Pending<ForgetSummary> forget_tenant(std::string tenant);
  /// Makes older chunks of every tier unreachable (after a weight update): resets, then changes the
  /// namespace identity.
  Pending<Ok> set_revision(std::string revision);
  /// Ends the engine in order; idempotent. False: a lane did not return in time and its memory was
  /// leaked on purpose (said in the log).
  bool shutdown();
  bool shutdown(Duration patience);

  // -- memory and facts ------------------------------------------------------------------------------
  /// Bytes of a slot for the holder of its lease: `chunk_bytes` long, page-aligned.
  [[nodiscard]] std::span<std::byte> chunk(ChunkId chunk_id) const;
  [[nodiscard]] std::uint64_t chunk_bytes() const;
  /// All rows, for a DeviceWorker in this process; the engine outlives it.
  [[nodiscard]] PrimaryView rows() const;
  /// Canonical layout with workers that have a socket: is every layer free of the parallel layout? Else unset.
  [[nodiscard]] std::optional<bool> all_layers_portable() const;
  [[nodiscard]] std::uint32_t num_chunks() const;
  /// Port of the metrics server, or 0 if there is none.
  [[nodiscard]] int metrics_port() const;
  /// Empty while all is well; else the name of the failed state that every call answers.
  [[nodiscard]] std::string failed_state() const;
  [[nodiscard]] const EngineConfig& config() const;

 private:
  struct Impl;
  explicit OffloadEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
