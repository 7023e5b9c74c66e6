#pragma once

#include "kv_offload/messages/engine_stats.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kv_offload {

/// Totals of one kind of actor over several domains. What is of the whole engine (the workers' hub, calls through
/// revoked handles) is published by domain 0 alone, so that it can be added, too.

inline Histogram& operator+=(Histogram& sum, const Histogram& o) {
  if (sum.counts.empty()) return sum = o;
  for (std::size_t i = 0; i < std::min(sum.counts.size(), o.counts.size()); ++i)
    sum.counts[i] += o.counts[i];
  sum.sum += o.sum;
  return sum;
}

inline ActorTotals& operator+=(ActorTotals& sum, const ActorTotals& o) {
  sum.messages += o.messages;
  sum.foreign_executions += o.foreign_executions;
  return sum;
}

namespace totals_sum_detail {

template <class List>
void add_each(List& sum, const List& o) {
  if constexpr (requires { sum.resize(o.size()); })
    if (sum.size() < o.size()) sum.resize(o.size());
  for (std::size_t i = 0; i < o.size(); ++i) sum[i] += o[i];
}

}  // namespace totals_sum_detail

inline LookupTotals& operator+=(LookupTotals& sum, const LookupTotals& o) {
  sum.looked_up += o.looked_up;
  sum.hit += o.hit;
  sum.miss += o.miss;
  totals_sum_detail::add_each(sum.gave_up, o.gave_up);
  sum.chunk_queries += o.chunk_queries;
  sum.chunk_hits += o.chunk_hits;
  sum.sync_delay += o.sync_delay;
  sum.async_delay += o.async_delay;
  return sum;
}

inline OfferTotals& operator+=(OfferTotals& sum, const OfferTotals& o) {
  sum.cascades_offered += o.cascades_offered;
  totals_sum_detail::add_each(sum.cascades_refused, o.cascades_refused);
  totals_sum_detail::add_each(sum.cascades_dropped, o.cascades_dropped);
  sum.cascade_jobs_refused += o.cascade_jobs_refused;
  sum.promotions_refused_once += o.promotions_refused_once;
  sum.promotions_offered += o.promotions_offered;
  totals_sum_detail::add_each(sum.promotions_refused, o.promotions_refused);
  totals_sum_detail::add_each(sum.promotions_dropped, o.promotions_dropped);
  return sum;
}

inline CopyTotals& operator+=(CopyTotals& sum, const CopyTotals& o) {
  sum.started += o.started;
  sum.succeeded += o.succeeded;
  sum.failed += o.failed;
  sum.open += o.open;
  sum.bytes += o.bytes;
  sum.time_s += o.time_s;
  sum.size += o.size;
  return sum;
}

inline SchedulerTotals& operator+=(SchedulerTotals& sum, const SchedulerTotals& o) {
  sum.actor += o.actor;
  totals_sum_detail::add_each(sum.lookups, o.lookups);
  totals_sum_detail::add_each(sum.offers, o.offers);
  sum.requests_started += o.requests_started;
  sum.requests_ended += o.requests_ended;
  sum.requests_live += o.requests_live;
  sum.calls_open += o.calls_open;
  sum.leases_open += o.leases_open;
  sum.jobs_numbered += o.jobs_numbered;
  sum.allocation_failures += o.allocation_failures;
  sum.promotion_allocation_failures += o.promotion_allocation_failures;
  sum.device_stored_chunks += o.device_stored_chunks;
  sum.device_loaded_chunks += o.device_loaded_chunks;
  sum.stores_capped_chunks += o.stores_capped_chunks;
  sum.loads_capped_chunks += o.loads_capped_chunks;
  totals_sum_detail::add_each(sum.transfer_param_faults, o.transfer_param_faults);
  sum.promotions_pending += o.promotions_pending;
  sum.cascades_parked += o.cascades_parked;
  sum.external_requests += o.external_requests;
  sum.external_expired += o.external_expired;
  sum.forgotten_chunks += o.forgotten_chunks;
  sum.remote_stored_chunks += o.remote_stored_chunks;
  sum.remote_loaded_chunks += o.remote_loaded_chunks;
  sum.store_copies += o.store_copies;
  sum.load_copies += o.load_copies;
  if (!o.workers.ranks.empty()) sum.workers = o.workers;
  return sum;
}

inline PrimaryTotals& operator+=(PrimaryTotals& sum, const PrimaryTotals& o) {
  sum.actor += o.actor;
  sum.num_chunks += o.num_chunks;
  sum.resident += o.resident;
  sum.free += o.free;
  sum.evictable += o.evictable;
  sum.write_pending += o.write_pending;
  sum.pinned += o.pinned;
  sum.held += o.held;
  sum.quarantined += o.quarantined;
  sum.pins_open += o.pins_open;
  sum.holds_open += o.holds_open;
  sum.pins_abandoned += o.pins_abandoned;
  sum.waiters += o.waiters;
  sum.claims += o.claims;
  sum.evictions += o.evictions;
  sum.holds_refused += o.holds_refused;
  sum.events_dropped += o.events_dropped;
  sum.promoted += o.promoted;
  sum.promoted_evicted_unread += o.promoted_evicted_unread;
  sum.pins_expired_unread += o.pins_expired_unread;
  sum.stores_skipped += o.stores_skipped;
  sum.reuse_tracked += o.reuse_tracked;
  sum.reused_in_use += o.reused_in_use;
  if (sum.identity_violation.empty()) sum.identity_violation = o.identity_violation;
  sum.allocation_size += o.allocation_size;
  return sum;
}

}  // namespace kv_offload
