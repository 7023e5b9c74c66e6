#include "kv_offload/actors/primary_homes.hpp"

#include <algorithm>
#include <numeric>

// Messages that are divided and gathered key by key; what several homes have to agree on is in
// primary_homes_agreed.cpp.
namespace kv_offload {

PrimaryHomes::PrimaryHomes(SchedulerStepActor::pointer self, DomainMap map,
                           std::vector<PrimaryTierActor> homes, AtomicGroups atomic_groups)
    : self_(self), map_(map), homes_(std::move(homes)), atomic_groups_(std::move(atomic_groups)) {
  for (std::size_t h = 0; h < homes_.size(); ++h) home_of_actor_.emplace(homes_[h].id(), h);
}

std::size_t PrimaryHomes::sender() const {
  return home_of_actor_.at(self_->current_sender()->id());
}

PrimaryHomes::Split PrimaryHomes::split(const KeyList& keys, const KeyIdxList& key_idx,
                                        std::size_t from) const {
  Split out{std::vector<KeyIdxList>(homes_.size()), std::vector<KeyIdxList>(homes_.size())};
  const std::size_t n = key_idx.empty() ? keys.size() - from : key_idx.size();
  for (std::size_t at = 0; at < n; ++at) {
    const auto i = key_idx.empty() ? static_cast<std::uint32_t>(from + at) : key_idx[at];
    const auto home = map_.home_of(keys[i]);
    out.key_idx[home].push_back(i);
    out.positions[home].push_back(static_cast<std::uint32_t>(at));
  }
  return out;
}

std::vector<KeyIdxList> PrimaryHomes::split_chunks(const std::vector<ChunkId>& chunks) const {
  std::vector<KeyIdxList> positions(homes_.size());
  for (std::size_t at = 0; at < chunks.size(); ++at)
    positions[map_.home_of(chunks[at])].push_back(static_cast<std::uint32_t>(at));
  return positions;
}

namespace {

template <class T>
std::vector<T> at_positions(const std::vector<T>& all, const KeyIdxList& positions) {
  std::vector<T> some;
  some.reserve(positions.size());
  for (const auto at : positions) some.push_back(all[at]);
  return some;
}

/// The answer if its last part has come, and its entry is gone.
template <class Table>
auto finished(Table& table, typename Table::iterator it)
    -> std::optional<decltype(it->second.whole)> {
  if (--it->second.waiting > 0) return std::nullopt;
  std::optional whole(std::move(it->second.whole));
  table.erase(it);
  return whole;
}

}  // namespace

// -- what overtakes an answer -----------------------------------------------------------------------------------

/// Answers that name keys whose end KeysResolved tells.
bool PrimaryHomes::is_open(OpId op) const {
  return probes_.contains(op) || claims_.contains(op) || grants_.contains(op) ||
         presents_.contains(op);
}

void PrimaryHomes::note(const KeysResolved& m) {
  if (homes_.size() == 1) return;
  for (const auto& entry : m.entries)
    if (is_open(entry.op)) early_[entry.op].entries.push_back(entry);
}

void PrimaryHomes::note(const LookupChanged& m) {
  if (const auto it = probes_.find(m.op); it != probes_.end()) it->second.whole.watched = false;
}

KeysResolved PrimaryHomes::take_early(OpId op) {
  const auto it = early_.find(op);
  if (it == early_.end() || is_open(op)) return {};
  auto early = std::move(it->second);
  early_.erase(it);
  return early;
}

// -- lookup -------------------------------------------------------------------------------------------------

void PrimaryHomes::spread(PrimaryProbe m) {
  auto parts = split(*m.keys, {}, m.from);
  auto& open = probes_[m.op];
  open.whole.op = m.op;
  open.whole.states.assign(m.keys->size() - m.from, LookupResult::miss);
  open.whole.watched = m.watch;
  open.waiting = send_parts(parts.key_idx, [&](std::size_t h) {
    auto part = m;
    part.key_idx = parts.key_idx[h];
    return part;
  });
  open.positions = std::move(parts.positions);
}

std::optional<PrimaryProbed> PrimaryHomes::gather(const PrimaryProbed& part) {
  const auto it = probes_.find(part.op);
  if (it == probes_.end()) return std::nullopt;
  auto& whole = it->second.whole;
  const auto& positions = it->second.positions[sender()];
  for (std::size_t n = 0; n < part.states.size(); ++n) whole.states[positions[n]] = part.states[n];
  whole.unheld += part.unheld;
  whole.handler_time = std::max(whole.handler_time, part.handler_time);
  whole.watched = whole.watched && part.watched;
  return finished(probes_, it);
}

void PrimaryHomes::spread(PrimaryClaim m) {
  auto parts = split(*m.keys, m.key_idx);
  auto& open = claims_[m.op];
  open.whole = {m.op, std::vector<ClaimState>(m.key_idx.size(), ClaimState::joined)};
  open.waiting = send_parts(parts.key_idx, [&](std::size_t h) {
    auto part = m;
    part.key_idx = parts.key_idx[h];
    return part;
  });
  open.positions = std::move(parts.positions);
}

std::optional<PrimaryClaimed> PrimaryHomes::gather(const PrimaryClaimed& part) {
  const auto it = claims_.find(part.op);
  if (it == claims_.end()) return std::nullopt;
  const auto& positions = it->second.positions[sender()];
  for (std::size_t n = 0; n < part.states.size(); ++n)
    it->second.whole.states[positions[n]] = part.states[n];
  return finished(claims_, it);
}

void PrimaryHomes::spread(const ReleaseHolds& m) {
  const auto parts = split(*m.keys, m.key_idx);
  for (std::size_t h = 0; h < homes_.size(); ++h)
    if (!parts.key_idx[h].empty())
      self_->send(homes_[h], ReleaseHolds{m.request, m.keys, parts.key_idx[h]});
}

void PrimaryHomes::spread(const TouchKeys& m) {
  const auto parts = split(*m.keys, m.key_idx);
  for (std::size_t h = 0; h < homes_.size(); ++h)
    if (!parts.key_idx[h].empty()) self_->send(homes_[h], TouchKeys{m.keys, parts.key_idx[h]});
}

// -- store ----------------------------------------------------------------------------------------------------

void PrimaryHomes::spread(const PublishStore& m) {
  auto parts = split_chunks(m.chunk_ids);
  auto& open = publications_[m.op];
  open.whole.op = m.op;
  open.waiting = send_parts(parts, [&](std::size_t h) {
    return PublishStore{m.op,
                        at_positions(m.chunk_ids, parts[h]),
                        at_positions(m.generations, parts[h]),
                        m.success,
                        m.hold,
                        m.epoch};
  });
  open.positions = std::move(parts);
}

std::optional<StorePublished> PrimaryHomes::gather(const StorePublished& part) {
  const auto it = publications_.find(part.op);
  if (it == publications_.end()) return std::nullopt;  // of a reservation that was given back
  auto& whole = it->second.whole;
  whole.published += part.published;
  for (const auto n : part.forgotten) whole.forgotten.push_back(it->second.positions[sender()][n]);
  auto done = finished(publications_, it);
  if (done) std::sort(done->forgotten.begin(), done->forgotten.end());
  return done;
}

void PrimaryHomes::spread(PinPresent m) {
  const auto parts = split(*m.keys, m.key_idx);
  auto& open = presents_[m.op];
  open.whole.op = m.op;
  open.waiting = send_parts(parts.key_idx, [&](std::size_t h) {
    auto part = m;
    part.key_idx = parts.key_idx[h];
    return part;
  });
}

std::optional<PresentPinned> PrimaryHomes::gather(const PresentPinned& part) {
  const auto it = presents_.find(part.op);
  if (it == presents_.end()) return std::nullopt;
  auto& whole = it->second.whole;
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(whole.pinned, part.pinned);
  append(whole.chunk_ids, part.chunk_ids);
  append(whole.generations, part.generations);
  append(whole.writing, part.writing);
  append(whole.absent, part.absent);
  auto done = finished(presents_, it);
  if (!done) return std::nullopt;
  KeyIdxList order(done->pinned.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return done->pinned[a] < done->pinned[b]; });
  done->pinned = at_positions(done->pinned, order);
  done->chunk_ids = at_positions(done->chunk_ids, order);
  done->generations = at_positions(done->generations, order);
  std::sort(done->writing.begin(), done->writing.end());
  std::sort(done->absent.begin(), done->absent.end());
  return done;
}

