#include "kv_offload/tiers/primary/primary_cache.hpp"

#include "kv_offload/messages/broken_promise.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kv_offload {
namespace {

/// A slice may have evicted this part of itself more than the slowest one.
constexpr std::uint64_t kPaceShare = 4;

std::vector<std::unique_ptr<EvictionPolicy>> only(std::unique_ptr<EvictionPolicy> policy) {
  std::vector<std::unique_ptr<EvictionPolicy>> policies;
  policies.push_back(std::move(policy));
  return policies;
}

}  // namespace

PrimaryCache::PrimaryCache(Limits limits, std::unique_ptr<EvictionPolicy> policy,
                           const std::atomic<std::uint32_t>* in_use)
    : PrimaryCache(limits, only(std::move(policy)), in_use) {}

PrimaryCache::PrimaryCache(Limits limits, std::vector<std::unique_ptr<EvictionPolicy>> policies,
                           const std::atomic<std::uint32_t>* in_use)
    : limits_(limits),
      slices_(limits.num_chunks, std::move(policies),
              in_use == nullptr ? nullptr : in_use + limits.first_chunk),
      slots_(limits.num_chunks),
      index_(limits.num_chunks),
      events_(limits.events_max),
      stamps_(limits.num_chunks, 0),
      shares_(slices_.count(), 0) {}

// -- looking ---------------------------------------------------------------------------------------

PrimaryCache::Found PrimaryCache::find(const OffloadKey& key) const {
  return found_at(index_.find(key));
}

void PrimaryCache::find_all(std::span<const OffloadKey> keys, std::vector<Found>& found) const {
  found.resize(keys.size());
  index_.find_all(
      keys, [&](ChunkId chunk) { __builtin_prefetch(&slots_[chunk]); },
      [&](std::size_t i, ChunkId chunk) { found[i] = found_at(chunk); });
}

void PrimaryCache::touch(std::span<const OffloadKey> keys) {
  touched_.resize(keys.size());
  index_.find_all(
      keys, [](ChunkId) {}, [&](std::size_t i, ChunkId chunk) { touched_[i] = chunk; });
  slices_.touch(keys, touched_);
}

// -- writing ---------------------------------------------------------------------------------------

std::optional<PrimaryCache::StoreReservation> PrimaryCache::reserve_store(
    std::span<const OffloadKey> keys, std::size_t near) {
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
  if (!make_room(out.key_idx.size(), VictimOrder::handed_out_last_first, near)) return std::nullopt;
  out.evicted = static_cast<std::uint32_t>(victims_.size());
  out.chunks.reserve(out.key_idx.size());
  for (const std::uint32_t i : out.key_idx) out.chunks.push_back(begin_writing(keys[i], false));
  return out;
}

std::size_t PrimaryCache::promotion_room() const {
  const std::size_t room = std::size_t{slices_.free()} + evictable_;
  return room > limits_.headroom_chunks ? room - limits_.headroom_chunks : 0;
}

std::size_t PrimaryCache::promotion_room_when_idle() const {
  const std::size_t all = limits_.num_chunks;
  return all > limits_.headroom_chunks ? all - limits_.headroom_chunks : 0;
}

std::uint32_t PrimaryCache::reserve_promotion(std::span<const OffloadKey> keys,
                                              std::vector<ChunkId>& chunks, std::size_t near) {
  begin_call();
  const std::size_t grantable = promotion_room();
  std::size_t granted = 0;
  for (; granted < std::min(keys.size(), grantable); ++granted) {
    const bool is_new = !index_.contains(keys[granted]) && absent_.insert(keys[granted]).second;
    assert(is_new);
    if (!is_new) break;
  }
  // A policy may refuse although enough is evictable: then take what is free.
  while (!make_room(granted, VictimOrder::handed_out_first_first, near))
    granted = std::min<std::size_t>(granted - 1, slices_.free());
  for (const OffloadKey& key : keys.first(granted)) chunks.push_back(begin_writing(key, true));
  allocation_sizes_.add(1, granted + (granted < keys.size() ? 1 : 0));
  return static_cast<std::uint32_t>(granted);
}

