#include "kv_offload/tiers/primary/primary_cache.hpp"

#include "kv_offload/messages/broken_promise.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kv_offload {

PrimaryCache::PrimaryCache(Limits limits, std::unique_ptr<EvictionPolicy> policy,
                           const std::atomic<std::uint32_t>* in_use)
    : limits_(limits),
      policy_(std::move(policy)),
      pool_(limits.num_chunks, in_use),
      slots_(limits.num_chunks),
      index_(limits.num_chunks),
      events_(limits.events_max),
      stamps_(limits.num_chunks, 0) {
  assert(policy_ != nullptr);
}

// -- looking ---------------------------------------------------------------------------------------

PrimaryCache::Found PrimaryCache::find(const OffloadKey& key) const {
  const ChunkId chunk = index_.find(key);
  if (chunk == kNoChunk) return {};
  return {slots_[chunk].state, chunk};
}

void PrimaryCache::find_all(std::span<const OffloadKey> keys, std::vector<Found>& found) const {
  found.resize(keys.size());
  index_.find_all(
      keys, [&](ChunkId chunk) { __builtin_prefetch(&slots_[chunk]); },
      [&](std::size_t i, ChunkId chunk) {
        found[i] = chunk == kNoChunk ? Found{} : Found{slots_[chunk].state, chunk};
      });
}

void PrimaryCache::touch(std::span<const OffloadKey> keys) {
  touched_.resize(keys.size());
  index_.find_all(
      keys, [](ChunkId) {}, [&](std::size_t i, ChunkId chunk) { touched_[i] = chunk; });
  policy_->touch(keys, touched_);
}

// -- writing ---------------------------------------------------------------------------------------

std::optional<PrimaryCache::StoreReservation> PrimaryCache::reserve_store(
    std::span<const OffloadKey> keys) {
  StoreReservation out;
  begin_call();
  index_.find_all(
      keys, [&](ChunkId chunk) { __builtin_prefetch(&stamps_[chunk]); },
      [&](std::size_t i, ChunkId chunk) {
        if (chunk != kNoChunk)
          keep(chunk);
        else if (absent_.insert(keys[i]).second)
          out.key_idx.push_back(static_cast<std::uint32_t>(i));
      });
  if (out.key_idx.empty()) return out;
  allocation_sizes_.add(out.key_idx.size());  // before capacity is known: failures are sampled, too
  if (!make_room(out.key_idx.size(), VictimOrder::handed_out_last_first)) return std::nullopt;
  out.evicted = static_cast<std::uint32_t>(victims_.size());
  out.chunks.reserve(out.key_idx.size());
  for (const std::uint32_t i : out.key_idx) out.chunks.push_back(begin_writing(keys[i], false));
  return out;
}

std::size_t PrimaryCache::promotion_room() const {
  const std::size_t room = std::size_t{pool_.free()} + evictable_;
  return room > limits_.headroom_chunks ? room - limits_.headroom_chunks : 0;
}

std::size_t PrimaryCache::promotion_room_when_idle() const {
  const std::size_t all = limits_.num_chunks;
  return all > limits_.headroom_chunks ? all - limits_.headroom_chunks : 0;
}

std::uint32_t PrimaryCache::reserve_promotion(std::span<const OffloadKey> keys,
                                              std::vector<ChunkId>& chunks) {
  begin_call();
  const std::size_t grantable = promotion_room();
  std::size_t granted = 0;
  for (; granted < std::min(keys.size(), grantable); ++granted) {
    const bool is_new = !index_.contains(keys[granted]) && absent_.insert(keys[granted]).second;
    assert(is_new);
    if (!is_new) break;
  }
  // A policy may refuse although enough is evictable: then take what is free.
  while (!make_room(granted, VictimOrder::handed_out_first_first))
    granted = std::min<std::size_t>(granted - 1, pool_.free());
  for (const OffloadKey& key : keys.first(granted)) chunks.push_back(begin_writing(key, true));
  allocation_sizes_.add(1, granted + (granted < keys.size() ? 1 : 0));
  return static_cast<std::uint32_t>(granted);
}

void PrimaryCache::publish(std::span<const ChunkId> chunks) {
  OffloadingEvent stored = new_event(false);
  for (const ChunkId chunk : chunks) {
    assert(known(chunk));
    assert(!slots_[chunk].detached);
    if (!known(chunk) || slots_[chunk].state != ChunkState::writing || slots_[chunk].detached) continue;
    slots_[chunk].state = ChunkState::ready;
    --write_pending_;
    set_evictable(chunk);  // held or not: the policy learns that the bytes are ready
    if (slots_[chunk].kept()) set_non_evictable(chunk);
    if (!limits_.events) continue;
    stored.keys.push_back(index_.key_of(chunk));
    stored.chunk_ids.push_back(chunk);
  }
  if (!stored.keys.empty()) record_stored(std::move(stored));
}

