#include "kv_offload/actors/primary_tier_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

// Slots for promotions. A lookup that waits for its loads anyway waits here for slots, too, until its whole
// prefix has one: half a prefix each for two requests that then hold on to it would serve neither. Higher priority
// first, then first come, first served; whoever has used up half of its patience goes before all who have not, and
// at the end of it gets what there is: higher requests delay nobody for good, nor do holders each other. Who needs
// no slot does not wait.
namespace kv_offload {

std::size_t PrimaryTierState::room_for_promotions() const {
  const auto unread = promotions_reserved_ + unread_holders_.size();
  const auto share = deps_.unread_chunks_max > unread ? deps_.unread_chunks_max - unread : 0;
  return std::min<std::size_t>(share, deps_.cache->promotion_room());
}

/// Slots that the call needs now; never more than it would get if nobody else held any.
std::size_t PrimaryTierState::slots_wanted(const PrimaryGrant& m) const {
  const auto absent = std::count_if(m.admitted.begin(), m.admitted.end(), [&](auto i) {
    return deps_.cache->find((*m.keys)[i]).state == ChunkState::absent;
  });
  std::size_t unread = 0, held = 0;
  if (const auto own = holds_.find(m.request); own != holds_.end()) {
    held = own->second.size();
    for (const auto& hold : own->second.all()) unread += hold.unread ? 1U : 0U;
  }
  const auto without_own = [](std::size_t all, std::size_t own) { return all > own ? all - own : 0; };
  return std::min({static_cast<std::size_t>(absent), without_own(deps_.unread_chunks_max, unread),
                   without_own(deps_.cache->promotion_room_when_idle(), held)});
}

/// Equal ones stay in the order in which they came.
bool PrimaryTierState::goes_before(const WaitingGrant& a, const WaitingGrant& b) {
  if (a.gained != b.gained) return a.gained;
  return a.gained ? a.patience_ends < b.patience_ends : a.grant.priority > b.grant.priority;
}

void PrimaryTierState::move_up(MonotonicTime now) {
  bool gained = false;
  for (auto& w : waiting_grants_)
    if (!w.gained && w.gains_at <= now) w.gained = gained = true;
  if (gained) std::stable_sort(waiting_grants_.begin(), waiting_grants_.end(), goes_before);
}

void PrimaryTierState::grant(const PrimaryGrant& m) {
  const auto wanted = m.join ? slots_wanted(m) : 0;
  const bool first = waiting_grants_.empty() ||
                     (!waiting_grants_.front().gained && m.priority > waiting_grants_.front().grant.priority);
  if (wanted > 0 && (!first || wanted > room_for_promotions())) {
    const auto now = self_->clock().now();
    const auto patience_ends = std::min(now + m.patience, m.deadline);
    WaitingGrant entry{sender(), m, now + (patience_ends - now) / 2, patience_ends};
    const auto place = std::upper_bound(waiting_grants_.begin(), waiting_grants_.end(), entry, goes_before);
    waiting_grants_.insert(place, std::move(entry));
    PrimaryGranted in_line;
    in_line.op = m.op;
    in_line.waits = true;
    self_->send(sender(), std::move(in_line));
    return;
  }
  answer_grant(sender(), m, room_for_promotions(), ResolveFailure::no_space);
}

void PrimaryTierState::serve_waiting_grants() {
  if (waiting_grants_.empty()) return;
  const auto now = self_->clock().now();
  // Whose call is over can use no slot. Its time may come before its turn, so that all of them are looked at.
  end_waiting_grants([now](const PrimaryGrant& m) { return m.deadline <= now; });
  move_up(now);
  while (!waiting_grants_.empty()) {
    const auto& first = waiting_grants_.front();
    const auto room = room_for_promotions();
    if (slots_wanted(first.grant) > room && now < first.patience_ends) return;
    const auto served = std::move(waiting_grants_.front());
    waiting_grants_.pop_front();
    answer_grant(served.step, served.grant, room, ResolveFailure::no_space);
  }
}

/// Answered without slots. Who joined their loads may load the keys in their stead.
void PrimaryTierState::end_waiting_grants(const std::function<bool(const PrimaryGrant&)>& ends) {
  std::vector<WaitingGrant> ended;
  std::erase_if(waiting_grants_, [&](WaitingGrant& w) {
    if (!ends(w.grant)) return false;
    ended.push_back(std::move(w));
    return true;
  });
  for (const auto& w : ended) answer_grant(w.step, w.grant, 0, ResolveFailure::unclaimed);
}

/// `failure`: what those hear who joined a key that gets no slot.
void PrimaryTierState::answer_grant(const SchedulerStepActor& step, const PrimaryGrant& m, std::size_t room,
                                    ResolveFailure failure) {
  Resolutions resolutions;
  PrimaryGranted answer{m.op, std::vector<GrantState>(m.admitted.size(), GrantState::no_space),
                        std::vector<ChunkId>(m.admitted.size(), kNoChunk),
                        std::vector<std::uint32_t>(m.admitted.size(), 0)};
  // A store may have taken a claimed key in the meantime: then nothing is to be loaded for it.
  std::vector<std::size_t> wanted;
  KeyList wanted_keys;
  for (std::size_t n = 0; n < m.admitted.size(); ++n) {
    const auto& key = (*m.keys)[m.admitted[n]];
    const auto found = deps_.cache->find(key);
    if (found.state == ChunkState::ready) {
      answer.states[n] = GrantState::present;
      if (m.hold) hold_for(m.request, found.chunk, false);
      resolve_flight(key, found.chunk, false, ResolveFailure::none, 0, resolutions);
    } else if (found.state == ChunkState::writing) {
      answer.states[n] = GrantState::joined;
      if (m.join) join(key, Waiter{step, m.op, m.admitted[n], m.request, m.hold});
    } else {
      wanted.push_back(n);
      wanted_keys.push_back(key);
    }
  }
  std::vector<ChunkId> chunks;
  const auto asked = std::min<std::size_t>(wanted_keys.size(), room);
  const auto granted =
      deps_.cache->reserve_promotion(std::span(wanted_keys).first(asked), chunks, near(m.request));
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    const auto n = wanted[w];
    const auto& key = wanted_keys[w];
    if (w >= granted) {
      resolve_flight(key, kNoChunk, false, failure, 0, resolutions);
      continue;
    }
    ++promotions_reserved_;
    answer.states[n] = GrantState::granted;
    answer.chunk_ids[n] = chunks[w];
    answer.generations[n] = deps_.cache->generation(chunks[w]);
    join(key, Waiter{m.join ? step : SchedulerStepActor{}, m.op, m.admitted[n], m.request, m.hold});
  }
  for (const auto i : m.dropped)
    resolve_flight((*m.keys)[i], kNoChunk, false, ResolveFailure::refused, 0, resolutions);
  self_->send(step, std::move(answer));
  tell(resolutions);
}

}  // namespace kv_offload
