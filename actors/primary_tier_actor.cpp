#include "kv_offload/actors/primary_tier_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace kv_offload {
namespace {

Histogram to_histogram(const AllocationSizes& sizes) {
  Histogram h(std::vector<double>(AllocationSizes::kBuckets.begin(), AllocationSizes::kBuckets.end()));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < AllocationSizes::kBuckets.size(); ++i) {
    h.counts[i] = sizes.cumulative()[i] - below;
    below = sizes.cumulative()[i];
  }
  h.counts.back() = sizes.count() - below;
  h.sum = static_cast<double>(sizes.sum());
  return h;
}

}  // namespace

PrimaryTierActor::behavior_type PrimaryTierState::make_behavior(PrimaryTierDeps deps) {
  deps_ = std::move(deps);
  if (deps_.env->enter_domain) deps_.env->enter_domain(deps_.domain, name);
  reuse_ = ReuseTracker(deps_.store_threshold, deps_.max_tracker_size);
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  // In the order in which CAF tries them: what every request has comes first.
  return {
      handled_by(this, &PrimaryTierState::probe),
      handled_by(this, &PrimaryTierState::end_request),
      handled_by(this, &PrimaryTierState::touch),
      handled_by(this, &PrimaryTierState::pin_leading),
      handled_by(this, &PrimaryTierState::unpin),
      handled_by(this, &PrimaryTierState::reserve_store),
      handled_by(this, &PrimaryTierState::publish_store),
      handled_by(this, &PrimaryTierState::pin_cascades),
      handled_by(this, &PrimaryTierState::transfers_ended),
      handled_by(this, &PrimaryTierState::claim),
      handled_by(this, &PrimaryTierState::grant),
      handled_by(this, &PrimaryTierState::release_holds),
      handled_by(this, &PrimaryTierState::reset),
      handled_by(this, &PrimaryTierState::take_events),
      handled_by(this, &PrimaryTierState::pin_present),
      handled_by(this, &PrimaryTierState::forget),
      handled_by(this, &PrimaryTierState::end_claims),
      handled_by(this, &PrimaryTierState::fence),
      handled_by(this, &PrimaryTierState::stop),
      handled_by(this, &PrimaryTierState::tick),
  };
}

SchedulerStepActor PrimaryTierState::sender() const {
  return caf::actor_cast<SchedulerStepActor>(self_->current_sender());
}

// -- lookup ------------------------------------------------------------------------------------------

std::span<const OffloadKey> PrimaryTierState::keys_of(const KeyList& keys,
                                                      const KeyIdxList& key_idx, std::size_t from) {
  if (key_idx.empty()) return std::span(keys).subspan(from);
  keys_.clear();
  for (const auto i : key_idx) keys_.push_back(keys[i]);
  return keys_;
}

void PrimaryTierState::probe(const PrimaryProbe& m) {
  const auto started = self_->clock().now();
  const auto step = sender();
  const auto keys = keys_of(*m.keys, m.key_idx, m.from);
  PrimaryProbed answer{m.op, {}, 0, {}};
  answer.states.reserve(keys.size());
  deps_.cache->find_all(keys, found_);
  // Once for all that will be held; a lookup that finds nothing makes no table.
  const auto num_ready = std::count_if(found_.begin(), found_.end(),
                                       [](const auto& found) { return found.state == ChunkState::ready; });
  RequestHolds* held = nullptr;
  if (m.hold && num_ready > 0) {
    held = &holds_[m.request];
    held->reserve(static_cast<std::size_t>(num_ready));
  }
  for (std::size_t at = 0; at < keys.size(); ++at) {
    const auto& key = keys[at];
    const auto found = found_[at];
    reuse_.count(key);
    if (found.state == ChunkState::ready) {
      answer.states.push_back(LookupResult::hit);
      if (held != nullptr && !hold_in(*held, m.request, found.chunk, false)) ++answer.unheld;
    } else if (found.state == ChunkState::writing || flights_.contains(key)) {
      answer.states.push_back(LookupResult::hit_pending);
      const auto key_idx =
          m.key_idx.empty() ? static_cast<std::uint32_t>(m.from + at) : m.key_idx[at];
      if (m.join) join(key, Waiter{step, m.op, key_idx, m.request, m.hold});
    } else {
      answer.states.push_back(LookupResult::miss);
      if (m.stop_at_miss) break;
    }
  }
  if (held != nullptr && held->empty()) holds_.erase(m.request);
  if (m.watch) answer.watched = watch(m, answer, keys);
  answer.handler_time = self_->clock().now() - started;
  self_->send(step, std::move(answer));
}

