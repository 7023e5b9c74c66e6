#include "kv_offload/actors/engine_metrics_actor.hpp"

#include "kv_offload/messages/totals_sum.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace kv_offload {

EngineMetricsActor::behavior_type EngineMetricsState::make_behavior(EngineMetricsDeps deps) {
  deps_ = std::move(deps);
  stats_.tier_labels = deps_.tier_labels;
  stats_.chunk_bytes = deps_.chunk_bytes;
  stats_.tokens_per_chunk = deps_.tokens_per_chunk;
  stats_.worker_ranks = deps_.worker_ranks;
  stats_.tiers.resize(deps_.tier_labels.empty() ? 0 : deps_.tier_labels.size() - 1);
  stats_.domains.resize(deps_.domains);
  for (std::size_t d = 0; d < deps_.memory.size() && d < deps_.domains; ++d)
    stats_.domains[d].memory = deps_.memory[d];
  schedulers_.resize(deps_.domains);
  primaries_.resize(deps_.domains);
  deps_.board->put(stats_);  // a scrape before the first totals finds every series, at 0
  return {
      handled_by(this, &EngineMetricsState::publish),
      handled_by(this, &EngineMetricsState::answer),
      handled_by(this, &EngineMetricsState::stop),
  };
}

void EngineMetricsState::publish(const PublishTotals& m) {
  struct Keep {
    EngineStats& s;
    SchedulerTotals& scheduler;
    PrimaryTotals& primary;
    DomainTotals& domain;
    void operator()(const SchedulerTotals& t) const {
      scheduler = t;
      domain.scheduler_step = t.actor;
      domain.requests_started = t.requests_started;
      domain.remote_stored_chunks = t.remote_stored_chunks;
      domain.remote_loaded_chunks = t.remote_loaded_chunks;
    }
    void operator()(const TrackerTotals& t) const { s.tracker = t; }
    void operator()(const PrimaryTotals& t) const {
      primary = t;
      domain.primary_tier = t.actor;
      domain.resident = t.resident;
    }
    void operator()(const AdmissionActorTotals& t) const { s.admission = t; }
    void operator()(const TierPublished& t) const { s.tiers.at(t.tier) = t.totals; }
  };
  const bool one = deps_.domains == 1;
  std::visit(Keep{stats_, one ? stats_.scheduler : schedulers_[m.domain],
                  one ? stats_.primary : primaries_[m.domain], stats_.domains[m.domain]},
             m.totals);
  if (!one) add_up_domains();
  deps_.board->put(stats_);
}

void EngineMetricsState::add_up_domains() {
  stats_.scheduler = {};
  stats_.primary = {};
  for (const auto& totals : schedulers_) stats_.scheduler += totals;
  for (const auto& totals : primaries_) stats_.primary += totals;
}

void EngineMetricsState::answer(const AnswerStats& m) { m.reply.deliver(stats_); }

void EngineMetricsState::stop(const StopActor& m) {
  m.reply.deliver(Ok{});
  self_->quit();
}

EngineMetricsActor::behavior_type engine_metrics_actor(
    EngineMetricsActor::stateful_pointer<EngineMetricsState> self, EngineMetricsDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