void PrimaryCache::drop_writing(std::span<const ChunkId> chunks, bool quarantine) {
  if (promise_broken(6)) quarantine = false;
  for (const ChunkId chunk : chunks) {
    assert(known(chunk));
    if (!known(chunk) || slots_[chunk].state != ChunkState::writing) continue;
    if (!slots_[chunk].detached) {
      policy_->remove(index_.key_of(chunk), chunk);
      index_.erase(chunk);
    }
    --write_pending_;
    if (slots_[chunk].holds > 0) --held_;
    slots_[chunk] = Slot{};
    if (quarantine)
      pool_.quarantine(chunk);
    else
      pool_.give_back(chunk);
  }
}

void PrimaryCache::begin_call() {
  absent_.clear();
  if (++stamp_ != 0) return;
  std::fill(stamps_.begin(), stamps_.end(), 0U);  // the counter wrapped: no stamp may look current
  stamp_ = 1;
}

bool PrimaryCache::make_room(std::size_t count, VictimOrder order) {
  OffloadingEvent removed = new_event(true);
  victims_.clear();
  bool enough = false;
  // One round, unless slots turn out to be in use; each further round has quarantined at least one.
  while (true) {
    pool_.quarantine_candidates_in_use(
        static_cast<ChunkId>(std::min<std::size_t>(count, kNoChunk)));
    enough = count <= pool_.free();
    if (enough || count - pool_.free() > evictable_) break;
    const std::size_t done = victims_.size();
    if (!policy_->evict(count - pool_.free(), ProtectedSlots(stamps_, stamp_), victims_)) break;
    std::size_t kept = done;
    for (std::size_t i = done; i < victims_.size(); ++i)
      if (forget_victim(victims_[i], removed)) victims_[kept++] = victims_[i];
    victims_.resize(kept);
    const auto fresh = std::span(victims_).subspan(done);
    if (fresh.empty()) break;
    if (order == VictimOrder::handed_out_first_first)
      pool_.give_back_last(fresh);
    else
      for (const ChunkId chunk : fresh) pool_.give_back(chunk);
  }
  if (!removed.keys.empty()) record_removed(std::move(removed));
  return enough;
}

bool PrimaryCache::forget_victim(ChunkId chunk, OffloadingEvent& removed) {
  const bool allowed = known(chunk) && slots_[chunk].state == ChunkState::ready &&
                       !slots_[chunk].kept() && stamps_[chunk] != stamp_;
  assert(allowed);
  if (!allowed) return false;  // a policy from outside may be wrong; the cache stays right
  --evictable_;
  ++evictions_;
  if (slots_[chunk].promoted_unread) ++promotions_evicted_unread_;
  if (limits_.events) {
    removed.keys.push_back(index_.key_of(chunk));
    removed.chunk_ids.push_back(chunk);
  }
  index_.erase(chunk);
  slots_[chunk] = Slot{};
  return true;
}

ChunkId PrimaryCache::begin_writing(const OffloadKey& key, bool promoted) {
  const ChunkId chunk = pool_.take();
  slots_[chunk].state = ChunkState::writing;
  slots_[chunk].promoted_unread = promoted;
  index_.insert(key, chunk);
  policy_->insert(key, chunk);
  ++write_pending_;
  return chunk;
}

// -- keeping ---------------------------------------------------------------------------------------

void PrimaryCache::end_keeping(ChunkId chunk) {
  if (!slots_[chunk].detached) return set_evictable(chunk);
  slots_[chunk] = Slot{};
  pool_.give_back(chunk);
}

void PrimaryCache::set_evictable(ChunkId chunk) {
  ++evictable_;
  policy_->mark_evictable(chunk);
}

void PrimaryCache::set_non_evictable(ChunkId chunk) {
  --evictable_;
  policy_->mark_non_evictable(chunk);
}

bool PrimaryCache::pin(ChunkId chunk) {
  if (!known(chunk) || slots_[chunk].state != ChunkState::ready) return false;
  Slot& slot = slots_[chunk];
  if (!slot.kept()) set_non_evictable(chunk);
  if (slot.pins++ == 0) ++pinned_;
  slot.promoted_unread = false;
  return true;
}

void PrimaryCache::unpin(ChunkId chunk) {
  assert(known(chunk) && slots_[chunk].pins > 0);
  if (!known(chunk) || slots_[chunk].pins == 0) return;
  if (--slots_[chunk].pins > 0) return;
  --pinned_;
  if (!slots_[chunk].kept()) end_keeping(chunk);
}

