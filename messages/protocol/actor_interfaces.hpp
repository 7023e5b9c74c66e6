#pragma once

#include "kv_offload/messages/protocol/caf_compat.hpp"
#include "kv_offload/messages/protocol/type_ids.hpp"

namespace kv_offload {

/// All actors' typed interfaces. Every message is an event: answers are messages of their own that
/// carry the call's OpId, so no handler ever waits and a late answer finds its entry gone.

/// One per domain. Owns requests, leases and open calls. Facade calls come from any thread, the rest
/// from the actors named at each group.
using SchedulerStepActor = caf::typed_actor<
    // facade; cost: one table entry and one message on, unless said otherwise in protocol/README.md
    event<NewRequestCall>, event<LookupCall>, event<AllocatedCall>, event<TouchCall>,
    event<AbortCall>, event<FinishCall>, event<PrepareStoreCall>, event<CompleteStoreCall>,
    event<PrepareLoadCall>, event<CompleteLoadCall>, event<StepCall>, event<EventsCall>,
    event<StatsCall>, event<DrainCall>, event<ResetCall>, event<ForgetCall>, event<PendingWorkCall>,
    event<StoreBlocksCall>, event<LoadBlocksCall>,
    // tiers, on behalf of others (with NewRequestCall, LookupCall and FinishCall)
    event<StoreJobCall>,
    // primary_tier
    event<PrimaryProbed>, event<PrimaryClaimed>, event<PrimaryGranted>, event<StoreReserved>,
    event<StorePublished>, event<LeadingPinned>, event<KeysResolved>, event<PrimaryReset>,
    event<EventsTaken>, event<FenceReached>, event<PresentPinned>, event<KeysForgotten>,
    event<LookupChanged>,
    // scheduler_steps of other domains
    event<MeetPeers>, event<PauseStep>, event<StepPaused>, event<ResumeStep>, event<Fence>,
    // admission_controller
    event<CascadesDecided>, event<PromotionsDecided>, event<LookupGated>,
    // secondary_tier
    event<TierProbed>, event<RevisionChanged>, event<RequestOpened>,
    // job_tracker
    event<JobsEnded>, event<JobsDrained>,
    // the workers' hub (its thread)
    event<WorkerReport>,
    // supervisor, itself
    event<TierDown>, event<StopActor>, event<Tick>>;

/// One per domain. Owns entries and slots of the keys whose home it is.
using PrimaryTierActor = caf::typed_actor<
    // scheduler_step; cost: a few hash probes per key
    event<PrimaryProbe>, event<PrimaryClaim>, event<PrimaryGrant>, event<ReleaseHolds>,
    event<ReserveStore>, event<PublishStore>, event<PinCascades>, event<PinLeading>, event<Unpin>,
    event<TouchKeys>, event<EndRequest>, event<ResetPrimary>, event<TakeEvents>, event<PinPresent>,
    event<ForgetKeys>, event<EndClaims>,
    // job_tracker; scheduler_step for slots it gives back
    event<TransfersEnded>, event<Fence>,
    // supervisor, itself
    event<StopActor>, event<Tick>>;

/// One per engine. Owns the composite policy's state and the chunks in flight per tier.
using AdmissionControllerActor = caf::typed_actor<
    // scheduler_step; cost: one policy question per tier (cascades) or chunk (promotions)
    event<AdmitCascades>, event<AdmitPromotions>, event<Withdraw>, event<ResetAdmission>,
    event<GateLookup>, event<LookupsAnswered>, event<VerdictsGiven>, event<BelowFloor>,
    event<DeviceComputed>,
    // job_tracker
    event<AdmissionCompleted>, event<Fence>,
    // supervisor, itself
    event<TierDown>, event<StopActor>, event<Tick>>;

/// One per engine: it sees batches, never keys. Owns every job from registration to its two ends, and its deadline.
using JobTrackerActor = caf::typed_actor<
    // scheduler_step
    event<TrackJobs>, event<DrainJobs>, event<NewEpoch>, event<ForgetKeys>,
    // secondary_tier
    event<LaneReport>, event<Fence>, event<TierForgot>,
    // secondary_tier and supervisor, itself
    event<TierUp>, event<TierDown>, event<StopActor>, event<Tick>>;

/// One per secondary tier. Owns that tier's probes and its lanes' reports.
using SecondaryTierActor = caf::typed_actor<
    // scheduler_step
    event<TierProbe>, event<TakeEvents>, event<ChangeRevision>, event<Fence>, event<OpenRequest>,
    event<CloseRequest>, event<TouchKeys>,
    // job_tracker
    event<SubmitJobs>, event<CancelJob>, event<CancelQueued>, event<ForgetKeys>,
    event<TierDown>,
    // its lanes' sink (lane threads)
    event<LaneReport>, event<LaneProbed>, event<LaneForgot>, event<LaneDied>,
    // supervisor, itself
    event<StopActor>, event<Tick>>;

/// One per engine. Owns the published totals.
using EngineMetricsActor =
    caf::typed_actor<event<PublishTotals>, event<AnswerStats>, event<StopActor>>;

/// One per engine. Watches all others; a death becomes a disabled tier or the engine's failed state.
using EngineSupervisorActor = caf::typed_actor<event<StopActor>>;

}  // namespace kv_offload
