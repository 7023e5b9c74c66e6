#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/messages/pending.hpp"
#include "kv_offload/messages/protocol/primary_messages.hpp"

#include <caf/actor_control_block.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kv_offload {

/// Every owner's own clock beat: deadlines are swept and totals published by it.
struct Tick {
  static constexpr std::string_view kName = "Tick";
};

/// Travels the way results travel (tier → tracker → primary, admission → step), so that whoever gets
/// it back knows that all results before it are applied. With `publish` each actor sends its totals first.
struct Fence {
  static constexpr std::string_view kName = "Fence";
  OpId op = 0;
  caf::strong_actor_ptr step;  ///< who gets FenceReached, from every primary and from admission
  bool publish = false;
  std::uint32_t expected = 0;  ///< how many copies reach the tracker before it passes one on
};
struct FenceReached {
  static constexpr std::string_view kName = "FenceReached";
  OpId op = 0;
};

// -- scheduler_step ↔ scheduler_step, with several domains ---------------------------------------------

/// Start-up wiring, sent to the step of domain 0 before any call: it leads what concerns the whole engine.
struct MeetPeers {
  static constexpr std::string_view kName = "MeetPeers";
  std::vector<caf::strong_actor_ptr> peers;
};
/// A reset begins: waits end, no work starts until ResumeStep. Answered when no flow can become a job any more.
struct PauseStep {
  static constexpr std::string_view kName = "PauseStep";
  OpId op = 0;
  MonotonicTime deadline;
};
struct StepPaused {
  static constexpr std::string_view kName = "StepPaused";
  OpId op = 0;
};
struct ResumeStep {
  static constexpr std::string_view kName = "ResumeStep";
  Epoch epoch = 0;
};

/// Forgets `keys`, or everything of one tenant. scheduler_step → primary_tier, and → tracker → every tier:
/// behind the jobs that may still store what is to be forgotten.
struct ForgetKeys {
  static constexpr std::string_view kName = "ForgetKeys";
  OpId op = 0;
  caf::strong_actor_ptr step;  ///< who gets KeysForgotten
  SharedKeys keys;
  std::optional<std::uint64_t> tenant_salt;
};
struct KeysForgotten {
  static constexpr std::string_view kName = "KeysForgotten";
  OpId op = 0;
  std::uint32_t source = 0;  ///< 0 primary, 1+t tier t
  std::uint64_t chunks = 0;
  std::string error;         ///< empty: done
};

/// A tier's answer on its way through the tracker, so that it arrives behind the ends of its jobs.
struct TierForgot {
  static constexpr std::string_view kName = "TierForgot";
  caf::strong_actor_ptr step;
  KeysForgotten answer;
};

struct TakeEvents {
  static constexpr std::string_view kName = "TakeEvents";
  OpId op = 0;
};
struct EventsTaken {
  static constexpr std::string_view kName = "EventsTaken";
  OpId op = 0;
  std::uint32_t source = 0;  ///< 0 primary, 1+t tier t
  std::vector<OffloadingEvent> events;
};

/// Cumulative totals of one actor; the newest replaces the one before.
struct TierPublished {
  TierIndex tier = 0;
  TierActorTotals totals;
};
struct PublishTotals {
  static constexpr std::string_view kName = "PublishTotals";
  std::variant<SchedulerTotals, TrackerTotals, PrimaryTotals, AdmissionActorTotals, TierPublished> totals;
  DomainId domain = 0;  ///< of a scheduler_step or primary_tier
};
struct AnswerStats {
  static constexpr std::string_view kName = "AnswerStats";
  Reply<EngineStats> reply;
};

/// Last message of an actor: it answers and quits. With `failure`, the engine is in that failed state and
/// open calls are answered with it.
struct StopActor {
  static constexpr std::string_view kName = "StopActor";
  Reply<Ok> reply;
  std::string failure = {};
};

}  // namespace kv_offload
