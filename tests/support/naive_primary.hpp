#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/tests/support/naive_policy.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kv_offload::test {

/// Straight-line model of a primary tier over key numbers: maps, vectors and scans; it recounts where the
/// real one keeps counts. Shares no code with it. `in_use` says how many transfers and readers may touch
/// a slot's bytes; whoever drives the model keeps it.
class NaivePrimary {
 public:
  using Names = std::vector<int>;
  struct Limits {
    ChunkId num_chunks = 0;
    ChunkId headroom = 0;
    ChunkId holds_max = 0;
    std::optional<std::size_t> events_max;  ///< nullopt: no events
  };
  struct Entry {
    ChunkId chunk = kNoChunk;
    bool ready = false;
    bool promoted_unread = false;
    bool detached = false;  ///< forgotten while in use; its key is a negative number now
    int pins = 0;
    int holds = 0;
  };
  struct Event {
    bool removed = false;
    Names keys;
    std::vector<ChunkId> chunks;
    friend bool operator==(const Event&, const Event&) = default;
  };
  struct Store {
    Names keys;  ///< those that were absent, in the order of the call
    std::vector<ChunkId> chunks;
    std::uint32_t evicted = 0;
  };

  NaivePrimary(const Limits& l, const std::string& policy_name)
      : limits(l),
        policy(naive_policy(policy_name, l.num_chunks)),
        generation(l.num_chunks, 0),
        in_use(l.num_chunks, 0) {}

  // -- writing -------------------------------------------------------------------------------------
  std::optional<Store> reserve_store(const Names& call) {
    Store out;
    for (const int k : call)
      if (!entries.contains(k) && std::find(out.keys.begin(), out.keys.end(), k) == out.keys.end())
        out.keys.push_back(k);
    if (out.keys.empty()) return out;
    sample(out.keys.size());
    const auto evicted_before = evictions;
    if (!make_room(out.keys.size(), call, false)) return std::nullopt;
    out.evicted = static_cast<std::uint32_t>(evictions - evicted_before);
    for (const int k : out.keys) out.chunks.push_back(begin_writing(k, false));
    return out;
  }
  /// The keys are absent and distinct. The longest prefix that leaves the headroom; a sample of 1 for
  /// each chunk that was tried one at a time.
  std::vector<ChunkId> reserve_promotion(const Names& call) {
    std::size_t granted = 0;
    while (granted < call.size() && free() + evictable() > limits.headroom + granted) ++granted;
    while (!make_room(granted, {}, true)) granted = std::min<std::size_t>(granted - 1, free());
    std::vector<ChunkId> chunks;
    for (std::size_t i = 0; i < granted; ++i) chunks.push_back(begin_writing(call[i], true));
    for (std::size_t i = 0; i < std::min(call.size(), granted + 1); ++i) sample(1);
    return chunks;
  }
  void publish(const Names& which) {
    Event e;
    for (const int k : which) {
      Entry& entry = entries.at(k);
      if (entry.ready) continue;
      entry.ready = true;
      policy->became_ready(k);
      if (!kept(k)) policy->became_evictable(k);
      e.keys.push_back(k);
      e.chunks.push_back(entry.chunk);
    }
    if (!e.keys.empty()) record(e);
  }
  void drop_writing(const Names& which, bool quarantine) {
    for (const int k : which) {
      if (entries.at(k).ready) continue;
      const ChunkId chunk = entries.at(k).chunk;
      if (!entries.at(k).detached) policy->remove(k);
      entries.erase(k);
      if (quarantine)
        quarantined.insert(chunk);
      else
        free_list.push_back(chunk);
    }
  }

  // -- keeping -------------------------------------------------------------------------------------
  void pin(int k) {
    if (!kept(k)) policy->became_kept(k);
    ++entries.at(k).pins;
    entries.at(k).promoted_unread = false;
  }
  void unpin(int k) {
    --entries.at(k).pins;
    if (!kept(k)) end_keeping(k);
  }
  bool hold(int k) {
    Entry& e = entries.at(k);
    if (e.holds == 0 && held() >= limits.holds_max) return ++holds_refused, false;
    if (e.ready && !kept(k)) policy->became_kept(k);
    ++e.holds;
    return true;
  }
  void release_hold(int k) {
    --entries.at(k).holds;
    if (entries.at(k).ready && !kept(k)) end_keeping(k);
  }

  // -- forgetting ----------------------------------------------------------------------------------
  bool remove(int k) {
    const auto it = entries.find(k);
    if (it == entries.end() || !it->second.ready || kept(k)) return false;
    record({true, {k}, {it->second.chunk}});
    free_list.push_back(it->second.chunk);
    policy->remove(k);
    entries.erase(it);
    return true;
  }
  /// nullopt: the key was absent, or is gone for good; else the number that stands for its chunk from now
  /// on, until the chunk's last use has ended.
  std::optional<int> forget(int k) {
    if (!entries.contains(k) || remove(k)) return std::nullopt;
    Entry e = entries.at(k);
    if (e.ready) record({true, {k}, {e.chunk}});
    policy->remove(k);
    entries.erase(k);
    e.detached = true;
    entries[--last_detached] = e;
    return last_detached;
  }
  void reset() {
    for (ChunkId c = 0; c < limits.num_chunks; ++c)
      if (in_use[c] > 0 && quarantined.insert(c).second) found_in_use.push_back(c);
    entries.clear();
    free_list.clear();
    next_unused = 0;
    policy->clear();
  }
  void release_quarantined(ChunkId chunk) {
    if (!quarantined.contains(chunk)) return;
    std::erase(found_in_use, chunk);
    if (in_use[chunk] > 0) return found_in_use.push_back(chunk);
    quarantined.erase(chunk);
    if (chunk < next_unused) free_list.push_back(chunk);
    // else: numbering restarted below it, it counts as never used again
  }
  ChunkId reclaim() {
    ChunkId n = 0;
    for (const ChunkId c : std::vector<ChunkId>(found_in_use))
      if (in_use[c] == 0) release_quarantined(c), ++n;
    return n;
  }

