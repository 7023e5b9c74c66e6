#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/actors/lookup_op.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

namespace kv_offload {

struct SchedulerStepDeps {
  SharedEnvironment env;
  PrimaryTierActor primary;
  AdmissionControllerActor admission;
  JobTrackerActor tracker;
  std::vector<SecondaryTierActor> tiers;
  std::vector<TierTraits> traits;  ///< co-indexed
  EngineMetricsActor metrics;
  DomainId domain = 0;
  std::uint64_t chunk_bytes = 0;   ///< row length
  std::uint32_t jobs_max = 0;
  std::uint32_t requests_max = 0;
  struct {
    Duration load{}, store{}, probe{}, lookup{}, drain{};
  } deadlines;
};

/// Entry of every facade call of its domain. Owns requests and their ids, leases, and every call that
/// is still being resolved; decides what happens next and sends it to the owner of the state concerned.
/// Nothing here waits: answers find their call by OpId, or find it gone.
class SchedulerStepState {
 public:
  static inline const char* name = "kv_offload.scheduler_step";
  explicit SchedulerStepState(SchedulerStepActor::pointer self) : self_(self) {}
  SchedulerStepActor::behavior_type make_behavior(SchedulerStepDeps deps);

  ActorTotals& actor_totals() { return totals_.actor; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }

 private:
  struct Request {
    SharedRequest context;
    bool finished = false;
    bool allocated = false;
    std::uint32_t open_ops = 0;
    std::uint32_t open_leases = 0;
    RequestSummary summary;
    absl::flat_hash_set<std::uint64_t> counted;       ///< (tier, key) already in the query metrics
    absl::flat_hash_set<std::uint64_t> touched;       ///< recency counts once per request
    absl::flat_hash_set<std::uint64_t> refused_once;  ///< chunks whose refusal was counted
  };
  struct Lease {
    RequestHandle request;
    bool is_store = false;
    Epoch epoch = 0;
    SharedKeys keys;  ///< of the reserved slots, stores only
    std::vector<ChunkId> chunk_ids;
    std::vector<std::uint32_t> generations;
  };
  struct PrepareStoreOp {
    RequestHandle request;
    SharedKeys keys;
    Reply<StorePlan> reply;
  };
  struct PrepareLoadOp {
    RequestHandle request;
    Reply<LoadPlan> reply;
  };
  struct CompleteStoreOp {
    RequestHandle request;
    SharedRequest context;
    Lease lease;
    CompleteStoreOptions options;
    StoreOutcome outcome;
    Reply<StoreOutcome> reply;
    std::uint32_t open_jobs = 0;  ///< cascades waited for
    bool submitted = false;
  };
  struct FenceOp {
    std::uint32_t waiting = 2;  ///< FenceReached from primary and from admission
    MonotonicTime deadline;
    std::optional<Reply<Ok>> step;
    std::optional<Reply<EngineStats>> stats;
    std::optional<Reply<std::vector<OffloadingEvent>>> events;
    std::map<std::uint32_t, std::vector<OffloadingEvent>> taken;  ///< by source
    std::uint32_t sources = 0;
  };
  struct DrainOp {
    bool cancel_queued = false;
    bool sent = false;
    MonotonicTime deadline;
    Reply<Ok> reply;
  };
  struct ResetOp {
    enum class Phase : std::uint8_t { flows, draining, primary, revision } phase = Phase::flows;
    MonotonicTime deadline;
    bool change_revision = false;
    std::string revision, error;
    std::uint32_t revisions_open = 0;
    Reply<Ok> reply;
  };

  // facade calls
  void new_request(const NewRequestCall& m);
  void lookup(const LookupCall& m);
  void allocated(const AllocatedCall& m);
  void touch(const TouchCall& m);
  void abort(const AbortCall& m);
  void finish(const FinishCall& m);
  void prepare_store(const PrepareStoreCall& m);
  void complete_store(const CompleteStoreCall& m);
  void prepare_load(const PrepareLoadCall& m);
  void complete_load(const CompleteLoadCall& m);
  void step(const StepCall& m);
  void events(const EventsCall& m);
  void stats(const StatsCall& m);
  void drain(const DrainCall& m);
  void reset(const ResetCall& m);

  // answers, in the order in which a call meets them
  void lookup_probed(const PrimaryProbed& m);
  void lookup_tier_probed(const TierProbed& m);
  void lookup_claimed(const PrimaryClaimed& m);
  void lookup_admitted(const PromotionsDecided& m);
  void lookup_granted(const PrimaryGranted& m);
  void lookup_resolved(const KeysResolved& m);
  void store_reserved(const StoreReserved& m);
  void store_published(const StorePublished& m);
  void store_admitted(const CascadesDecided& m);
  void load_pinned(const LeadingPinned& m);
  void jobs_ended(const JobsEnded& m);
  void jobs_drained(const JobsDrained& m);
  void primary_reset(const PrimaryReset& m);
  void revision_changed(const RevisionChanged& m);
  void events_taken(const EventsTaken& m);
  void fence_reached(const FenceReached& m);

