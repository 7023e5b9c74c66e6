#pragma once

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/actors/compute_meter.hpp"
#include "kv_offload/actors/load_costs.hpp"
#include "kv_offload/actors/lookup_op.hpp"
#include "kv_offload/actors/primary_homes.hpp"
#include "kv_offload/messages/atomic_groups.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

struct SchedulerStepDeps {
  SharedEnvironment env;
  std::vector<PrimaryTierActor> primaries;  ///< by domain
  AdmissionControllerActor admission;
  JobTrackerActor tracker;
  std::vector<SecondaryTierActor> tiers;
  std::vector<TierTraits> traits;  ///< co-indexed
  EngineMetricsActor metrics;
  DomainId domain = 0;
  DomainMap map;
  std::uint64_t chunk_bytes = 0;   ///< row length
  std::uint32_t jobs_max = 0;
  std::uint32_t requests_max = 0;
  std::uint32_t probes_max = 1;        ///< keys that a tier asks for at a time
  std::uint32_t tokens_per_chunk = 0;  ///< 0: unknown, limits in tokens have no effect
  bool offload_prompt_only = true;
  AtomicGroups atomic_groups;
  bool gates_lookups = false;          ///< a lookup_gate may skip tiers
  bool weighs_device = false;          ///< admission is told what the device computed, and beside which transfers
  std::uint64_t min_load_tokens = 0;   ///< less than this is no load worth making
  std::uint32_t compute_tokens_per_s = 0;  ///< 0: unknown
  std::shared_ptr<const std::atomic<std::uint64_t>> external_expired;  ///< counted by the tiers' gates
  std::uint32_t blocks_per_chunk = 1;  ///< device blocks that the workers copy per chunk
  /// To the workers' hub; all empty where no workers are configured. Neither waits.
  std::function<Expected<Ok>(WorkerOrder)> order_workers;
  std::function<WorkerHubStats()> worker_stats;
  std::function<void(const std::string& revision)> revise_workers;
  struct {
    Duration load{}, store{}, probe{}, lookup{}, drain{}, copy{};
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
  [[nodiscard]] DomainId domain() const { return deps_.domain; }

