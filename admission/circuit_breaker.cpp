#include "kv_offload/admission/circuit_breaker.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {
namespace {

/// Does the failure speak of the tier's health?
bool is_of_the_tier(TransferFailure failure) {
  switch (failure) {
    case TransferFailure::none:  // failed, of unknown kind
    case TransferFailure::io_error:
    case TransferFailure::corrupt:
    case TransferFailure::no_space:
    case TransferFailure::deadline:
    case TransferFailure::lane_dead: return true;
    case TransferFailure::not_found:
    case TransferFailure::foreign:
    case TransferFailure::cancelled:
    case TransferFailure::stale_slot: return false;
  }
  return true;
}

}  // namespace

CircuitBreaker::CircuitBreaker(const CircuitBreakerOptions& options,
                               AdmissionEnvironment environment)
    : options_(options), environment_(std::move(environment)), sides_(fresh_sides()) {}

std::vector<CircuitBreaker::Side> CircuitBreaker::fresh_sides() const {
  std::vector<Side> sides;
  for (std::size_t i = 0; i < environment_.tiers.size(); ++i) {
    sides.emplace_back(options_.cascades);
    sides.emplace_back(options_.promotions);
  }
  return sides;
}

bool CircuitBreaker::passes(const JobMetadata& job, MonotonicTime now) const {
  const std::size_t index = side_of(job.tier, job.is_promotion);
  if (index >= sides_.size()) return true;
  const Side& side = sides_[index];
  if (side.breaker.admits(side.probes_in_flight, now)) return true;
  // Further chunks of a probe that is in flight are no further job.
  if (side.breaker.state(now) != BreakerState::half_open) return false;
  const auto it = flights_.find(job.ticket);
  return it != flights_.end() && it->second.is_probe &&
         it->second.episode == side.breaker.episode();
}

RefusalReason CircuitBreaker::should_admit(const JobMetadata& job, MonotonicTime now) const {
  if (options_.mode != GateMode::enforce || passes(job, now)) return RefusalReason::none;
  return RefusalReason::circuit_breaker;
}

void CircuitBreaker::on_admitted(const JobMetadata& job, MonotonicTime now) {
  const std::size_t index = side_of(job.tier, job.is_promotion);
  if (index >= sides_.size() || job.num_chunks == 0) return;
  Side& side = sides_[index];
  const bool passed = passes(job, now);
  if (!passed && options_.mode == GateMode::observe) ++side.would_refuse_jobs;
  const auto [it, is_new] = flights_.try_emplace(job.ticket);
  Flight& flight = it->second;
  flight.chunks += job.num_chunks;
  chunks_ += job.num_chunks;
  if (!is_new) return;
  flight.side = index;
  flight.is_probe = passed && side.breaker.state(now) == BreakerState::half_open;
  flight.episode = side.breaker.episode();
  if (flight.is_probe) ++side.probes_in_flight;
}

void CircuitBreaker::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                                MonotonicTime /*now*/) {
  const std::size_t index = side_of(job.tier, job.is_promotion);
  if (refuser == this && index < sides_.size()) ++sides_[index].refused_jobs;
}

void CircuitBreaker::count(const Flight& flight, bool success, MonotonicTime now) {
  Breaker& breaker = sides_[flight.side].breaker;
  if (flight.is_probe)
    breaker.on_probe_result(flight.episode, success, now);
  else
    breaker.on_result(success, now);
}

void CircuitBreaker::on_completed(const JobMetadata& job, const CompletedTransfer& result,
                                  MonotonicTime now) {
  const auto it = flights_.find(job.ticket);
  if (it == flights_.end() || job.num_chunks == 0) return;
  Flight& flight = it->second;
  // Chunks whose deadline passed have been counted; so is a job that is made of them alone.
  const std::uint32_t known = std::min(flight.overdue, job.num_chunks);
  flight.overdue -= known;
  if (known < job.num_chunks && (result.success || is_of_the_tier(result.failure)))
    count(flight, result.success, now);
  end(job);
}

void CircuitBreaker::on_overdue(const JobMetadata& job, MonotonicTime now) {
  const auto it = flights_.find(job.ticket);
  if (it == flights_.end() || job.num_chunks == 0) return;
  Flight& flight = it->second;
  const std::uint32_t before =
      std::exchange(flight.overdue, std::min(flight.chunks, flight.overdue + job.num_chunks));
  if (flight.overdue > before) count(flight, false, now);
}

void CircuitBreaker::on_withdrawn(const JobMetadata& job, MonotonicTime /*now*/) { end(job); }

void CircuitBreaker::end(const JobMetadata& job) {
  const auto it = flights_.find(job.ticket);
  if (it == flights_.end()) return;
  Flight& flight = it->second;
  const std::uint32_t ended = std::min(flight.chunks, job.num_chunks);
  flight.chunks -= ended;
  flight.overdue = std::min(flight.overdue, flight.chunks);
  chunks_ -= ended;
  if (flight.chunks > 0) return;
  if (flight.is_probe) --sides_[flight.side].probes_in_flight;
  flights_.erase(it);
}

void CircuitBreaker::reset() {
  sides_ = fresh_sides();
  flights_.clear();
  chunks_ = 0;
}

std::int64_t CircuitBreaker::in_flight_chunks() const { return static_cast<std::int64_t>(chunks_); }

}  // namespace kv_offload
