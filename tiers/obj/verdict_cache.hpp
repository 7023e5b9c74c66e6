#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offload_key.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace kv_offload {

/// What was lately seen of keys in a store: there, or not. Bounded, the oldest goes first; each verdict has an end,
/// because other engines store and remove, too. One owner.
class VerdictCache {
 public:
  VerdictCache(std::size_t keys_max, Duration positive_ttl, Duration negative_ttl)
      : keys_max_(keys_max), positive_ttl_(positive_ttl), negative_ttl_(negative_ttl) {}

  void put(const OffloadKey& key, bool present, MonotonicTime now) {
    const Verdict verdict{present, now + (present ? positive_ttl_ : negative_ttl_), ++sequence_};
    verdicts_.insert_or_assign(key, verdict);
    order_.emplace_back(key, sequence_);
    // What was put again stands in the order twice; the older place says nothing.
    while (verdicts_.size() > keys_max_ || order_.size() > 2 * keys_max_) drop_oldest();
  }
  [[nodiscard]] std::optional<bool> find(const OffloadKey& key, MonotonicTime now) const {
    const auto it = verdicts_.find(key);
    if (it == verdicts_.end() || it->second.ends <= now) return std::nullopt;
    return it->second.present;
  }
  void erase(const OffloadKey& key) { verdicts_.erase(key); }
  void clear() {
    verdicts_.clear();
    order_.clear();
  }
  [[nodiscard]] std::size_t size() const { return verdicts_.size(); }

 private:
  struct Verdict {
    bool present = false;
    MonotonicTime ends;
    std::uint64_t sequence = 0;
  };
  void drop_oldest() {
    const auto& [key, sequence] = order_.front();
    const auto it = verdicts_.find(key);
    if (it != verdicts_.end() && it->second.sequence == sequence) verdicts_.erase(it);
    order_.pop_front();
  }

  const std::size_t keys_max_;
  const Duration positive_ttl_;
  const Duration negative_ttl_;
  std::uint64_t sequence_ = 0;
  absl::flat_hash_map<OffloadKey, Verdict> verdicts_;
  std::deque<std::pair<OffloadKey, std::uint64_t>> order_;
};

}  // namespace kv_offload