  // -- counting ------------------------------------------------------------------------------------
  [[nodiscard]] bool kept(int k) const { return entries.at(k).pins > 0 || entries.at(k).holds > 0; }
  template <class F>
  [[nodiscard]] ChunkId count(F what) const {
    return static_cast<ChunkId>(std::count_if(entries.begin(), entries.end(),
                                              [&](const auto& e) { return what(e.second); }));
  }
  [[nodiscard]] ChunkId held() const {
    return count([](const Entry& e) { return e.holds > 0; });
  }
  [[nodiscard]] ChunkId pinned() const {
    return count([](const Entry& e) { return e.pins > 0; });
  }
  [[nodiscard]] ChunkId writing() const {
    return count([](const Entry& e) { return !e.ready; });
  }
  [[nodiscard]] ChunkId evictable() const {
    return count([](const Entry& e) { return e.ready && e.pins == 0 && e.holds == 0; });
  }
  [[nodiscard]] ChunkId unused() const {
    ChunkId n = 0;
    for (ChunkId c = next_unused; c < limits.num_chunks; ++c) n += quarantined.contains(c) ? 0 : 1;
    return n;
  }
  [[nodiscard]] ChunkId free() const { return unused() + static_cast<ChunkId>(free_list.size()); }

  const Limits limits;
  std::unique_ptr<NaivePolicy> policy;
  std::map<int, Entry> entries;
  std::vector<std::uint32_t> generation;  // per slot: how often it was handed out
  std::vector<int> in_use;                // per slot
  std::vector<ChunkId> free_list;         // handed out from the back
  std::set<ChunkId> quarantined;
  std::vector<ChunkId>
      found_in_use;  // those of them that nobody will release: looked at by reclaim
  ChunkId next_unused = 0;
  std::deque<Event> events;
  std::uint64_t events_dropped = 0;
  std::array<std::uint64_t, 10> samples_up_to{};
  std::uint64_t samples = 0, samples_sum = 0;
  int last_detached = 0;
  std::uint64_t holds_refused = 0, evictions = 0, evicted_unread = 0, met_in_use = 0;

 private:
  void end_keeping(int k) {
    if (!entries.at(k).detached) return policy->became_evictable(k);
    free_list.push_back(entries.at(k).chunk);
    entries.erase(k);
  }
  void sample(std::size_t size) {
    std::uint64_t bound = 1;
    for (auto& n : samples_up_to) {
      n += size <= bound ? 1 : 0;
      bound *= 4;
    }
    ++samples;
    samples_sum += size;
  }
  void record(const Event& e) {
    if (!limits.events_max) return;
    events.push_back(e);
    if (events.size() <= *limits.events_max) return;
    events.pop_front();
    ++events_dropped;
  }
  /// Slots in the order in which they would be handed out.
  [[nodiscard]] std::vector<ChunkId> hand_out_order() const {
    std::vector<ChunkId> order;
    for (ChunkId c = next_unused; c < limits.num_chunks; ++c)
      if (!quarantined.contains(c)) order.push_back(c);
    order.insert(order.end(), free_list.rbegin(), free_list.rend());
    return order;
  }
  /// A slot that is in use is never handed out: of the next n, those in use are set aside and counted.
  void set_aside(std::size_t n) {
    std::size_t good = 0;
    for (const ChunkId c : hand_out_order()) {
      if (good == n) return;
      if (in_use[c] == 0) {
        ++good;
        continue;
      }
      std::erase(free_list, c);
      quarantined.insert(c);
      found_in_use.push_back(c);
      ++met_in_use;
    }
  }
  bool make_room(std::size_t n, const Names& call, bool first_victim_first) {
    Event e{true, {}, {}};
    bool enough = false;
    while (true) {
      set_aside(n);
      enough = n <= free();
      if (enough || n - free() > evictable()) break;
      std::set<int> may_go;
      for (const auto& [k, entry] : entries)
        if (entry.ready && !kept(k) && std::find(call.begin(), call.end(), k) == call.end())
          may_go.insert(k);
      const auto victims = policy->evict(n - free(), may_go);
      if (!victims) break;
      for (const int k : *victims) forget_victim(k, first_victim_first, e);
    }
    if (!e.keys.empty()) record(e);
    return enough;
  }
  void forget_victim(int k, bool first_victim_first, Event& e) {
    const Entry& entry = entries.at(k);
    e.keys.push_back(k);
    e.chunks.push_back(entry.chunk);
    ++evictions;
    evicted_unread += entry.promoted_unread ? 1 : 0;
    free_list.insert(first_victim_first ? free_list.begin() : free_list.end(), entry.chunk);
    entries.erase(k);
  }
  ChunkId begin_writing(int k, bool promoted) {
    const ChunkId chunk = hand_out_order().front();
    if (unused() > 0)
      next_unused = chunk + 1;
    else
      free_list.pop_back();
    ++generation[chunk];
    entries[k] = {chunk, false, promoted, false, 0, 0};
    policy->insert(k);
    return chunk;
  }
};

}  // namespace kv_offload::test