void PrimaryCache::publish(std::span<const ChunkId> chunks) {
  OffloadingEvent stored = new_event(false);
  for (const ChunkId chunk : chunks) {
    const ChunkId slot = local(chunk);
    assert(known(slot));
    assert(!slots_[slot].detached);
    if (!known(slot) || slots_[slot].state != ChunkState::writing || slots_[slot].detached)
      continue;
    slots_[slot].state = ChunkState::ready;
    --write_pending_;
    set_evictable(slot);  // held or not: the policy learns that the bytes are ready
    if (slots_[slot].kept()) set_non_evictable(slot);
    if (!limits_.events) continue;
    stored.keys.push_back(index_.key_of(slot));
    stored.chunk_ids.push_back(chunk);
  }
  if (!stored.keys.empty()) record_stored(std::move(stored));
}

void PrimaryCache::drop_writing(std::span<const ChunkId> chunks, bool quarantine) {
  if (promise_broken(6)) quarantine = false;
  for (const ChunkId chunk : chunks) {
    const ChunkId slot = local(chunk);
    assert(known(slot));
    if (!known(slot) || slots_[slot].state != ChunkState::writing) continue;
    if (!slots_[slot].detached) {
      slices_.remove(index_.key_of(slot), slot);
      index_.erase(slot);
    }
    --write_pending_;
    if (slots_[slot].holds > 0) --held_;
    slots_[slot] = Slot{};
    if (quarantine)
      slices_.quarantine(slot);
    else
      slices_.give_back(slot);
  }
}

void PrimaryCache::begin_call() {
  absent_.clear();
  kept_.clear();
  if (++stamp_ != 0) return;
  std::fill(stamps_.begin(), stamps_.end(), 0U);  // the counter wrapped: no stamp may look current
  stamp_ = 1;
}

/// What each slice gives: free slots, those of `near` first; then victims, of `near` as long as the others keep pace:
/// a slice whose domain stores little would otherwise keep its chunks for ever, and the busy one use its own alone.
/// False: that many are not to be had.
bool PrimaryCache::share_out(std::size_t count, std::size_t near) {
  next_share_ = near;
  if (slices_.count() == 1) {
    shares_[0] = count;
    return true;
  }
  std::vector<std::size_t> victims(slices_.count());
  for (std::size_t s = 0; s < slices_.count(); ++s) victims[s] = slices_[s].evictable;
  for (const ChunkId slot : kept_)
    if (slots_[slot].state == ChunkState::ready && !slots_[slot].kept())
      --victims[slices_.slice_of(slot)];
  std::size_t left = count;
  for (std::size_t n = 0; n < slices_.count(); ++n) {
    const std::size_t s = (near + n) % slices_.count();
    shares_[s] = std::min<std::size_t>(left, slices_[s].pool.free());
    left -= shares_[s];
  }
  const std::uint64_t ahead = limits_.num_chunks / slices_.count() / kPaceShare;
  std::vector<std::uint64_t> evicted(slices_.count());
  for (std::size_t s = 0; s < slices_.count(); ++s) evicted[s] = slices_[s].evicted;
  for (; left > 0; --left) {
    std::size_t slowest = slices_.count();
    for (std::size_t s = 0; s < slices_.count(); ++s)
      if (victims[s] > 0 && (slowest == slices_.count() || evicted[s] < evicted[slowest]))
        slowest = s;
    if (slowest == slices_.count()) break;
    const std::size_t s =
        victims[near] > 0 && evicted[near] <= evicted[slowest] + ahead ? near : slowest;
    --victims[s];
    ++evicted[s];
    ++shares_[s];
  }
  return left == 0;
}

bool PrimaryCache::make_room(std::size_t count, VictimOrder order, std::size_t near) {
  OffloadingEvent removed = new_event(true);
  victims_.clear();
  bool enough = share_out(count, near);
  for (std::size_t s = 0; s < slices_.count() && enough; ++s)
    enough = make_room_in(s, shares_[s], order, removed);
  if (!removed.keys.empty()) record_removed(std::move(removed));
  return enough;
}

