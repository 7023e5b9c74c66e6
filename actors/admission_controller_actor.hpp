#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

namespace kv_offload {

/// How admission's state outlives the engine. Without the functions it does not.
struct AdmissionKeeping {
  std::function<std::int64_t()> unix_ms;         ///< time of day
  std::function<void(std::string text)> keep;    ///< takes the newest state; must not block
  std::string kept;                              ///< of the life before; empty: there was none
  Duration every = std::chrono::seconds(5);      ///< a crash loses what was written since
  std::function<std::string()> keep_aside =
      {};  ///< `kept` is damaged; answers where it will be found
};

struct AdmissionControllerDeps {
  SharedEnvironment env;
  std::shared_ptr<AdmissionLedger> ledger;  ///< handed over: nobody else may touch it
  EngineMetricsActor metrics;
  std::vector<std::string> tier_labels = {};  ///< by TierIndex
  AdmissionKeeping keeping = {};
};

/// Applies the composite policy. Asking and counting happen in one handler, so that they cannot drift
/// apart; all arithmetic is the ledger's.
class AdmissionControllerState {
 public:
  static inline const char* name = "kv_offload.admission_controller";
  explicit AdmissionControllerState(AdmissionControllerActor::pointer self) : self_(self) {}
  AdmissionControllerActor::behavior_type make_behavior(AdmissionControllerDeps deps);

  ActorTotals& actor_totals() { return totals_.actor; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }

 private:
  void admit_cascades(const AdmitCascades& m);
  void admit_promotions(const AdmitPromotions& m);
  void withdraw(const Withdraw& m);
  void gate_lookup(const GateLookup& m);
  void lookups_answered(const LookupsAnswered& m);
  void verdicts_given(const VerdictsGiven& m);
  void below_floor(const BelowFloor& m);
  void device_computed(const DeviceComputed& m);
  void completed(const AdmissionCompleted& m);
  void reset(const ResetAdmission& m);
  void tier_down(const TierDown& m);
  void fence(const Fence& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);
  void publish_totals();
  void publish_flows();
  void publish_decisions();
  [[nodiscard]] SchedulerStepActor sender() const;
  [[nodiscard]] std::string label_of(TierIndex tier) const;

  // -- what the decision log does not know --
  void note_decision(TierIndex tier, bool is_promotion);
  void count_refusal(std::string_view policy, TierIndex tier, bool is_promotion,
                     std::uint64_t chunks);

  void restore_state();
  /// Hands the state over if something was admitted or ended since, at most every `keeping.every`
  /// unless it is the last time.
  void keep_state(bool is_last);

  /// Beside a record of the decision log, at the same place modulo its capacity.
  struct Note {
    std::uint64_t in_flight_chunks = 0;
    std::shared_ptr<const std::string> numbers;
  };
  struct Refusals {
    std::uint64_t decisions = 0, chunks = 0;
  };

  AdmissionControllerActor::pointer self_;
  AdmissionControllerDeps deps_;
  AdmissionActorTotals totals_;
  std::vector<Note> notes_ = std::vector<Note>(DecisionLog::kCapacity);
  std::uint64_t num_noted_ = 0;      // as many as the log has records
  std::uint64_t num_published_ = 0;  // of them, with their numbers
  std::map<std::tuple<std::string_view, TierIndex, bool>, Refusals> refusals_;
  std::uint64_t kept_moves_ = 0;
  MonotonicTime keep_at_;
};

AdmissionControllerActor::behavior_type admission_controller_actor(
    AdmissionControllerActor::stateful_pointer<AdmissionControllerState> self, AdmissionControllerDeps deps);

}  // namespace kv_offload