void PrimaryHomes::spread(const PinCascades& m) {
  const auto parts = split_chunks(m.chunk_ids);
  for (std::size_t h = 0; h < homes_.size(); ++h)
    if (!parts[h].empty())
      self_->send(homes_[h],
                  PinCascades{at_positions(m.chunk_ids, parts[h]), m.pins_per_chunk, m.epoch});
}

void PrimaryHomes::spread(const Unpin& m) {
  const auto parts = split_chunks(m.chunk_ids);
  for (std::size_t h = 0; h < homes_.size(); ++h)
    if (!parts[h].empty())
      self_->send(homes_[h], Unpin{at_positions(m.chunk_ids, parts[h]), m.epoch});
}

// -- requests, reset, events ----------------------------------------------------------------------------------

void PrimaryHomes::spread(const EndRequest& m) {
  for (auto& [op, open] : grants_)
    if (open.asked.request == m.request)
      open.limit = 0;  // no further home is asked, and what it got is given back
  send_all(m);
}

void PrimaryHomes::spread(const ResetPrimary& m) {
  const auto parts = split_chunks(m.busy_chunks);
  auto& open = resets_[m.op];
  open.whole.op = m.op;
  for (std::size_t h = 0; h < homes_.size(); ++h)
    self_->send(homes_[h], ResetPrimary{m.op, m.epoch, at_positions(m.busy_chunks, parts[h])});
  open.waiting = homes_.size();
}

std::optional<PrimaryReset> PrimaryHomes::gather(const PrimaryReset& part) {
  const auto it = resets_.find(part.op);
  return it == resets_.end() ? std::nullopt : finished(resets_, it);
}

void PrimaryHomes::spread(const TakeEvents& m) {
  auto& open = events_[m.op];
  open.by_home.resize(homes_.size());
  open.waiting = send_all(m);
}

std::optional<EventsTaken> PrimaryHomes::gather(const EventsTaken& part) {
  if (part.source != 0) return part;  // a tier's
  const auto it = events_.find(part.op);
  if (it == events_.end()) return std::nullopt;
  it->second.by_home[sender()] = part.events;
  if (--it->second.waiting > 0) return std::nullopt;
  EventsTaken whole{part.op, 0, {}};
  for (auto& events : it->second.by_home)
    whole.events.insert(whole.events.end(), std::make_move_iterator(events.begin()),
                        std::make_move_iterator(events.end()));
  events_.erase(it);
  return whole;
}

void PrimaryHomes::spread(const ForgetKeys& m) {
  auto& open = forgets_[m.op];
  open.whole.op = m.op;
  open.waiting = send_all(m);  // whose home is elsewhere is not found here
}

std::optional<KeysForgotten> PrimaryHomes::gather(const KeysForgotten& part) {
  if (part.source != 0) return part;  // a tier's
  const auto it = forgets_.find(part.op);
  if (it == forgets_.end()) return std::nullopt;
  it->second.whole.chunks += part.chunks;
  return finished(forgets_, it);
}

}  // namespace kv_offload
