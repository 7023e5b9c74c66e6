#include "kv_offload/actors/primary_homes.hpp"

#include <algorithm>
#include <utility>

// What several homes have to agree on: reservations, leading pins, slots for one contiguous prefix.
namespace kv_offload {

// -- a store: slots everywhere or nowhere -----------------------------------------------------------------------

void PrimaryHomes::spread(ReserveStore m) {
  auto parts = split(*m.keys, {});
  auto& open = reservations_[m.op];
  open.answers.whole.op = m.op;
  open.answers.whole.ok = true;
  for (std::size_t h = 0; h < homes_.size(); ++h) {
    if (parts.key_idx[h].empty() && (h > 0 || !m.keys->empty())) continue;
    auto part = m;
    part.key_idx = std::move(parts.key_idx[h]);
    self_->send(homes_[h], std::move(part));
    ++open.answers.waiting;
  }
}

std::optional<StoreReserved> PrimaryHomes::gather(const StoreReserved& part) {
  const auto it = reservations_.find(part.op);
  if (it == reservations_.end()) return std::nullopt;
  auto& open = it->second;
  auto& whole = open.answers.whole;
  whole.evicted += part.evicted;
  whole.ok = whole.ok && part.ok;
  if (part.ok) {
    open.reserved.push_back(static_cast<DomainId>(sender()));
    open.give_back.push_back(
        PublishStore{part.op, part.chunk_ids, part.generations, false, false, epoch_});
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(whole.key_idx, part.key_idx);
    append(whole.chunk_ids, part.chunk_ids);
    append(whole.generations, part.generations);
  }
  if (--open.answers.waiting > 0) return std::nullopt;
  auto done = std::move(open);
  reservations_.erase(it);
  auto& all = done.answers.whole;
  if (!all.ok) {
    for (std::size_t n = 0; n < done.reserved.size(); ++n)
      if (!done.give_back[n].chunk_ids.empty())
        self_->send(homes_[done.reserved[n]], std::move(done.give_back[n]));
    StoreReserved refused;
    refused.op = part.op;
    refused.evicted = all.evicted;
    return refused;
  }
  // In the call's order, whichever home answered first.
  std::vector<std::size_t> order(all.key_idx.size());
  for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return all.key_idx[a] < all.key_idx[b]; });
  StoreReserved whole_in_order;
  whole_in_order.op = all.op;
  whole_in_order.ok = true;
  whole_in_order.evicted = all.evicted;
  for (const auto n : order) {
    whole_in_order.key_idx.push_back(all.key_idx[n]);
    whole_in_order.chunk_ids.push_back(all.chunk_ids[n]);
    whole_in_order.generations.push_back(all.generations[n]);
  }
  return whole_in_order;
}

// -- a load: the leading keys that are there --------------------------------------------------------------------

void PrimaryHomes::spread(PinLeading m) {
  auto parts = split(*m.keys, {});
  auto& open = pins_[m.op];
  open.keys = m.keys;
  open.chunks.assign(m.keys->size(), kNoChunk);
  open.waiting = send_parts(parts.key_idx, [&](std::size_t h) {
    auto part = m;
    part.key_idx = parts.key_idx[h];
    return part;
  });
  open.positions = std::move(parts.positions);
}

std::optional<LeadingPinned> PrimaryHomes::gather(const LeadingPinned& part) {
  const auto it = pins_.find(part.op);
  if (it == pins_.end()) return std::nullopt;
  const auto& positions = it->second.positions[sender()];
  for (std::size_t n = 0; n < part.chunk_ids.size(); ++n)
    it->second.chunks[positions[n]] = part.chunk_ids[n];
  if (--it->second.waiting > 0) return std::nullopt;
  auto chunks = std::move(it->second.chunks);
  const auto missing = std::find(chunks.begin(), chunks.end(), kNoChunk);
  const auto leading = atomic_groups_.complete_prefix(
      *it->second.keys, static_cast<std::size_t>(missing - chunks.begin()));
  pins_.erase(it);
  Unpin behind{{}, epoch_};
  for (auto at = leading; at < chunks.size(); ++at)
    if (chunks[at] != kNoChunk) behind.chunk_ids.push_back(chunks[at]);
  spread(behind);
  chunks.resize(leading);
  return LeadingPinned{part.op, std::move(chunks)};
}

