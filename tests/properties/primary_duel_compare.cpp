#include "kv_offload/tests/properties/primary_duel.hpp"
#include "kv_offload/tests/properties/primary_duel_text.hpp"

#include <string>
#include <utility>

namespace kv_offload::test {

std::string PrimaryDuel::find_all(const PrimaryOp& op) {
  std::vector<PrimaryCache::Found> found(op.pick % 3);
  real_.find_all(keys(names(op)), found);
  if (auto why = differs("answers", found.size(), op.keys.size()); !why.empty()) return why;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != expected(op.keys[i])) return "find_all: answer " + text(i) + " is wrong";
  return {};
}

std::string PrimaryDuel::take_events() {
  std::vector<NaivePrimary::Event> got;
  for (const auto& e : real_.take_events()) {
    if (e.medium != Medium::cpu || e.locality) return "an event of the wrong medium or locality";
    Names named;
    for (const auto& k : e.keys) named.push_back(name_of(k));
    got.push_back({e.removed, std::move(named), e.chunk_ids});
  }
  story_.events += got.size();
  if (auto why = differs("events", got.size(), model_.events.size()); !why.empty()) return why;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(got[i] == model_.events[i]))
      return "event " + text(i) + (got[i].removed ? ": removed " : ": stored ") +
             text(got[i].keys) + ", the model says " +
             (model_.events[i].removed ? "removed " : "stored ") + text(model_.events[i].keys);
  model_.events.clear();
  return {};
}

PrimaryCache::Found PrimaryDuel::expected(int name) const {
  const auto it = model_.entries.find(name);
  if (it == model_.entries.end()) return {};
  return {it->second.ready ? ChunkState::ready : ChunkState::writing, it->second.chunk};
}

std::string PrimaryDuel::compare() const {
  for (int k = 0; k < kPropertyKeys; ++k)
    if (real_.find(key(k)) != expected(k)) return "key " + text(k) + ": state or slot is wrong";
  for (const auto& [k, e] : model_.entries)
    for (auto why : {differs("pins of key " + text(k), real_.pins(e.chunk), e.pins),
                     differs("holds of key " + text(k), real_.holds(e.chunk), e.holds),
                     differs("detached", real_.is_detached(e.chunk), e.detached),
                     differs("key of slot " + text(e.chunk), name_of(real_.key_of(e.chunk)),
                             e.detached ? kPropertyKeys : k)})
      if (!why.empty()) return why;
  for (ChunkId c = 0; c < model_.limits.num_chunks; ++c)
    if (auto why = differs("generation", real_.generation(c), model_.generation[c]); !why.empty())
      return why;
  if (auto why = compare_counters(); !why.empty()) return why;
  std::string why;
  return real_.check_identities(&why) ? std::string() : why;
}

std::string PrimaryDuel::compare_counters() const {
  const auto c = real_.counters();
  const auto& m = model_;
  const ChunkId kept = m.count([](const auto& e) { return !e.ready || e.pins > 0 || e.holds > 0; });
  const std::pair<const char*, std::pair<std::uint64_t, std::uint64_t>> all[] = {
      {"num_chunks", {c.num_chunks, m.limits.num_chunks}},
      {"free", {c.free, m.free()}},
      {"allocated", {c.allocated, m.limits.num_chunks - m.unused()}},
      {"resident", {c.resident, m.count([](const auto& e) { return !e.detached; })}},
      {"evictable", {c.evictable, m.evictable()}},
      {"write_pending", {c.write_pending, m.writing()}},
      {"pinned", {c.pinned, m.pinned()}},
      {"held", {c.held, m.held()}},
      {"quarantined", {c.quarantined, m.quarantined.size()}},
      {"busy", {c.busy(), kept + m.quarantined.size()}},
      {"holds_refused", {c.holds_refused, m.holds_refused}},
      {"events_dropped", {c.events_dropped, m.events_dropped}},
      {"evictions", {c.evictions, m.evictions}},
      {"promotions_evicted_unread", {c.promotions_evicted_unread, m.evicted_unread}},
      {"reused_in_use", {c.reused_in_use, m.met_in_use}},
      {"allocation sizes", {c.allocation_sizes.count(), m.samples}},
      {"sum of allocation sizes", {c.allocation_sizes.sum(), m.samples_sum}},
  };
  for (const auto& [what, pair] : all)
    if (pair.first != pair.second) return differs(what, pair.first, pair.second);
  if (c.allocation_sizes.cumulative() != m.samples_up_to) return "buckets of allocation sizes";
  return {};
}

}  // namespace kv_offload::test