void PrimaryTierState::claim(const PrimaryClaim& m) {
  const auto step = sender();
  PrimaryClaimed answer{m.op, {}};
  answer.states.reserve(m.key_idx.size());
  for (const auto i : m.key_idx) {
    const auto& key = (*m.keys)[i];
    const auto found = deps_.cache->find(key);
    if (found.state == ChunkState::ready) {
      answer.states.push_back(ClaimState::present);
      if (m.hold) hold_for(m.request, found.chunk, false);
    } else if (found.state == ChunkState::writing || flights_.contains(key)) {
      answer.states.push_back(ClaimState::joined);
      if (m.join) join(key, Waiter{step, m.op, i, m.request, m.hold});
    } else {
      answer.states.push_back(ClaimState::claimed);
      key_changed(key);
      flights_.try_emplace(key);
    }
  }
  self_->send(step, std::move(answer));
}

void PrimaryTierState::release_holds(const ReleaseHolds& m) {
  for (const auto i : m.key_idx) {
    const auto found = deps_.cache->find((*m.keys)[i]);
    if (found.state != ChunkState::absent) drop_hold(m.request, found.chunk);
  }
  serve_waiting_grants();
}

// -- store --------------------------------------------------------------------------------------------

void PrimaryTierState::reserve_store(const ReserveStore& m) {
  StoreReserved answer;
  answer.op = m.op;
  const auto keys = keys_of(*m.keys, m.key_idx);
  KeyIdxList worth;
  KeyList worth_keys;
  if (reuse_.is_active()) {
    worth = worth_storing(keys);
    for (const auto i : worth) worth_keys.push_back(keys[i]);
  }
  if (auto reserved = deps_.cache->reserve_store(
          reuse_.is_active() ? std::span<const OffloadKey>(worth_keys) : keys, near(m.request))) {
    answer.ok = true;
    answer.key_idx = std::move(reserved->key_idx);
    if (reuse_.is_active())
      for (auto& i : answer.key_idx) i = worth[i];
    answer.chunk_ids = std::move(reserved->chunks);
    answer.evicted = reserved->evicted;
    answer.generations.reserve(answer.chunk_ids.size());
    for (const auto i : answer.key_idx) key_changed(keys[i]);
    for (const auto chunk : answer.chunk_ids) {
      deps_.view.begin_use(chunk);
      answer.generations.push_back(deps_.cache->generation(chunk));
    }
    if (!m.key_idx.empty())
      for (auto& i : answer.key_idx) i = m.key_idx[i];
  }
  self_->send(sender(), std::move(answer));
}

KeyIdxList PrimaryTierState::worth_storing(std::span<const OffloadKey> keys) {
  KeyIdxList worth;
  for (std::uint32_t i = 0; i < keys.size(); ++i)
    if (reuse_.is_worth_storing(keys[i])) worth.push_back(i);
  totals_.stores_skipped += keys.size() - worth.size();
  return worth;
}

void PrimaryTierState::publish_store(const PublishStore& m) {
  const auto step = sender();
  for (const auto chunk : m.chunk_ids) deps_.view.end_use(chunk);
  if (m.epoch != epoch_) {
    // A reset came between: the bytes belong to nobody, the slots were quarantined for this lease.
    for (const auto chunk : m.chunk_ids) deps_.cache->release_quarantined(chunk);
    self_->send(step, StorePublished{m.op, 0, {}});
    return;
  }
  Resolutions resolutions;
  StorePublished answer{m.op, 0, {}};
  if (m.success) {
    std::vector<ChunkId> published, forgotten;
    published.reserve(m.chunk_ids.size());
    for (std::uint32_t i = 0; i < m.chunk_ids.size(); ++i) {
      const bool was_forgotten = deps_.cache->is_detached(m.chunk_ids[i]);
      (was_forgotten ? forgotten : published).push_back(m.chunk_ids[i]);
      if (was_forgotten) answer.forgotten.push_back(i);
    }
    deps_.cache->drop_writing(forgotten, false);
    deps_.cache->publish(published);
    if (m.hold)
      for (const auto chunk : published) deps_.cache->pin(chunk);
    totals_.pins_open += m.hold ? published.size() : 0;
    answer.published = static_cast<std::uint32_t>(published.size());
    for (const auto chunk : published)
      resolve_flight(deps_.cache->key_of(chunk), chunk, false, ResolveFailure::none, 0, resolutions);
  } else {
    for (const auto chunk : m.chunk_ids)
      resolve_flight(deps_.cache->key_of(chunk), kNoChunk, false, ResolveFailure::store_failed, 0,
                     resolutions);
    deps_.cache->drop_writing(m.chunk_ids, false);
  }
  self_->send(step, std::move(answer));
  tell(resolutions);
  serve_waiting_grants();
}