 private:
  /// What one request has had of one tier, for the gates.
  struct TierClaim {
    enum class Lookup : std::uint8_t { none, issued, answered, skipped } lookup = Lookup::none;
    bool gated = false;            ///< the gate was asked about it
    bool judged = false;           ///< its one verdict is given
    std::uint64_t hit_tokens = 0;  ///< leading tokens that the tier's answer reached to
    std::uint64_t from_tokens = 0; ///< where its first chunk begins: what lies before it came from elsewhere
  };
  /// The answer of a request's last lookup, while nothing has changed. One per request at most.
  struct LookupMemo {
    OpId op = 0;          ///< whose watch it is
    SharedKeys keys;      ///< kept, so that no other list can have their address
    LookupOptions options;
    LookupAnswer answer;
    std::uint64_t epoch = 0;
    std::uint64_t looked_up = 0, hits = 0;  ///< for the request's summary
    struct Counted {
      std::uint64_t looked_up = 0, hit = 0, miss = 0;
    };
    std::vector<Counted> counted;           ///< per tier, primary first: what each repetition counts
  };
  struct Request {
    SharedRequest context;
    std::unique_ptr<LookupMemo> memo;
    std::uint64_t turn = 0;           ///< moves when a call may change what the request holds
    std::vector<TierClaim> claims;    ///< by tier
    std::uint64_t save_floor = 0;     ///< tokens; chunks below are not offered to skipped tiers
    std::uint64_t salt = 0;                      ///< of its tenant; 0: none
    std::vector<TierIndex> request_level_tiers;  ///< that want all of its chunks
    std::vector<bool> told;                      ///< tiers that keep something for it, until closed
    bool finished = false;
    bool allocated = false;
    MonotonicTime answered_at{};    ///< of its last lookup
    bool wants_told = false;        ///< admission knows what it wanted of the tiers
    bool closed = false;            ///< the tiers were told of its end
    std::uint32_t open_ops = 0;
    std::uint32_t open_leases = 0;
    std::uint32_t open_stores = 0;  ///< whose cascades are not decided yet; delay closing
    std::uint32_t parked = 0;       ///< chunks whose cascades wait for a write to end; delay closing
    std::uint64_t stored_chunks = 0;  ///< offered to prepare_store, for max_offload_tokens
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
    std::size_t below_floor = 0;  ///< leading chunks below the request's save floor
    MonotonicTime opened_at;      ///< loads only
    bool copying = false;         ///< by the workers: it ends when they have
    bool copy_failed = false;
    void leave_out(const KeyIdxList& positions);
  };
  /// Tiers that were asked what they want of a new request.
  struct OpenRequestOp {
    RequestHandle request;
    std::vector<TierIndex> waiting;
    MonotonicTime deadline;
    Reply<OpenedRequest> reply;
  };
  struct PrepareStoreOp {
    RequestHandle request;
    SharedKeys keys;
    std::optional<std::uint64_t> first_token;
    std::uint32_t capped = 0;
    Reply<StorePlan> reply;
  };
  struct PrepareLoadOp {
    RequestHandle request;
    Reply<LoadPlan> reply;
  };
  /// Chunks on their way to `tiers`: just published by a caller, or there already (PresentOp).
  struct CascadeOp {
    RequestHandle request;
    SharedRequest context;
    Lease lease;
    std::vector<TierIndex> tiers;
    CompleteStoreOptions options;
    StoreOutcome outcome;
    Reply<StoreOutcome> reply;
    std::uint32_t open_jobs = 0;  ///< cascades waited for
    bool submitted = false;
    bool counts_call = false;     ///< one of the request's open_ops
    KeyIdxList store_job_idx;     ///< of a StoreJobCall: which of its keys these are
    Reply<StoreJobPlan> store_job;
  };
  /// Chunks that are to be cascaded although nobody stores them now: a tier wants the request whole, or
  /// stores for somebody else. What is being written is parked until its write has ended.
  struct PresentOp {
    RequestHandle request;
    SharedRequest context;
    SharedKeys keys;
    std::vector<TierIndex> tiers;
    bool park = false;
    Epoch epoch = 0;
    std::uint32_t parked = 0;  ///< of its keys; after the answer
    MonotonicTime deadline;
    Reply<StoreJobPlan> store_job;
  };
  /// Granted in the polling view, submitted at the end of the step.
  struct PendingLoad {
    TierIndex tier = 0;
    MonotonicTime since;
    TransferJob job;
  };
  struct ForgetOp {
    SharedKeys keys;
    std::optional<std::uint64_t> salt;
    int round = 0;
    std::size_t waiting = 0;
    OpId began = 0;  ///< cascades begun before it may still store what it forgets
    MonotonicTime deadline;
    ForgetSummary summary;
    Reply<ForgetSummary> reply;
  };
  /// An order to the workers. Its lease ends when no process can touch the rows any more.
  struct CopyOp {
    LeaseId lease;
    bool is_store = false;
    bool success = false;
    CopyOptions options;
    Reply<StoreOutcome> store_reply;
    Reply<Ok> load_reply;
    void fail(OffloadErrc code, const std::string& why) const {
      is_store ? store_reply.fail(code, why) : load_reply.fail(code, why);
    }
  };
  struct FenceOp {
    std::size_t waiting =
        0;  ///< FenceReached from every primary and from admission; for stats also from the peers
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
    std::size_t peers_open = 0;  ///< that have not paused
    Reply<Ok> reply;
  };
  /// A reset that the step of domain 0 leads.
  struct Pause {
    OpId op = 0;
    caf::strong_actor_ptr leader;
    MonotonicTime deadline;
    bool answered = false;
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
  void store_blocks(const StoreBlocksCall& m);
  void load_blocks(const LoadBlocksCall& m);
  void step(const StepCall& m);
  void events(const EventsCall& m);
  void stats(const StatsCall& m);
  void store_job(const StoreJobCall& m);
  void forget(const ForgetCall& m);
  void pending_work(const PendingWorkCall& m);
  void drain(const DrainCall& m);
  void reset(const ResetCall& m);

  void request_opened(const RequestOpened& m);

