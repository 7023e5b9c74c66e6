#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace kv_offload {

/// Keys by slot, one byte more than the longest of them each: an OffloadKey has room for 68 bytes, those
/// of one engine usually have 20 or 36. A longer key than any before moves all of them once.
/// One owner.
class CompactKeys {
 public:
  /// Reserves address space; memory becomes resident as slots are used. Throws std::bad_alloc.
  explicit CompactKeys(std::size_t num_slots) : num_slots_(num_slots) {
    bytes_.reserve(num_slots_ * (kUsualBytes + 1));
  }

  void set(ChunkId slot, const OffloadKey& key) {
    const auto bytes = key.bytes();
    if (bytes.size() > stride_) widen(bytes.size());
    const std::size_t end = (std::size_t{slot} + 1) * (stride_ + 1);
    if (bytes_.size() < end) bytes_.resize(end);
    std::byte* at = bytes_.data() + end - (stride_ + 1);
    *at = static_cast<std::byte>(bytes.size());
    std::memcpy(at + 1, bytes.data(), bytes.size());
  }
  /// The last key that was set for the slot; it was set at least once.
  [[nodiscard]] std::span<const std::byte> bytes(ChunkId slot) const {
    const std::byte* at = bytes_.data() + std::size_t{slot} * (stride_ + 1);
    return {at + 1, std::to_integer<std::size_t>(*at)};
  }
  [[nodiscard]] OffloadKey get(ChunkId slot) const {
    return OffloadKey::from_bytes(bytes(slot)).value_or(OffloadKey{});
  }
  /// Asks the processor to fetch what equals() will read.
  void prefetch(ChunkId slot) const {
    const std::byte* at = bytes_.data() + std::size_t{slot} * (stride_ + 1);
    __builtin_prefetch(at);
    __builtin_prefetch(at + stride_);  // of two cache lines, often
  }
  [[nodiscard]] bool equals(ChunkId slot, const OffloadKey& key) const {
    const auto ours = bytes(slot);
    const auto theirs = key.bytes();
    return ours.size() == theirs.size() &&
           std::memcmp(ours.data(), theirs.data(), ours.size()) == 0;
  }

 private:
  static constexpr std::size_t kUsualBytes = 36;  // SHA-256 and the group
  static constexpr std::size_t kStep = 8;  // keys of many lengths move a few times, not 60

  void widen(std::size_t length) {
    const std::size_t wider =
        stride_ == 0 ? length : std::min(std::max(length, stride_ + kStep), OffloadKey::kMaxBytes);
    std::vector<std::byte> moved;
    moved.reserve(num_slots_ * (wider + 1));
    const std::size_t used = bytes_.size() / (stride_ + 1);
    moved.resize(used * (wider + 1));
    for (std::size_t i = 0; i < used; ++i)
      std::memcpy(moved.data() + i * (wider + 1), bytes_.data() + i * (stride_ + 1), stride_ + 1);
    bytes_ = std::move(moved);
    stride_ = wider;
  }

  std::size_t num_slots_;
  std::size_t stride_ = 0;  // of the key; its length stands before it
  std::vector<std::byte> bytes_;
};

}  // namespace kv_offload