void PrimaryTierState::pin_present(const PinPresent& m) {
  const auto step = sender();
  PresentPinned answer;
  answer.op = m.op;
  for (const auto i : m.key_idx) {
    const auto& key = (*m.keys)[i];
    const auto found = deps_.cache->find(key);
    if (found.state == ChunkState::absent) {
      answer.absent.push_back(i);
    } else if (found.state == ChunkState::writing) {
      answer.writing.push_back(i);
      if (m.join) join(key, Waiter{step, m.op, i, kNoRequest, false});
    } else {
      deps_.cache->pin(found.chunk);
      ++totals_.pins_open;
      answer.pinned.push_back(i);
      answer.chunk_ids.push_back(found.chunk);
      answer.generations.push_back(deps_.cache->generation(found.chunk));
    }
  }
  self_->send(step, std::move(answer));
}

void PrimaryTierState::pin_cascades(const PinCascades& m) {
  if (m.epoch != epoch_) return;  // the reset took the hold away
  for (const auto chunk : m.chunk_ids) {
    if (m.pins_per_chunk == 0) {
      deps_.cache->unpin(chunk);
      --totals_.pins_open;
    }
    for (std::uint32_t n = 1; n < m.pins_per_chunk; ++n) {
      deps_.cache->pin(chunk);
      ++totals_.pins_open;
    }
  }
  serve_waiting_grants();
}

// -- load ---------------------------------------------------------------------------------------------

void PrimaryTierState::pin_leading(const PinLeading& m) {
  LeadingPinned answer{m.op, {}};
  deps_.cache->find_all(keys_of(*m.keys, m.key_idx), found_);
  std::size_t leading = 0;
  while (leading < found_.size() && found_[leading].state == ChunkState::ready) ++leading;
  if (m.key_idx.empty()) leading = deps_.atomic_groups.complete_prefix(*m.keys, leading);
  answer.chunk_ids.reserve(leading);
  for (std::size_t i = 0; i < leading; ++i) {
    const auto chunk = found_[i].chunk;
    deps_.cache->pin(chunk);
    ++totals_.pins_open;
    deps_.view.begin_use(chunk);
    drop_hold(m.request, chunk);
    answer.chunk_ids.push_back(chunk);
  }
  self_->send(sender(), std::move(answer));
  serve_waiting_grants();  // what was unread is being read
}

void PrimaryTierState::unpin(const Unpin& m) {
  for (const auto chunk : m.chunk_ids) {
    deps_.view.end_use(chunk);
    if (m.epoch != epoch_) {
      deps_.cache->release_quarantined(chunk);
      continue;
    }
    deps_.cache->unpin(chunk);
    --totals_.pins_open;
  }
  serve_waiting_grants();
}

void PrimaryTierState::touch(const TouchKeys& m) {
  deps_.cache->touch(keys_of(*m.keys, m.key_idx));
}

// -- requests, reset, events ------------------------------------------------------------------------------

void PrimaryTierState::end_request(const EndRequest& m) {
  unwatch(m.request);
  if (const auto it = holds_.find(m.request); it != holds_.end()) {
    auto held = std::move(it->second);
    holds_.erase(it);
    for (const auto& hold : std::move(held).take_in_slot_order()) {
      if (deps_.cache->generation(hold.chunk) != hold.generation) continue;
      deps_.cache->release_hold(hold.chunk);
      --totals_.holds_open;
      if (hold.unread) unread_hold_ended(hold.chunk);
    }
  }
  end_waiting_grants([&](const PrimaryGrant& grant) { return grant.request == m.request; });
  serve_waiting_grants();
  if (waits_.erase(m.request) == 0) return;
  for (auto& [key, flight] : flights_)
    std::erase_if(flight.waiters, [&](const Waiter& w) {
      if (w.request != m.request) return false;
      --totals_.waiters;
      return true;
    });
}

