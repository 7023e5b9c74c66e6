#include "kv_offload/actors/primary_tier_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

// Watches: scheduler_step keeps the answer of a caller that asks again every step, and is told when it is no longer
// true. What was present is held for the request, so only its keys that were absent or on their way are watched, and
// the one hold that ends without scheduler_step's doing: that of an unread promotion.
namespace kv_offload {

/// One watch per request, its latest. False: nobody will tell, the answer must not be kept.
bool PrimaryTierState::watch(const PrimaryProbe& m, const PrimaryProbed& answer,
                             std::span<const OffloadKey> keys) {
  unwatch(m.request);
  const bool any_hit = std::find(answer.states.begin(), answer.states.end(), LookupResult::hit) != answer.states.end();
  // Unheld hits may be evicted at any time; a reuse tracker counts every lookup.
  if (answer.unheld > 0 || (any_hit && !m.hold) || reuse_.is_active()) return false;
  Watch watch{sender(), m.op, {}};
  for (std::size_t at = 0; at < answer.states.size(); ++at) {
    if (answer.states[at] == LookupResult::hit) continue;
    watch.keys.push_back(keys[at]);
    if (answer.states[at] == LookupResult::miss && m.prefix) break;
  }
  if (watched_keys_ + watch.keys.size() > deps_.cache->limits().num_chunks) return false;
  watched_keys_ += watch.keys.size();
  for (const auto& key : watch.keys) watched_[key].push_back(m.request);
  watches_.emplace(m.request, std::move(watch));
  return true;
}

void PrimaryTierState::unwatch(RequestHandle request) {
  const auto it = watches_.find(request);
  if (it == watches_.end()) return;
  const auto keys = std::move(it->second.keys);
  watches_.erase(it);
  watched_keys_ -= keys.size();
  for (const auto& key : keys) {
    const auto watchers = watched_.find(key);
    if (watchers == watched_.end()) continue;
    std::erase(watchers->second, request);
    if (watchers->second.empty()) watched_.erase(watchers);
  }
}

void PrimaryTierState::lookup_changed(RequestHandle request) {
  const auto it = watches_.find(request);
  if (it == watches_.end()) return;
  self_->send(it->second.step, LookupChanged{request, it->second.op});
  unwatch(request);
}

void PrimaryTierState::tell_watchers(const OffloadKey& key) {
  const auto it = watched_.find(key);
  if (it == watched_.end()) return;
  const auto requests = it->second;  // each leaves the table
  for (const auto request : requests) lookup_changed(request);
}

}  // namespace kv_offload