void PrimaryCache::unpin(ChunkId chunk, std::uint32_t generation) {
  if (known(chunk) && pool_.generation(chunk) == generation && slots_[chunk].pins > 0) unpin(chunk);
}

bool PrimaryCache::try_hold(ChunkId chunk) {
  if (!known(chunk) || slots_[chunk].state == ChunkState::absent) return false;
  Slot& slot = slots_[chunk];
  if (slot.holds == 0) {
    if (held_ >= limits_.hold_chunks_max) return ++holds_refused_, false;
    ++held_;
    if (slot.state == ChunkState::ready && !slot.kept()) set_non_evictable(chunk);
  }
  ++slot.holds;
  return true;
}

void PrimaryCache::release_hold(ChunkId chunk) {
  assert(known(chunk) && slots_[chunk].holds > 0);
  if (!known(chunk) || slots_[chunk].holds == 0) return;
  Slot& slot = slots_[chunk];
  if (--slot.holds > 0) return;
  --held_;
  if (slot.state == ChunkState::ready && !slot.kept()) end_keeping(chunk);
}

void PrimaryCache::release_hold(ChunkId chunk, std::uint32_t generation) {
  if (known(chunk) && pool_.generation(chunk) == generation && slots_[chunk].holds > 0)
    release_hold(chunk);
}

// -- forgetting ------------------------------------------------------------------------------------

bool PrimaryCache::remove(const OffloadKey& key) {
  const auto [state, chunk] = find(key);
  if (state != ChunkState::ready || slots_[chunk].kept()) return false;
  OffloadingEvent removed = new_event(true);
  removed.keys.push_back(key);
  removed.chunk_ids.push_back(chunk);
  policy_->remove(key, chunk);
  index_.erase(chunk);
  --evictable_;
  slots_[chunk] = Slot{};
  pool_.give_back(chunk);
  record_removed(std::move(removed));
  return true;
}

ChunkState PrimaryCache::forget(const OffloadKey& key) {
  const auto [state, chunk] = find(key);
  if (state == ChunkState::absent || remove(key)) return state;
  if (state == ChunkState::ready) {
    OffloadingEvent removed = new_event(true);
    removed.keys.push_back(key);
    removed.chunk_ids.push_back(chunk);
    record_removed(std::move(removed));
  }
  policy_->remove(key, chunk);
  index_.erase(chunk);
  slots_[chunk].detached = true;
  return state;
}

void PrimaryCache::reset() {
  policy_->clear();
  pool_.reset();
  index_.clear();
  std::fill(slots_.begin(), slots_.end(), Slot{});
  evictable_ = write_pending_ = pinned_ = held_ = 0;
}

void PrimaryCache::release_quarantined(ChunkId chunk) {
  assert(known(chunk));
  if (known(chunk)) pool_.release(chunk);
}

// -- events ----------------------------------------------------------------------------------------

OffloadingEvent PrimaryCache::new_event(bool removed) const {
  OffloadingEvent event;
  event.removed = removed;
  event.medium = Medium::cpu;
  return event;
}

void PrimaryCache::record_removed(OffloadingEvent event) {
  if (!limits_.events) return;
  if (promise_broken(7)) return late_removed_.push_back(std::move(event));
  events_.push(std::move(event));
}

void PrimaryCache::record_stored(OffloadingEvent event) {
  events_.push(std::move(event));
  for (auto& late : late_removed_) events_.push(std::move(late));
  late_removed_.clear();
}

// -- observing -------------------------------------------------------------------------------------

PrimaryCache::Counters PrimaryCache::counters() const {
  Counters c;
  c.num_chunks = limits_.num_chunks;
  c.allocated = limits_.num_chunks - pool_.unused();
  c.free = pool_.free();
  c.resident = static_cast<ChunkId>(index_.size());
  c.evictable = evictable_;
  c.write_pending = write_pending_;
  c.pinned = pinned_;
  c.held = held_;
  c.quarantined = pool_.quarantined();
  c.holds_refused = holds_refused_;
  c.events_dropped = events_.dropped();
  c.evictions = evictions_;
  c.promotions_evicted_unread = promotions_evicted_unread_;
  c.reused_in_use = pool_.met_in_use();
  c.allocation_sizes = allocation_sizes_;
  return c;
}

OffloadKey PrimaryCache::key_of(ChunkId chunk) const {
  const bool has_key = known(chunk) && slots_[chunk].state != ChunkState::absent && !slots_[chunk].detached;
  return has_key ? index_.key_of(chunk) : OffloadKey{};
}

std::uint32_t PrimaryCache::generation(ChunkId chunk) const {
  return known(chunk) ? pool_.generation(chunk) : 0;
}

}  // namespace kv_offload
