#include "kv_offload/actors/lookup_op.hpp"

#include <algorithm>

namespace kv_offload {

LookupOp::LookupOp(OpId op_id, SharedRequest request_context, SharedKeys key_list, LookupOptions opts,
                   std::size_t tiers, std::uint32_t device_keys, Reply<LookupAnswer> reply_to)
    : op(op_id),
      request(std::move(request_context)),
      keys(std::move(key_list)),
      options(opts),
      num_tiers(tiers),
      on_device(device_keys),
      reply(std::move(reply_to)),
      state(keys->size(), Key::unknown),
      next_tier(keys->size(), 0),
      found_in(keys->size(), 0),
      retry_seen(keys->size(), false),
      verdicts(keys->size() * (tiers + 1), kNotAsked),
      tier_times(tiers) {
  if (polled()) key_async_s.assign(keys->size() * tiers, 0);
  std::fill_n(state.begin(), on_device, Key::on_device);
}

void LookupOp::follow_with_device_key() {
  if (on_device == 0 || on_device == size() || polled()) return;
  const auto last = on_device - 1U;
  const bool wanted = found_in[last] == 0 && state[on_device] == Key::unknown;
  state[last] = wanted ? Key::unknown : Key::on_device;
  if (wanted) next_tier[last] = next_tier[on_device];
}

std::size_t LookupOp::reach() const {
  if (!prefix()) return size();
  for (std::size_t i = 0; i < size(); ++i)
    if (ends_scan(state[i])) return i + 1;
  return size();
}

KeyIdxList LookupOp::next_window() const {
  KeyIdxList window_idx;
  TierIndex tier = 0;
  for (std::uint32_t i = 0; i < size() && window_idx.size() < window; ++i) {
    if (ends_scan(state[i])) break;
    if (state[i] != Key::unknown) continue;
    if (window_idx.empty()) tier = next_tier[i];
    if (next_tier[i] == tier) window_idx.push_back(i);
  }
  return window_idx;
}

KeyIdxList LookupOp::tier_hits() const {
  KeyIdxList hits;
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (ends_scan(state[i])) break;
    if (state[i] == Key::tier_hit) hits.push_back(i);
  }
  return hits;
}

std::size_t LookupOp::in_flight() const {
  std::size_t n = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (ends_scan(state[i])) break;
    n += on_its_way(state[i]) ? 1U : 0U;
  }
  return n;
}

std::optional<std::uint32_t> LookupOp::grown(const AtomicGroups& atomic_groups) {
  const auto before = landed_front_;
  while (landed_front_ < size() && (is_on_device(landed_front_) || resolved_hit(state[landed_front_]))) ++landed_front_;
  if (landed_front_ == before) return std::nullopt;
  const auto whole = static_cast<std::uint32_t>(atomic_groups.complete_prefix(*keys, landed_front_));
  const auto readable = std::max(whole, std::min(on_device, landed_front_));
  if (readable <= grown_to_) return std::nullopt;
  grown_to_ = readable;
  return readable;
}

LookupAnswer LookupOp::answer(const AtomicGroups& atomic_groups) const {
  LookupAnswer a;
  const auto reached = reach();
  a.results.assign(size() + capped, LookupResult::miss);
  a.tier_hits.assign(num_tiers + 1, 0);
  std::vector<bool> visible(size());
  for (std::size_t i = 0; i < size(); ++i)
    visible[i] = i < reached && (is_on_device(i) || resolved_hit(state[i]) || on_its_way(state[i]));
  atomic_groups.hide_incomplete(*keys, visible);
  std::fill_n(visible.begin(), on_device, true);  // not ours to hide
  bool leading = true;
  for (std::size_t i = 0; i < size(); ++i) {
    leading = leading && visible[i];
    const bool shown = leading || !prefix() || polled();  // behind its first gap a prefix has nothing to show
    if (visible[i] && shown) {
      a.results[i] = on_its_way(state[i]) ? LookupResult::hit_pending : LookupResult::hit;
    } else if (i < reached && state[i] == Key::retry && (shown || i + 1 == reached)) {
      a.results[i] = LookupResult::retry;
    }
    if (leading) {
      ++a.leading_hits;
      if (!is_on_device(i)) ++a.tier_hits[found_in[i]];
    }
    a.gave_up += state[i] == Key::gave_up ? 1U : 0U;
  }
  a.promoted = promoted;
  a.unheld = unheld;
  a.truncated = truncated;
  a.refused = num_refused;
  a.capped = capped;
  return a;
}

}  // namespace kv_offload