  // answers, in the order in which a call meets them
  static LookupsAnswered::Wanted wanted_of(const LookupOp& op, const LookupAnswer& answer);
  [[nodiscard]] std::uint32_t keys_on_device(const LookupOptions& options, std::size_t keys) const;
  void ask_about_device_key(LookupOp& op, std::size_t from_tier);
  void lookup_probed(const PrimaryProbed& m);
  void lookup_gated(const LookupGated& m);
  void lookup_tier_probed(const TierProbed& m);
  void lookup_claimed(const PrimaryClaimed& m);
  void lookup_admitted(const PromotionsDecided& m);
  void lookup_granted(const PrimaryGranted& m);
  void lookup_resolved(const KeysResolved& m);
  void keys_resolved(const KeysResolved& m);
  void store_reserved(const StoreReserved& m);
  void store_published(const StorePublished& m);
  void store_admitted(const CascadesDecided& m);
  void present_pinned(const PresentPinned& m);
  void load_pinned(const LeadingPinned& m);
  [[nodiscard]] LoadWorth worth_of(const LookupOp& op, const LookupAnswer& answer) const;
  /// Numbered, admitted and pinned ones: counted, and told to the tracker.
  void begin_jobs(TrackJobs jobs);
  void jobs_ended(const JobsEnded& m);
  void jobs_drained(const JobsDrained& m);
  void primary_reset(const PrimaryReset& m);
  void revision_changed(const RevisionChanged& m);
  void events_taken(const EventsTaken& m);
  void keys_forgotten(const KeysForgotten& m);
  void fence_reached(const FenceReached& m);

  void worker_report(const WorkerReport& m);

  void tier_down(const TierDown& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);

  // other domains
  void meet_peers(const MeetPeers& m);
  void pause(const PauseStep& m);
  void peer_paused(const StepPaused& m);
  void resume(const ResumeStep& m);
  void fence(const Fence& m);
  [[nodiscard]] bool resetting() const { return reset_.has_value() || pause_.has_value(); }
  /// Waits end, and nothing new becomes a job.
  void begin_reset();
  void begin_epoch(Epoch epoch);
  void forget_what_was_there();

  // lookup flow
  void advance_lookup(LookupOp& op);
  void tell_growth(LookupOp& op);
  void begin_windows(LookupOp& op, std::size_t wanted);
  void ask_tier(LookupOp& op, KeyIdxList window);
  void claim_tier_hits(LookupOp& op, KeyIdxList hits);
  std::size_t keep_siblings(LookupOp& op, std::size_t admitted);
  void submit_promotions(LookupOp& op, const PrimaryGranted& m, bool too_late);
  void next_tier_or_miss(LookupOp& op, std::uint32_t key_idx, std::size_t from_tier);
  void give_up_probe(LookupOp& op, GiveUpReason reason);
  void give_up_lookup(LookupOp& op, GiveUpReason reason);
  void settle_lookup(LookupOp& op);
  void count_lookup(const LookupOp& op, Request* request);
  [[nodiscard]] std::size_t first_allowed_tier(const LookupOp& op, std::size_t from) const;
  void end_waits_of(RequestHandle request, OffloadErrc code, const std::string& why);

  // cascades
  void cascade_present(OpId id, PresentOp op, KeyIdxList key_idx);
  void resolve_parked(OpId id, std::uint32_t key_idx, ResolveFailure failure, std::map<OpId, KeyIdxList>& ready);
  void unpark(OpId id, KeyIdxList key_idx);
  void drop_parked(OpId id, DropReason why);
  void drop_offered(const std::vector<TierIndex>& tiers, std::uint64_t chunks, DropReason why);
  void end_cascade(std::map<OpId, CascadeOp>::iterator op);

  // gates
  void ask_gate(LookupOp& op, Request& request);
  void take_primary_answer(LookupOp& op);
  void note_lookup(const LookupOp& op, Request& request, const LookupAnswer& answer);
  void judge_claims(Request& request, std::uint64_t device_tokens);
  void end_claims(Request& request);
  void split_below_floor(CascadeOp& op);
  void note_store(RequestHandle handle, const Request& request, std::size_t keys,
                  std::optional<std::uint64_t> first_token);

  // copies by the workers
  void start_copy(CopyOp op, const BlockList& blocks);
  void end_copy(CopyOp op);
  CopyTotals& copy_totals(const CopyOp& op) {
    return op.is_store ? totals_.store_copies : totals_.load_copies;
  }

  // memo
  bool answer_from_memo(Request& request, const LookupCall& m);
  static void drop_memo(Request& request);
  [[nodiscard]] bool may_keep(const LookupOp& op, const Request& request, const LookupAnswer& answer) const;
  void lookup_changed(const LookupChanged& m);

  // polling view
  void add_pending_load(const LookupOp& op, TierIndex tier, TransferJob chunks, MonotonicTime now);
  void submit_pending_loads();
  void submit_late_pending_loads(MonotonicTime now);
  void drop_pending_loads();

