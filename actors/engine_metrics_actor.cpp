#include "kv_offload/actors/engine_metrics_actor.hpp"

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
    void operator()(const SchedulerTotals& t) const { s.scheduler = t; }
    void operator()(const TrackerTotals& t) const { s.tracker = t; }
    void operator()(const PrimaryTotals& t) const { s.primary = t; }
    void operator()(const AdmissionActorTotals& t) const { s.admission = t; }
    void operator()(const TierPublished& t) const { s.tiers.at(t.tier) = t.totals; }
  };
  std::visit(Keep{stats_}, m.totals);
  deps_.board->put(stats_);
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