void PrimaryTierState::end_claims(const EndClaims& m) {
  Resolutions resolutions;
  for (const auto i : m.key_idx)
    resolve_flight((*m.keys)[i], kNoChunk, false, m.failure, 0, resolutions);
  tell(resolutions);
}

bool PrimaryTierState::forget_key(const OffloadKey& key, Resolutions& resolutions) {
  const auto state = deps_.cache->forget(key);
  // Whoever waits for its bytes must not get them. A claim that has no slot yet goes on: it began after.
  if (state == ChunkState::writing)
    resolve_flight(key, kNoChunk, false, ResolveFailure::forgotten, 0, resolutions);
  return state != ChunkState::absent;
}

void PrimaryTierState::forget(const ForgetKeys& m) {
  Resolutions resolutions;
  KeysForgotten answer{m.op, 0, 0, {}};
  if (m.keys)
    for (const auto& key : *m.keys) answer.chunks += forget_key(key, resolutions) ? 1U : 0U;
  const auto& slots = deps_.cache->limits();
  if (m.tenant_salt)
    for (ChunkId chunk = slots.first_chunk; chunk < slots.first_chunk + slots.num_chunks; ++chunk)
      if (const auto key = deps_.cache->key_of(chunk); key.has_salt(*m.tenant_salt))
        answer.chunks += forget_key(key, resolutions) ? 1U : 0U;
  self_->send(caf::actor_cast<SchedulerStepActor>(m.step), std::move(answer));
  tell(resolutions);
  serve_waiting_grants();
}

void PrimaryTierState::reset(const ResetPrimary& m) {
  for (const auto chunk : m.busy_chunks) deps_.view.begin_use(chunk);
  end_waiting_grants([](const PrimaryGrant&) { return true; });
  deps_.cache->reset();
  epoch_ = m.epoch;
  flights_.clear();
  holds_.clear();
  waits_.clear();
  unread_holders_.clear();
  unread_expiries_.clear();
  outcome_pins_.clear();
  watches_.clear();
  watched_.clear();
  watched_keys_ = 0;
  promotions_reserved_ = 0;
  totals_.waiters = 0;
  totals_.holds_open = 0;
  totals_.pins_open = 0;
  totals_.pins_abandoned = 0;
  self_->send(sender(), PrimaryReset{m.op});
}

void PrimaryTierState::take_events(const TakeEvents& m) {
  self_->send(sender(), EventsTaken{m.op, 0, deps_.cache->take_events()});
}

void PrimaryTierState::fence(const Fence& m) {
  if (m.publish) publish_totals();
  self_->send(caf::actor_cast<SchedulerStepActor>(m.step), FenceReached{m.op});
}

void PrimaryTierState::stop(const StopActor& m) {
  publish_totals();
  m.reply.deliver(Ok{});
  self_->quit();
}

void PrimaryTierState::tick(const Tick&) {
  expire_unread(self_->clock().now());
  deps_.cache->reclaim_quarantined();
  serve_waiting_grants();
  publish_totals();
  self_->delayed_send(self_, deps_.env->tick, Tick{});
}

void PrimaryTierState::publish_totals() {
  const auto c = deps_.cache->counters();
  totals_.num_chunks = c.num_chunks;
  totals_.resident = c.resident;
  totals_.free = c.free;
  totals_.evictable = c.evictable;
  totals_.write_pending = c.write_pending;
  totals_.pinned = c.pinned;
  totals_.held = c.held;
  totals_.quarantined = c.quarantined;
  totals_.claims = flights_.size();
  totals_.evictions = c.evictions;
  totals_.holds_refused = c.holds_refused;
  totals_.events_dropped = c.events_dropped;
  totals_.reuse_tracked = reuse_.size();
  totals_.reused_in_use = c.reused_in_use;
  totals_.promoted_evicted_unread = c.promotions_evicted_unread;
  totals_.allocation_size = to_histogram(c.allocation_sizes);
  self_->send(deps_.metrics, PublishTotals{totals_, deps_.domain});
}

PrimaryTierActor::behavior_type primary_tier_actor(
    PrimaryTierActor::stateful_pointer<PrimaryTierState> self, PrimaryTierDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