  // forget
  void start_forget_round(OpId id, ForgetOp& op);
  void push_forgets();

  // shared
  /// A primary tier's answer; handled when the last home has given its part.
  template <class Answer>
  auto gathered(void (SchedulerStepState::*handler)(const Answer&)) {
    return [this, count = handled_by(this, &SchedulerStepState::count_message<Answer>),
            handler](const Answer& part) {
      count(part);
      homes_.answered(
          part, [this, handler](const Answer& whole) { (this->*handler)(whole); },
          [this](const KeysResolved& early) { lookup_resolved(early); });
    };
  }
  template <class Message>
  void count_message(const Message&) {}
  /// The request's own keys: salted, if it belongs to a tenant. Null: refused, and answered.
  template <class T>
  SharedKeys keys_of(const Request& request, const SharedKeys& keys, const Reply<T>& reply);
  [[nodiscard]] std::uint64_t chunks_elsewhere(const std::vector<ChunkId>& chunks) const;
  [[nodiscard]] std::size_t chunks_to_store(const Request& request, std::size_t keys, const StoreOptions& options) const;
  void tell_tiers(Request& request);
  void answer_opened(std::map<OpId, OpenRequestOp>::iterator op);
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
  [[nodiscard]] bool jobs_fit(std::size_t n) const {
    return open_jobs_ + pending_loads_.size() + n <= deps_.jobs_max;
  }
  void start_fence(FenceOp op, bool publish);
  void send_fence(OpId id, bool publish);
  [[nodiscard]] bool flows_running() const;
  void push_drains_and_reset();
  void finish_reset(std::string error);
  void publish_totals();

  SchedulerStepActor::pointer self_;
  SchedulerStepDeps deps_;
  PrimaryHomes homes_;
  std::vector<SchedulerStepActor> peers_;  ///< of the other domains; domain 0 only
  std::optional<Pause> pause_;
  SchedulerTotals totals_;
  std::vector<VerdictCounts> verdicts_;  ///< by tier, cumulative
  LoadCosts load_costs_{0};
  std::vector<ProbeWindows> probe_windows_;  ///< by tier
  ComputeMeter compute_meter_{0, 0};
  std::vector<bool> tier_alive_;
  Epoch epoch_ = 0;
  std::uint64_t memo_epoch_ = 0;  ///< moves with every reset and forget
  OpId next_op_ = 0;
  std::uint64_t next_request_ = 0, next_lease_ = 0, next_job_ = 0, next_order_ = 0;
  std::uint64_t open_jobs_ = 0;  ///< numbered, not yet released
  absl::flat_hash_map<RequestHandle, Request> requests_;      // bounded by requests_max
  absl::flat_hash_map<std::string, RequestHandle> by_req_id_; // of live requests
  absl::flat_hash_map<LeaseId, Lease> leases_;                // bounded by the primary's chunks
  // Open calls, each bounded by calls_max credits of the facade; ordered: swept by the tick.
  std::map<OpId, LookupOp> lookups_;
  std::map<OpId, PrepareStoreOp> prepare_stores_;
  std::map<OpId, PrepareLoadOp> prepare_loads_;
  std::map<OpId, OpenRequestOp> open_requests_;
  std::map<OpId, CascadeOp> cascades_;
  std::map<OpId, PresentOp> presents_;  // asked of the primary tier, or with parked keys
  std::map<OpId, ForgetOp> forgets_;
  std::map<std::uint64_t, CopyOp> copies_;  // by order; one per open lease at most
  std::vector<PendingLoad> pending_loads_;  // in order of their first chunk; bounded by slots and jobs_max
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
SharedKeys SchedulerStepState::keys_of(const Request& request, const SharedKeys& keys, const Reply<T>& reply) {
  if (request.salt == 0) return keys;
  auto own = std::make_shared<KeyList>();
  own->reserve(keys->size());
  for (const auto& key : *keys) {
    const auto salted = key.salted(request.salt);
    if (!salted) {
      reply.fail(OffloadErrc::invalid_argument,
                 "keys: a hash of " + std::to_string(key.content_hash().size()) + " bytes with a tenant; at most " +
                     std::to_string(OffloadKey::kMaxHashBytes - OffloadKey::kSaltBytes));
      return nullptr;
    }
    own->push_back(*salted);
  }
  return own;
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
  if (!resetting()) return false;
  reply.fail(OffloadErrc::resetting, "a reset is running: ask again when it has ended");
  return true;
}

}  // namespace kv_offload
