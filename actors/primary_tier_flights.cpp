#include "kv_offload/actors/primary_tier_actor.hpp"
#include "kv_offload/messages/broken_promise.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

// Holds, flights and the two ends of jobs of the primary_tier actor.
namespace kv_offload {

// -- holds ------------------------------------------------------------------------------------------------

bool PrimaryTierState::hold_for(RequestHandle request, ChunkId chunk, bool unread) {
  auto& held = holds_[request];
  const bool is_held = hold_in(held, request, chunk, unread);
  if (!is_held && held.empty()) holds_.erase(request);
  return is_held;
}

/// One hold per request and chunk.
bool PrimaryTierState::hold_in(RequestHolds& held, RequestHandle request, ChunkId chunk, bool unread) {
  const auto generation = deps_.cache->generation(chunk);
  const RequestHolds::Hold wanted{chunk, generation, unread};
  const auto [own, is_new] = held.try_put(wanted);
  if (!is_new && own->generation == generation) return true;
  if (!deps_.cache->try_hold(chunk)) {
    if (is_new) held.drop(chunk);
    return false;
  }
  *own = wanted;
  ++totals_.holds_open;
  if (unread) {
    ++unread_holders_[chunk];
    unread_expiries_.push_back({self_->clock().now() + deps_.unread_ttl, request, chunk, generation});
  }
  return true;
}

bool PrimaryTierState::drop_hold(RequestHandle request, ChunkId chunk) {
  const auto owner = holds_.find(request);
  if (owner == holds_.end()) return false;
  const auto* hold = owner->second.find(chunk);
  if (hold == nullptr || hold->generation != deps_.cache->generation(chunk)) return false;
  const bool unread = hold->unread;
  owner->second.drop(chunk);
  if (owner->second.empty()) holds_.erase(owner);
  deps_.cache->release_hold(chunk);
  --totals_.holds_open;
  if (unread) unread_hold_ended(chunk);
  return true;
}

void PrimaryTierState::unread_hold_ended(ChunkId chunk) {
  const auto it = unread_holders_.find(chunk);
  if (it != unread_holders_.end() && --it->second == 0) unread_holders_.erase(it);
}

void PrimaryTierState::expire_unread(MonotonicTime now) {
  while (!unread_expiries_.empty() && unread_expiries_.front().at <= now) {
    const auto due = unread_expiries_.front();
    unread_expiries_.pop_front();
    const auto owner = holds_.find(due.request);
    if (owner == holds_.end()) continue;
    const auto* hold = owner->second.find(due.chunk);
    if (hold == nullptr || !hold->unread || hold->generation != due.generation) continue;
    lookup_changed(due.request);
    if (drop_hold(due.request, due.chunk)) ++totals_.pins_expired_unread;
  }
}

// -- flights ------------------------------------------------------------------------------------------------

void PrimaryTierState::join(const OffloadKey& key, Waiter waiter) {
  ++waits_[waiter.request];
  ++totals_.waiters;
  flights_[key].waiters.push_back(std::move(waiter));
}

/// Ends the flight of `key`. `landed` is its slot, or kNoChunk after a failure.
void PrimaryTierState::resolve_flight(const OffloadKey& key, ChunkId landed, bool promotion,
                                      ResolveFailure failure, TierIndex tier, Resolutions& out) {
  key_changed(key);
  const auto it = flights_.find(key);
  if (it == flights_.end()) return;
  const auto waiters = std::move(it->second.waiters);
  flights_.erase(it);
  for (const auto& w : waiters) {
    --totals_.waiters;
    if (const auto wait = waits_.find(w.request); wait != waits_.end() && --wait->second == 0)
      waits_.erase(wait);
    if (landed != kNoChunk && (promotion ? deps_.pin_unread : w.hold))
      hold_for(w.request, landed, promotion);
    if (w.step)
      out[caf::actor_cast<caf::strong_actor_ptr>(w.step)].entries.push_back(
          {w.op, w.key_idx, failure, tier});
  }
}

void PrimaryTierState::tell(Resolutions& resolutions) {
  for (auto& [step, message] : resolutions)
    self_->send(caf::actor_cast<SchedulerStepActor>(step), std::move(message));
}

// -- ends of jobs -------------------------------------------------------------------------------------------

void PrimaryTierState::transfers_ended(const TransfersEnded& m) {
  Resolutions resolutions;
  for (const auto& end : m.ends) {
    if (end.epoch != epoch_) {
      stale_end(end);
      continue;
    }
    if (end.is_promotion && end.outcome) promotion_outcome(end, resolutions);
    if (end.is_promotion && end.quiesced) promotion_quiesced(end);
    if (!end.is_promotion && end.quiesced) cascade_quiesced(end);
    if (end.abandoned && !end.is_promotion) totals_.pins_abandoned += end.chunk_ids.size();
  }
  tell(resolutions);
  serve_waiting_grants();
}

void PrimaryTierState::promotion_outcome(const TransferEnd& end, Resolutions& resolutions) {
  std::vector<ChunkId> done, failed;
  for (std::size_t i = 0; i < end.chunk_ids.size(); ++i) {
    const bool ok = i < end.fates.size() && end.fates[i] == KeyFate::done &&
                    !deps_.cache->is_detached(end.chunk_ids[i]);
    (ok ? done : failed).push_back(end.chunk_ids[i]);
  }
  promotions_reserved_ -= end.chunk_ids.size();
  totals_.promoted += done.size();
  deps_.cache->publish(done);
  for (const auto chunk : done) {
    if (!end.quiesced) {
      deps_.cache->pin(chunk);
      ++totals_.pins_open;
      outcome_pins_[chunk] = deps_.cache->generation(chunk);
    }
    resolve_flight(deps_.cache->key_of(chunk), chunk, true, ResolveFailure::none, end.tier, resolutions);
  }
  const auto why = end.never_began ? ResolveFailure::unclaimed : ResolveFailure::tier_failed;
  for (const auto chunk : failed)
    resolve_flight(deps_.cache->key_of(chunk), kNoChunk, true, why, end.tier, resolutions);
  deps_.cache->drop_writing(failed, !end.quiesced);
}

void PrimaryTierState::promotion_quiesced(const TransferEnd& end) {
  if (end.outcome) return;  // both ends at once: nothing was kept back
  for (const auto chunk : end.chunk_ids) {
    if (outcome_pins_.erase(chunk) > 0) {
      deps_.cache->unpin(chunk);
      --totals_.pins_open;
    } else {
      deps_.cache->release_quarantined(chunk);
    }
  }
}

void PrimaryTierState::cascade_quiesced(const TransferEnd& end) {
  if (promise_broken(4) && end.job.sequence % 64 == 63) return;
  for (const auto chunk : end.chunk_ids) {
    deps_.cache->unpin(chunk);
    --totals_.pins_open;
  }
}

/// A job from before a reset: its slots were marked busy and quarantined then.
void PrimaryTierState::stale_end(const TransferEnd& end) {
  if (!end.quiesced || end.never_began) return;  // slots that were given back went with the reset
  for (const auto chunk : end.chunk_ids) {
    deps_.view.end_use(chunk);
    deps_.cache->release_quarantined(chunk);
  }
}

}  // namespace kv_offload
