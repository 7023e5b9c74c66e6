#include "kv_offload/actors/engine_metrics_series.hpp"

// Requests and calls, jobs, admission, actors.
namespace kv_offload {
namespace {

std::vector<MetricPoint> param_faults(const EngineStats& stats) {
  std::vector<MetricPoint> points;
  for (std::size_t f = 0; f < kNumTransferParamFaults; ++f)
    points.push_back({{std::string(to_string(static_cast<TransferParamFault>(f)))},
                      static_cast<double>(stats.scheduler.transfer_param_faults[f]),
                      nullptr});
  return points;
}

std::vector<EngineSeries> request_series() {
  using S = SchedulerTotals;
  return {
      counter("kv_offload_requests_started_total", "Requests announced", "they are announced", {},
              one(&S::requests_started)),
      counter("kv_offload_requests_ended_total", "Requests ended: finished, aborted or reset",
              "they end", {}, one(&S::requests_ended)),
      gauge("kv_offload_live_requests", "requests announced and not forgotten", {},
            one(&S::requests_live)),
      gauge("kv_offload_open_calls", "lookups, reservations and cascades being resolved", {},
            one(&S::calls_open)),
      gauge("kv_offload_open_leases", "leases granted by prepare_* and not completed", {},
            one(&S::leases_open)),
      counter("kv_offload_allocation_failures_total",
              "Stores from the device that got no chunks in the primary tier",
              "prepare_store answers no_space", {}, one(&S::allocation_failures)),
      counter("kv_offload_device_stored_chunks_total", "Chunks stored from the device",
              "complete_store is called", {}, one(&S::device_stored_chunks)),
      counter("kv_offload_device_loaded_chunks_total", "Chunks loaded to the device",
              "prepare_load pins them", {}, one(&S::device_loaded_chunks)),
      counter("kv_offload_capped_store_chunks_total",
              "Chunks not stored because they lie beyond max_offload_tokens or the prompt",
              "prepare_store is called", {}, one(&S::stores_capped_chunks)),
      counter("kv_offload_capped_load_chunks_total",
              "Chunks not looked up because they lie beyond max_load_tokens", "lookup is called",
              {}, one(&S::loads_capped_chunks)),
      counter("kv_offload_transfer_param_faults_total",
              "Requests whose kv_transfer_params had an unusable part, which was treated as absent",
              "they are announced", {"part"}, param_faults),
      gauge("kv_offload_pending_promotion_chunks",
            "chunks with a slot whose promotion is submitted at the end of the step", {},
            one(&S::promotions_pending)),
      gauge("kv_offload_parked_cascade_chunks",
            "chunks that wait for a write to end before they are offered to a tier", {},
            one(&S::cascades_parked)),
      counter("kv_offload_external_requests_total", "Requests that tiers made on behalf of others",
              "they are announced", {}, one(&S::external_requests)),
      counter("kv_offload_expired_external_calls_total",
              "Calls of tiers through a handle that had been revoked", "the call comes", {},
              one(&S::external_expired)),
  };
}

std::vector<MetricPoint> untimely_results(const EngineStats& stats) {
  const TrackerTotals& t = stats.tracker;
  std::vector<MetricPoint> points;
  for (const auto& [kind, results] : {std::pair{"late", t.late_results},
                                      {"stale", t.stale_results},
                                      {"unknown", t.unknown_results}})
    points.push_back({{kind}, static_cast<double>(results), nullptr});
  return points;
}

std::vector<EngineSeries> job_series() {
  using T = TrackerTotals;
  return {
      counter("kv_offload_jobs_numbered_total", "Jobs that got an id", "the id is given", {},
              one(&SchedulerTotals::jobs_numbered)),
      counter("kv_offload_jobs_registered_total", "Jobs registered for tracking",
              "they are registered", {}, one(&T::jobs_registered)),
      counter("kv_offload_job_outcomes_total",
              "Outcomes of jobs (their first end), one per registered job", "it is given", {},
              one(&T::outcomes)),
      counter("kv_offload_jobs_quiesced_total",
              "Jobs whose I/O has ended (their second end); with the abandoned ones, one per "
              "registered job",
              "the tier says so", {}, one(&T::quiesced)),
      counter("kv_offload_jobs_abandoned_total", "Jobs whose I/O thread is gone",
              "they are given up", {}, one(&T::abandoned)),
      counter("kv_offload_job_deadlines_total", "Outcomes of jobs that the deadline gave",
              "the deadline passes", {}, one(&T::deadline_outcomes)),
      counter("kv_offload_untimely_job_results_total",
              "Job results that came after their deadline (late), after a reset (stale) or for no "
              "registered job (unknown: stays 0)",
              "the result comes", {"kind"}, untimely_results),
      gauge("kv_offload_active_jobs", "jobs registered and not quiesced", {}, one(&T::jobs_active)),
  };
}

std::vector<MetricPoint> admission_refusals(const EngineStats& stats) {
  std::vector<MetricPoint> points;
  for (std::size_t t = 0; t < num_secondary_tiers(stats); ++t)
    for (std::size_t r = 1; r < kNumRefusalReasons; ++r)
      points.push_back(
          {{stats.tier_labels[t + 1], std::string(to_string(static_cast<RefusalReason>(r)))},
           static_cast<double>(totals_of<AdmissionTierTotals>(stats, t).refused[r]),
           nullptr});
  return points;
}

bool is_unbalanced(const AdmissionActorTotals& a) { return !a.balance_violation.empty(); }

std::vector<EngineSeries> admission_series() {
  using A = AdmissionTierTotals;
  return {
      counter("kv_offload_admission_offered_chunks_total", "Chunks that admission was asked about",
              "it is asked", {"tier"}, each_tier(&A::offered)),
      counter("kv_offload_admission_admitted_chunks_total", "Chunks that admission said yes to",
              "it decides", {"tier"}, each_tier(&A::admitted)),
      counter("kv_offload_admission_refused_chunks_total", "Chunks that admission said no to",
              "it decides", {"tier", "reason"}, admission_refusals),
      counter("kv_offload_admission_completed_chunks_total",
              "Admitted chunks whose transfer has ended, well or not", "their job is quiesced",
              {"tier"}, each_tier(&A::completed)),
      counter("kv_offload_admission_withdrawn_chunks_total",
              "Admitted chunks that could not be submitted", "they are withdrawn", {"tier"},
              each_tier(&A::withdrawn)),
      counter("kv_offload_admission_erased_chunks_total", "Admitted chunks that a reset forgot",
              "the reset runs", {"tier"}, each_tier(&A::erased)),
      gauge("kv_offload_admission_inflight_chunks",
            "chunks admitted and not completed, withdrawn or erased", {"tier"},
            each_tier(&A::in_flight)),
      gauge("kv_offload_admission_open_tickets", "tickets with chunks in flight", {},
            one(&AdmissionActorTotals::tickets_open)),
      counter("kv_offload_admission_pressure_changes_total",
              "Changes after which refused promotions are asked again", "pressure changes", {},
              one(&AdmissionActorTotals::pressure_epoch)),
      counter("kv_offload_admission_stale_chunks_total",
              "Chunks that ended under tickets from before a reset", "they end", {},
              one(&AdmissionActorTotals::stale_tickets)),
      gauge("kv_offload_admission_balance_violated",
            "1 while admitted chunks differ from completed + withdrawn + erased + in flight, else "
            "0; stays 0",
            {}, one<AdmissionActorTotals>(is_unbalanced)),
  };
}

ReadPoints each_actor(std::uint64_t ActorTotals::*member) {
  return [member](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    const auto add = [&](std::string actor, const ActorTotals& totals) {
      points.push_back({{std::move(actor)}, static_cast<double>(totals.*member), nullptr});
    };
    add("scheduler_step", stats.scheduler.actor);
    add("primary_tier", stats.primary.actor);
    add("admission_controller", stats.admission.actor);
    add("job_tracker", stats.tracker.actor);
    for (std::size_t t = 0; t < num_secondary_tiers(stats); ++t)
      add("secondary_tier[" + stats.tier_labels[t + 1] + "]", at_or_zero(stats.tiers, t).actor);
    add("engine_metrics", stats.metrics);
    add("engine_supervisor", stats.supervisor);
    return points;
  };
}

std::vector<EngineSeries> actor_series() {
  return {
      counter("kv_offload_actor_messages_total", "Messages that the actor handled",
              "it handles them", {"actor"}, each_actor(&ActorTotals::messages)),
      counter("kv_offload_actor_foreign_executions_total",
              "Messages handled outside the actor's domain (stays 0)", "it handles them", {"actor"},
              each_actor(&ActorTotals::foreign_executions)),
  };
}

}  // namespace

std::vector<EngineSeries> work_series() {
  std::vector<EngineSeries> table = request_series();
  for (auto part : {job_series, admission_series, actor_series})
    for (auto& row : part()) table.push_back(std::move(row));
  return table;
}

}  // namespace kv_offload