// -- promotions: slots for one prefix, home by home -------------------------------------------------------------

void PrimaryHomes::end_claims(const SharedKeys& keys, const KeyIdxList& key_idx,
                              ResolveFailure failure) {
  if (key_idx.empty()) return;
  const auto parts = split(*keys, key_idx);
  for (std::size_t h = 0; h < homes_.size(); ++h)
    if (!parts.key_idx[h].empty())
      self_->send(homes_[h], EndClaims{keys, parts.key_idx[h], failure});
}

void PrimaryHomes::spread(PrimaryGrant m) {
  // Who waits for a refused key hears of it now, not when the last home has answered.
  end_claims(m.keys, std::exchange(m.dropped, {}), ResolveFailure::refused);
  const auto op = m.op;
  auto& open = grants_[op] = OpenGrant{};
  if (m.admitted.empty())  // one home has to answer all the same
    open.split = {std::vector<KeyIdxList>(homes_.size()), std::vector<KeyIdxList>(homes_.size())};
  else
    open.split = split(*m.keys, m.admitted);
  open.whole = PrimaryGranted{op, std::vector<GrantState>(m.admitted.size(), GrantState::no_space),
                              std::vector<ChunkId>(m.admitted.size(), kNoChunk),
                              std::vector<std::uint32_t>(m.admitted.size(), 0)};
  open.limit = m.admitted.size();
  open.asked = std::move(m);
  if (open.asked.admitted.empty())
    self_->send(homes_.front(), open.asked);
  else
    ask_next_home(open);
}

/// The first home from open.home on that has keys of the prefix; claims behind it end. False: there is none.
bool PrimaryHomes::ask_next_home(OpenGrant& open) {
  for (; open.home < homes_.size(); ++open.home) {
    const auto& positions = open.split.positions[open.home];
    const auto& idx = open.split.key_idx[open.home];
    const auto in_prefix =
        std::lower_bound(positions.begin(), positions.end(), open.limit) - positions.begin();
    end_claims(open.asked.keys, KeyIdxList(idx.begin() + in_prefix, idx.end()),
               ResolveFailure::unclaimed);
    if (in_prefix == 0) continue;
    auto part = open.asked;
    part.admitted.assign(idx.begin(), idx.begin() + in_prefix);
    self_->send(homes_[open.home], std::move(part));
    return true;
  }
  return false;
}

std::optional<PrimaryGranted> PrimaryHomes::gather(const PrimaryGranted& part) {
  const auto it = grants_.find(part.op);
  if (it == grants_.end()) return std::nullopt;
  if (part.waits) return part;
  auto& open = it->second;
  const auto& positions = open.split.positions[sender()];
  for (std::size_t n = 0; n < part.states.size(); ++n) {
    const auto at = positions[n];
    open.whole.states[at] = part.states[n];
    open.whole.chunk_ids[at] = part.chunk_ids[n];
    open.whole.generations[at] = part.generations[n];
    if (part.states[n] == GrantState::no_space) open.limit = std::min<std::size_t>(open.limit, at);
  }
  ++open.home;
  if (!open.asked.admitted.empty() && ask_next_home(open)) return std::nullopt;
  auto done = std::move(open);
  grants_.erase(it);
  return granted_prefix(std::move(done));
}

/// Slots behind the first key that got none are given back: they would be loaded for nobody.
PrimaryGranted PrimaryHomes::granted_prefix(OpenGrant open) {
  std::vector<TransferEnd> given_back(homes_.size());
  for (auto at = open.limit; at < open.whole.states.size(); ++at) {
    if (open.whole.states[at] != GrantState::granted) continue;
    given_back[map_.home_of(open.whole.chunk_ids[at])].chunk_ids.push_back(
        open.whole.chunk_ids[at]);
    open.whole.states[at] = GrantState::no_space;
    open.whole.chunk_ids[at] = kNoChunk;
  }
  for (std::size_t h = 0; h < homes_.size(); ++h) {
    auto& end = given_back[h];
    if (end.chunk_ids.empty()) continue;
    end.is_promotion = end.outcome = end.quiesced = end.never_began = true;
    end.epoch = epoch_;
    self_->send(homes_[h], TransfersEnded{{std::move(end)}});
  }
  return std::move(open.whole);
}

}  // namespace kv_offload
