#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv_offload/messages/offload_key.hpp"

namespace kv_offload {

/// Cache groups whose chunks make sense only together (a page and its side data). Chunks with the same
/// content hash in the groups of one set are siblings: they are visible together or not at all, and are
/// asked for in one call. Immutable; without sets every operation does nothing.
class AtomicGroups {
 public:
  static constexpr std::size_t kSetMax = 64;  ///< groups in one set

  AtomicGroups() = default;
  /// Each group is in one set at most; sets have 2 to kSetMax groups.
  explicit AtomicGroups(const std::vector<std::vector<std::uint32_t>>& sets) {
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (std::size_t i = 0; i < sets[s].size(); ++i) places_[sets[s][i]] = {s, std::uint64_t{1} << i};
      whole_.push_back(sets[s].size() >= kSetMax ? ~std::uint64_t{0} : (std::uint64_t{1} << sets[s].size()) - 1);
    }
  }
  [[nodiscard]] bool empty() const { return places_.empty(); }

  /// Clears visible[i] where a sibling of keys[i] is not visible in this call.
  void hide_incomplete(std::span<const OffloadKey> keys, std::vector<bool>& visible) const {
    if (empty()) return;
    std::map<Name, std::uint64_t> seen;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (const auto* place = place_of(keys[i]); place != nullptr && visible[i])
        seen[name_of(keys[i], *place)] |= place->bit;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (const auto* place = place_of(keys[i]); place != nullptr && visible[i])
        visible[i] = seen[name_of(keys[i], *place)] == whole_[place->set];
  }
  /// The longest prefix of the first `n` keys that parts no siblings.
  [[nodiscard]] std::size_t complete_prefix(std::span<const OffloadKey> keys, std::size_t n) const {
    while (!empty() && n > 0) {
      std::vector<bool> visible(n, true);
      hide_incomplete(keys.first(n), visible);
      const auto hidden = std::find(visible.begin(), visible.end(), false);
      if (hidden == visible.end()) break;
      n = static_cast<std::size_t>(hidden - visible.begin());
    }
    return n;
  }
  /// The first of `keys` that a cut at `cut` would part from a sibling behind it; `cut` if there is none.
  [[nodiscard]] std::size_t first_parted(std::span<const OffloadKey> keys, std::size_t cut) const {
    std::map<Name, bool> behind;
    for (std::size_t i = cut; i < keys.size(); ++i)
      if (const auto* place = place_of(keys[i])) behind[name_of(keys[i], *place)] = true;
    for (std::size_t i = 0; i < cut; ++i)
      if (const auto* place = place_of(keys[i]); place != nullptr && behind.contains(name_of(keys[i], *place))) return i;
    return cut;
  }

 private:
  struct Place {
    std::size_t set = 0;
    std::uint64_t bit = 0;
  };
  using Name = std::pair<std::size_t, std::string>;  ///< set and hash

  [[nodiscard]] const Place* place_of(const OffloadKey& key) const {
    const auto it = places_.find(key.group_idx());
    return it == places_.end() ? nullptr : &it->second;
  }
  static Name name_of(const OffloadKey& key, const Place& place) {
    const auto hash = key.content_hash();
    return {place.set, std::string(reinterpret_cast<const char*>(hash.data()), hash.size())};
  }

  std::map<std::uint32_t, Place> places_;
  std::vector<std::uint64_t> whole_;
};

}  // namespace kv_offload