bool PrimaryCache::make_room_in(std::size_t s, std::size_t count, VictimOrder order,
                                OffloadingEvent& removed) {
  auto& [pool, policy, first, evictable, evicted] = slices_[s];
  // One round, unless slots turn out to be in use; each further round has quarantined at least one.
  while (true) {
    pool.quarantine_candidates_in_use(static_cast<ChunkId>(std::min<std::size_t>(count, kNoChunk)));
    if (count <= pool.free()) return true;
    if (count - pool.free() > evictable) return false;
    const std::size_t done = victims_.size();
    const ProtectedSlots keep{
        std::span<const std::uint32_t>(stamps_).subspan(first, pool.num_chunks()), stamp_};
    if (!policy->evict(count - pool.free(), keep, victims_)) return false;
    std::size_t kept = done;
    for (std::size_t i = done; i < victims_.size(); ++i)
      if (victims_[i] < pool.num_chunks() && forget_victim(first + victims_[i], removed))
        victims_[kept++] = victims_[i];
    victims_.resize(kept);
    const auto fresh = std::span(victims_).subspan(done);
    if (fresh.empty()) return false;
    evicted += fresh.size();
    if (order == VictimOrder::handed_out_first_first)
      pool.give_back_last(fresh);
    else
      for (const ChunkId victim : fresh) pool.give_back(victim);
  }
}

bool PrimaryCache::forget_victim(ChunkId slot, OffloadingEvent& removed) {
  const bool allowed = known(slot) && slots_[slot].state == ChunkState::ready &&
                       !slots_[slot].kept() && stamps_[slot] != stamp_;
  assert(allowed);
  if (!allowed) return false;  // a policy from outside may be wrong; the cache stays right
  --evictable_;
  slices_.no_longer_evictable(slot);
  ++evictions_;
  if (slots_[slot].promoted_unread) ++promotions_evicted_unread_;
  if (limits_.events) {
    removed.keys.push_back(index_.key_of(slot));
    removed.chunk_ids.push_back(global(slot));
  }
  index_.erase(slot);
  slots_[slot] = Slot{};
  return true;
}

ChunkId PrimaryCache::begin_writing(const OffloadKey& key, bool promoted) {
  while (shares_[next_share_] == 0) next_share_ = (next_share_ + 1) % shares_.size();
  --shares_[next_share_];
  const ChunkId slot = slices_.take(next_share_);
  slots_[slot].state = ChunkState::writing;
  slots_[slot].promoted_unread = promoted;
  index_.insert(key, slot);
  slices_.insert(key, slot);
  ++write_pending_;
  return global(slot);
}

// -- keeping ---------------------------------------------------------------------------------------

void PrimaryCache::end_keeping(ChunkId slot) {
  if (!slots_[slot].detached) return set_evictable(slot);
  slots_[slot] = Slot{};
  slices_.give_back(slot);
}

void PrimaryCache::set_evictable(ChunkId slot) {
  ++evictable_;
  slices_.mark_evictable(slot);
}

void PrimaryCache::set_non_evictable(ChunkId slot) {
  --evictable_;
  slices_.mark_non_evictable(slot);
}

bool PrimaryCache::pin(ChunkId chunk) {
  const ChunkId at = local(chunk);
  if (!known(at) || slots_[at].state != ChunkState::ready) return false;
  Slot& slot = slots_[at];
  if (!slot.kept()) set_non_evictable(at);
  if (slot.pins++ == 0) ++pinned_;
  slot.promoted_unread = false;
  return true;
}

void PrimaryCache::unpin(ChunkId chunk) {
  const ChunkId at = local(chunk);
  assert(known(at) && slots_[at].pins > 0);
  if (!known(at) || slots_[at].pins == 0) return;
  if (--slots_[at].pins > 0) return;
  --pinned_;
  if (!slots_[at].kept()) end_keeping(at);
}

void PrimaryCache::unpin(ChunkId chunk, std::uint32_t generation) {
  if (this->generation(chunk) == generation && pins(chunk) > 0) unpin(chunk);
}

