#pragma once

#include <memory>

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

namespace kv_offload {

struct AdmissionControllerDeps {
  SharedEnvironment env;
  std::shared_ptr<AdmissionLedger> ledger;  ///< handed over: nobody else may touch it
  EngineMetricsActor metrics;
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
  void completed(const AdmissionCompleted& m);
  void reset(const ResetAdmission& m);
  void tier_down(const TierDown& m);
  void fence(const Fence& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);
  void publish_totals();
  [[nodiscard]] SchedulerStepActor sender() const;

  AdmissionControllerActor::pointer self_;
  AdmissionControllerDeps deps_;
  AdmissionActorTotals totals_;
};

AdmissionControllerActor::behavior_type admission_controller_actor(
    AdmissionControllerActor::stateful_pointer<AdmissionControllerState> self, AdmissionControllerDeps deps);

}  // namespace kv_offload