  void tier_down(const TierDown& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);

  // lookup flow
  void advance_lookup(LookupOp& op);
  void ask_tier(LookupOp& op, KeyIdxList window);
  void claim_tier_hits(LookupOp& op, KeyIdxList hits);
  void submit_promotions(LookupOp& op, const PrimaryGranted& m);
  void next_tier_or_miss(LookupOp& op, std::uint32_t key_idx, std::size_t from_tier);
  void give_up_probe(LookupOp& op, GiveUpReason reason);
  void give_up_lookup(LookupOp& op, GiveUpReason reason);
  void settle_lookup(LookupOp& op);
  void count_lookup(const LookupOp& op, Request* request);
  [[nodiscard]] std::size_t first_allowed_tier(const LookupOp& op, std::size_t from) const;
  void end_waits_of(RequestHandle request, OffloadErrc code, const std::string& why);

  // shared
  Request* find_request(RequestHandle handle);
  template <class T>
  Request* live_request(RequestHandle handle, const Reply<T>& reply);
  template <class T>
  bool refuses_work(const Reply<T>& reply);
  void maybe_forget(RequestHandle handle);
  /// Each lease belongs to a live request; a caller that never completes any is told `busy`.
  template <class T>
  bool refuses_lease(const Reply<T>& reply);
  JobId next_job() { return {deps_.domain, next_job_++}; }
  bool jobs_fit(std::size_t n) const { return open_jobs_ + n <= deps_.jobs_max; }
  void start_fence(FenceOp op, bool publish);
  void send_fence(OpId id, bool publish);
  [[nodiscard]] bool flows_running() const;
  void push_drains_and_reset();
  void finish_reset(std::string error);
  void publish_totals();

  SchedulerStepActor::pointer self_;
  SchedulerStepDeps deps_;
  SchedulerTotals totals_;
  std::vector<bool> tier_alive_;
  Epoch epoch_ = 0;
  OpId next_op_ = 0;
  std::uint64_t next_request_ = 0, next_lease_ = 0, next_job_ = 0;
  std::uint64_t open_jobs_ = 0;  ///< numbered, not yet released
  absl::flat_hash_map<RequestHandle, Request> requests_;      // bounded by requests_max
  absl::flat_hash_map<std::string, RequestHandle> by_req_id_; // of live requests
  absl::flat_hash_map<LeaseId, Lease> leases_;                // bounded by the primary's chunks
  // Open calls, each bounded by calls_max credits of the facade; ordered: swept by the tick.
  std::map<OpId, LookupOp> lookups_;
  std::map<OpId, PrepareStoreOp> prepare_stores_;
  std::map<OpId, PrepareLoadOp> prepare_loads_;
  std::map<OpId, CompleteStoreOp> complete_stores_;
  std::map<JobId, OpId> waited_jobs_;
  std::map<OpId, FenceOp> fences_;
  std::map<OpId, DrainOp> drains_;
  std::optional<std::pair<OpId, ResetOp>> reset_;
  std::vector<LookupCall> delayed_lookups_;  ///< only while promise 8 is broken on purpose
};

SchedulerStepActor::behavior_type scheduler_step_actor(
    SchedulerStepActor::stateful_pointer<SchedulerStepState> self, SchedulerStepDeps deps);

/// Answers with an error unless the request is there and not finished.
template <class T>
SchedulerStepState::Request* SchedulerStepState::live_request(RequestHandle handle, const Reply<T>& reply) {
  auto* request = find_request(handle);
  if (request != nullptr && !request->finished) return request;
  reply.fail(OffloadErrc::unknown_request, "request " + to_string(handle) + " is not live: announce it with new_request");
  return nullptr;
}

template <class T>
bool SchedulerStepState::refuses_lease(const Reply<T>& reply) {
  constexpr std::size_t kLeasesPerRequest = 16;  // a request rarely has more than one load and one store open
  if (leases_.size() < kLeasesPerRequest * deps_.requests_max) return false;
  reply.fail(OffloadErrc::busy, std::to_string(leases_.size()) + " leases are open: complete some");
  return true;
}

/// Calls that start work are refused during a reset; calls that end work never ask.
template <class T>
bool SchedulerStepState::refuses_work(const Reply<T>& reply) {
  if (!reset_) return false;
  reply.fail(OffloadErrc::resetting, "a reset is running: ask again when it has ended");
  return true;
}

}  // namespace kv_offload