bool PrimaryCache::try_hold(ChunkId chunk) {
  const ChunkId at = local(chunk);
  if (!known(at) || slots_[at].state == ChunkState::absent) return false;
  Slot& slot = slots_[at];
  if (slot.holds == 0) {
    if (held_ >= limits_.hold_chunks_max) return ++holds_refused_, false;
    ++held_;
    if (slot.state == ChunkState::ready && !slot.kept()) set_non_evictable(at);
  }
  ++slot.holds;
  return true;
}

void PrimaryCache::release_hold(ChunkId chunk) {
  const ChunkId at = local(chunk);
  assert(known(at) && slots_[at].holds > 0);
  if (!known(at) || slots_[at].holds == 0) return;
  Slot& slot = slots_[at];
  if (--slot.holds > 0) return;
  --held_;
  if (slot.state == ChunkState::ready && !slot.kept()) end_keeping(at);
}

void PrimaryCache::release_hold(ChunkId chunk, std::uint32_t generation) {
  if (this->generation(chunk) == generation && holds(chunk) > 0) release_hold(chunk);
}

// -- forgetting ------------------------------------------------------------------------------------

bool PrimaryCache::remove(const OffloadKey& key) {
  const ChunkId slot = index_.find(key);
  return slot != kNoChunk && remove_at(key, slot);
}

bool PrimaryCache::remove_at(const OffloadKey& key, ChunkId slot) {
  if (slots_[slot].state != ChunkState::ready || slots_[slot].kept()) return false;
  OffloadingEvent removed = new_event(true);
  removed.keys.push_back(key);
  removed.chunk_ids.push_back(global(slot));
  slices_.remove(key, slot);
  slices_.no_longer_evictable(slot);
  index_.erase(slot);
  --evictable_;
  slots_[slot] = Slot{};
  slices_.give_back(slot);
  record_removed(std::move(removed));
  return true;
}

ChunkState PrimaryCache::forget(const OffloadKey& key) {
  const ChunkId slot = index_.find(key);
  if (slot == kNoChunk) return ChunkState::absent;
  const ChunkState state = slots_[slot].state;
  if (remove_at(key, slot)) return state;
  if (state == ChunkState::ready) {
    OffloadingEvent removed = new_event(true);
    removed.keys.push_back(key);
    removed.chunk_ids.push_back(global(slot));
    record_removed(std::move(removed));
  }
  slices_.remove(key, slot);
  index_.erase(slot);
  slots_[slot].detached = true;
  return state;
}

void PrimaryCache::reset() {
  slices_.reset();
  index_.clear();
  std::fill(slots_.begin(), slots_.end(), Slot{});
  evictable_ = write_pending_ = pinned_ = held_ = 0;
}

void PrimaryCache::release_quarantined(ChunkId chunk) {
  assert(known(local(chunk)));
  if (known(local(chunk))) slices_.release(local(chunk));
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
  c.allocated = limits_.num_chunks - slices_.unused();
  c.free = slices_.free();
  c.resident = static_cast<ChunkId>(index_.size());
  c.evictable = evictable_;
  c.write_pending = write_pending_;
  c.pinned = pinned_;
  c.held = held_;
  c.quarantined = slices_.quarantined();
  c.holds_refused = holds_refused_;
  c.events_dropped = events_.dropped();
  c.evictions = evictions_;
  c.promotions_evicted_unread = promotions_evicted_unread_;
  c.reused_in_use = slices_.met_in_use();
  c.allocation_sizes = allocation_sizes_;
  return c;
}

OffloadKey PrimaryCache::key_of(ChunkId chunk) const {
  const ChunkId slot = local(chunk);
  const bool has_key =
      known(slot) && slots_[slot].state != ChunkState::absent && !slots_[slot].detached;
  return has_key ? index_.key_of(slot) : OffloadKey{};
}

std::uint32_t PrimaryCache::generation(ChunkId chunk) const {
  return known(local(chunk)) ? slices_.generation(local(chunk)) : 0;
}

}  // namespace kv_offload
