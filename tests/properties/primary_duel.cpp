#include "kv_offload/tests/properties/primary_duel.hpp"

#include "kv_offload/tests/properties/primary_duel_text.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"

#include <algorithm>
#include <set>

namespace kv_offload::test {
namespace {

/// One more slot in use although free: enough to meet every path, and such a slot is a broken promise of
/// others in the first place.
constexpr std::size_t kReadersMax = 3;

bool is_there(const NaivePrimary::Entry& e) { return e.ready && !e.detached; }

PrimaryCache::Limits limits(const PrimarySetup& s) {
  PrimaryCache::Limits l;
  l.num_chunks = s.num_chunks;
  l.headroom_chunks = s.headroom;
  l.hold_chunks_max = s.holds_max;
  l.events = s.events_max > 0;
  l.events_max = s.events_max;
  return l;
}
NaivePrimary::Limits naive_limits(const PrimarySetup& s) {
  NaivePrimary::Limits l{s.num_chunks, s.headroom, s.holds_max, std::nullopt};
  if (s.events_max > 0) l.events_max = s.events_max;
  return l;
}

}  // namespace

PrimaryDuel::PrimaryDuel(const std::string& policy, const PrimarySetup& setup)
    : in_use_(setup.num_chunks),
      real_(limits(setup),
            std::move(EvictionPolicyRegistry().make(policy, setup.num_chunks)).value(),
            in_use_.data()),
      model_(naive_limits(setup), policy) {}

std::string PrimaryDuel::play(const PrimaryOp& op) {
  ++story_.ops;
  if (auto why = act(op); !why.empty()) return why;
  if (auto why = compare(); !why.empty()) return why;
  story_.evictions = model_.evictions;
  story_.refused_holds = model_.holds_refused;
  story_.evicted_unread = model_.evicted_unread;
  story_.met_in_use = model_.met_in_use;
  story_.dropped_events = model_.events_dropped;
  return {};
}

std::string PrimaryDuel::act(const PrimaryOp& op) {
  using K = PrimaryOp::Kind;
  switch (op.kind) {
    case K::store: return store(op);
    case K::promote: return promote(op);
    case K::publish:
    case K::drop:
    case K::split: return finish_write(op);
    case K::pin: return pin(op);
    case K::unpin: return unpin(op);
    case K::pin_refused:
    case K::hold_refused: return refuse(op);
    case K::hold: return hold(op);
    case K::release_hold: return release_hold(op);
    case K::release_stale: return release_stale(op);
    case K::touch:
      model_.policy->touch(names(op));
      real_.touch(keys(names(op)));
      return {};
    case K::remove: return remove(op);
    case K::forget: return forget(op);
    case K::reset: return reset();
    case K::transfer_ends: return transfer_ends(op);
    case K::reader_appears:
    case K::reader_leaves: return reader(op);
    case K::reclaim: {
      const ChunkId n = model_.reclaim();
      story_.reclaimed += n;
      return differs("reclaimed", real_.reclaim_quarantined(), n);
    }
    case K::find_all: return find_all(op);
    case K::take_events: return take_events();
  }
  return "no such call";
}

// -- writing ---------------------------------------------------------------------------------------

std::string PrimaryDuel::store(const PrimaryOp& op) {
  const Names call = names(op);
  const auto expected = model_.reserve_store(call);
  const auto got = real_.reserve_store(keys(call));
  if (auto why = differs("store granted", got.has_value(), expected.has_value()); !why.empty())
    return why;
  if (!got) return ++story_.refused_stores, std::string();
  Names stored;
  for (const auto i : got->key_idx) stored.push_back(call.at(i));
  for (auto why : {differs("keys to store", stored, expected->keys),
                   differs("slots", got->chunks, expected->chunks),
                   differs("evicted", got->evicted, expected->evicted)})
    if (!why.empty()) return why;
  for (const ChunkId c : expected->chunks) begin_use(c);
  if (!stored.empty()) writes_.push_back(std::move(stored));
  return {};
}

std::string PrimaryDuel::promote(const PrimaryOp& op) {
  Names call;
  for (const int k : names(op))
    if (!model_.entries.contains(k) && std::find(call.begin(), call.end(), k) == call.end())
      call.push_back(k);
  const Ids expected = model_.reserve_promotion(call);
  Ids got;
  const auto granted = real_.reserve_promotion(keys(call), got);
  if (auto why = differs("slots", got, expected); !why.empty()) return why;
  if (auto why = differs("granted", granted, expected.size()); !why.empty()) return why;
  story_.cut_promotions += granted < call.size() ? 1 : 0;
  for (const ChunkId c : expected) begin_use(c);
  call.resize(granted);
  if (granted > 0) writes_.push_back(std::move(call));
  return {};
}

std::string PrimaryDuel::finish_write(const PrimaryOp& op) {
  if (writes_.empty()) return {};
  const auto at = static_cast<std::ptrdiff_t>(op.pick % writes_.size());
  Names good = writes_[static_cast<std::size_t>(at)];
  writes_.erase(writes_.begin() + at);
  Names bad;
  if (op.kind == PrimaryOp::Kind::drop) bad.swap(good);
  if (op.kind == PrimaryOp::Kind::split) {
    const auto cut = good.begin() + static_cast<std::ptrdiff_t>(op.pick % good.size());
    bad.assign(good.begin(), cut);
    good.erase(good.begin(), cut);
  }
  // A chunk that was forgotten meanwhile is not published.
  const auto forgotten = std::stable_partition(
      good.begin(), good.end(), [this](int k) { return !model_.entries.at(k).detached; });
  bad.insert(bad.end(), forgotten, good.end());
  good.erase(forgotten, good.end());
  const bool quarantine = op.pick % 2 == 1;
  for (const int k : good) end_use(slot(k));
  for (const int k : bad) {
    if (!quarantine)
      end_use(slot(k));
    else
      overdue_.push_back(slot(k)), ++story_.quarantined;
  }
  // A chunk that is ready already is named, too: it stays as it is.
  if (const int other = choose(op.pick / 2, is_there); other != kNone) {
    good.insert(good.begin(), other);
    bad.push_back(other);
  }
  const Ids good_slots = slots(good), bad_slots = slots(bad);
  model_.publish(good);
  real_.publish(good_slots);
  model_.drop_writing(bad, quarantine);
  real_.drop_writing(bad_slots, quarantine);
  return {};
}

// -- keeping ---------------------------------------------------------------------------------------

std::string PrimaryDuel::pin(const PrimaryOp& op) {
  const int k = choose(op.pick, is_there);
  if (k == kNone) return {};
  begin_use(slot(k));
  model_.pin(k);
  return differs("pinned", real_.pin(slot(k)), true);
}

std::string PrimaryDuel::unpin(const PrimaryOp& op) {
  const int k = choose(op.pick, [](const auto& e) { return e.pins > 0; });
  if (k == kNone) return {};
  const ChunkId c = slot(k);  // a forgotten chunk is gone afterwards
  end_use(c);
  model_.unpin(k);
  if (op.pick % 2 == 1)
    real_.unpin(c, model_.generation[c]);
  else
    real_.unpin(c);
  return {};
}

/// Slots that cannot be kept: nobody's, unknown ones, and for a pin those still being written.
std::string PrimaryDuel::refuse(const PrimaryOp& op) {
  const bool is_pin = op.kind == PrimaryOp::Kind::pin_refused;
  Ids refused{kNoChunk, model_.limits.num_chunks};
  std::set<ChunkId> taken;
  for (const auto& [k, e] : model_.entries)
    if (e.ready || !is_pin) taken.insert(e.chunk);
  for (ChunkId c = 0; c < model_.limits.num_chunks; ++c)
    if (!taken.contains(c)) refused.push_back(c);
  const ChunkId c = refused[op.pick % refused.size()];
  if (is_pin) return differs("pinned", real_.pin(c), false);
  return differs("held", real_.try_hold(c), false);
}

std::string PrimaryDuel::hold(const PrimaryOp& op) {
  const int k = choose(op.pick, [](const auto& e) { return !e.detached; });
  if (k == kNone) return {};
  const bool held = model_.hold(k);
  return differs("held", real_.try_hold(slot(k)), held);
}

std::string PrimaryDuel::release_hold(const PrimaryOp& op) {
  const int k = choose(op.pick, [](const auto& e) { return e.holds > 0; });
  if (k == kNone) return {};
  const ChunkId c = slot(k);
  model_.release_hold(k);
  if (op.pick % 2 == 1)
    real_.release_hold(c, model_.generation[c]);
  else
    real_.release_hold(c);
  return {};
}

std::string PrimaryDuel::release_stale(const PrimaryOp& op) {
  if (model_.limits.num_chunks == 0) return {};
  const ChunkId c = op.pick % model_.limits.num_chunks;
  real_.unpin(c, model_.generation[c] - 1);
  real_.release_hold(c, model_.generation[c] - 1);
  return {};
}

// -- forgetting ------------------------------------------------------------------------------------

std::string PrimaryDuel::remove(const PrimaryOp& op) {
  for (const int k : names(op)) {
    const bool removed = model_.remove(k);
    if (auto why = differs("removed", real_.remove(key(k)), removed); !why.empty()) return why;
  }
  return {};
}

std::string PrimaryDuel::forget(const PrimaryOp& op) {
  for (const int k : names(op)) {
    const ChunkState was = expected(k).state;
    if (const auto stand_in = model_.forget(k)) {
      ++story_.detached;
      for (Names& write : writes_) std::replace(write.begin(), write.end(), k, *stand_in);
    }
    if (real_.forget(key(k)) != was) return "forget: key " + text(k) + " was in another state";
  }
  return {};
}

/// Whoever reads or writes goes on: its slots stay in use.
std::string PrimaryDuel::reset() {
  ++story_.resets;
  for (const auto& [k, e] : model_.entries)
    for (int i = 0; i < (e.ready ? e.pins : 1); ++i) overdue_.push_back(e.chunk);
  writes_.clear();
  model_.reset();
  real_.reset();
  return {};
}

std::string PrimaryDuel::transfer_ends(const PrimaryOp& op) {
  if (overdue_.empty()) return {};
  const auto at = overdue_.begin() + static_cast<std::ptrdiff_t>(op.pick % overdue_.size());
  const ChunkId c = *at;
  overdue_.erase(at);
  end_use(c);
  if (model_.in_use[c] > 0 && op.pick % 2 == 0) return {};  // the last one releases
  model_.release_quarantined(c);
  real_.release_quarantined(c);
  return {};
}

std::string PrimaryDuel::reader(const PrimaryOp& op) {
  if (op.kind == PrimaryOp::Kind::reader_leaves) {
    if (readers_.empty()) return {};
    end_use(readers_.back());
    readers_.pop_back();
  } else if (readers_.size() < kReadersMax && model_.limits.num_chunks > 0) {
    readers_.push_back(op.pick % model_.limits.num_chunks);
    begin_use(readers_.back());
  }
  return {};
}

// -- choosing --------------------------------------------------------------------------------------

template <class F>
int PrimaryDuel::choose(std::uint32_t pick, F fits) const {
  Names found;
  for (const auto& [k, e] : model_.entries)
    if (fits(e)) found.push_back(k);
  return found.empty() ? kNone : found[pick % found.size()];
}

std::vector<ChunkId> PrimaryDuel::slots(const Names& which) const {
  Ids out;
  for (const int k : which) out.push_back(slot(k));
  return out;
}

void PrimaryDuel::begin_use(ChunkId chunk) {
  ++model_.in_use[chunk];
  ++in_use_[chunk];
}
void PrimaryDuel::end_use(ChunkId chunk) {
  --model_.in_use[chunk];
  --in_use_[chunk];
}

}  // namespace kv_offload::test
