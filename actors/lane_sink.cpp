#include "kv_offload/actors/lane_sink.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace kv_offload {

void LaneSink::open(SecondaryTierActor actor) {
  const std::scoped_lock lock(mutex_);
  actor_ = std::move(actor);
}

void LaneSink::close() {
  const std::scoped_lock lock(mutex_);
  actor_ = nullptr;
  kept_.reset();
}

void LaneSink::flush() {
  const std::scoped_lock lock(mutex_);
  flush_locked();
}

void LaneSink::flush_locked() {
  if (!kept_ || !actor_) return;
  LaneReport report{tier_, {}, {}};
  report.outcomes.push_back(std::move(*kept_));
  kept_.reset();
  caf::anon_send(actor_, std::move(report));
}

void LaneSink::probed(ProbeId probe, std::vector<LookupResult> verdicts) {
  const std::scoped_lock lock(mutex_);
  if (actor_) caf::anon_send(actor_, LaneProbed{probe, std::move(verdicts)});
}

void LaneSink::job_outcome(JobResult result) {
  const std::scoped_lock lock(mutex_);
  flush_locked();
  if (actor_) kept_ = std::move(result);
}

void LaneSink::job_quiesced(JobId job) {
  const std::scoped_lock lock(mutex_);
  if (!actor_) return;
  LaneReport report{tier_, {}, {job}};
  if (kept_) {
    report.outcomes.push_back(std::move(*kept_));
    kept_.reset();
  }
  caf::anon_send(actor_, std::move(report));
}

void LaneSink::forgot(ForgetId forget, std::uint64_t chunks, std::string error) {
  const std::scoped_lock lock(mutex_);
  if (actor_) caf::anon_send(actor_, LaneForgot{forget, chunks, std::move(error)});
}

void LaneSink::lane_died(std::string why) {
  const std::scoped_lock lock(mutex_);
  if (actor_) caf::anon_send(actor_, LaneDied{std::move(why)});
}

}  // namespace kv_offload
