#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace kv_offload::test {

/// Straight-line model of one primary tier of `capacity` chunks under LRU, without secondary tiers and
/// with one caller: what a replay must find, chunk for chunk. Shares no code with the engine.
///
/// Per request, in this order: the leading chunks that are there are hits and become most recent, front
/// to back; the missing ones enter, all or nothing, in place of the least recent ones outside the rest
/// of the request; then every chunk of the request is touched.
class LruOracle {
 public:
  enum class Touch { front_to_back, back_to_front };

  LruOracle(std::size_t capacity, Touch touch) : capacity_(capacity), touch_(touch) {}

  /// Plays one request; answers its leading hits.
  std::size_t request(const std::vector<std::uint64_t>& ids) {
    std::size_t hits = 0;
    while (hits < ids.size() && where_.contains(ids[hits])) ++hits;
    for (std::size_t i = 0; i < hits; ++i) make_most_recent(ids[i]);
    store({ids.begin() + static_cast<std::ptrdiff_t>(hits), ids.end()});
    if (touch_ == Touch::front_to_back) {
      for (auto id = ids.begin(); id != ids.end(); ++id) make_most_recent(*id);
    } else {
      for (auto id = ids.rbegin(); id != ids.rend(); ++id) make_most_recent(*id);
    }
    return hits;
  }

  [[nodiscard]] std::size_t resident() const { return order_.size(); }
  [[nodiscard]] std::size_t refused_stores() const { return refused_stores_; }

 private:
  void make_most_recent(std::uint64_t id) {
    const auto it = where_.find(id);
    if (it != where_.end()) order_.splice(order_.end(), order_, it->second);
  }

  void store(const std::vector<std::uint64_t>& wanted) {
    const std::unordered_set<std::uint64_t> keep(wanted.begin(), wanted.end());
    std::vector<std::uint64_t> entering;
    std::unordered_set<std::uint64_t> seen;
    for (const auto id : wanted)
      if (!where_.contains(id) && seen.insert(id).second) entering.push_back(id);
    if (entering.empty()) return;
    const std::size_t free = capacity_ - order_.size();
    std::vector<std::uint64_t> victims;
    for (const auto id : order_) {
      if (free + victims.size() >= entering.size()) break;
      if (!keep.contains(id)) victims.push_back(id);
    }
    if (free + victims.size() < entering.size()) {
      ++refused_stores_;
      return;
    }
    for (const auto id : victims) {
      order_.erase(where_.at(id));
      where_.erase(id);
    }
    for (const auto id : entering) where_.emplace(id, order_.insert(order_.end(), id));
  }

  std::size_t capacity_;
  Touch touch_;
  std::list<std::uint64_t> order_;  // least recent first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> where_;
  std::size_t refused_stores_ = 0;
};

}  // namespace kv_offload::test
