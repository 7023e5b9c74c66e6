#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace kv_offload::test {

/// A key with a 32-byte hash that spreads over directories as real hashes do.
inline OffloadKey tier_key(std::uint64_t name, std::uint32_t group = 0) {
  std::array<std::byte, 32> hash{};
  std::uint64_t mixed = (name + 1) * 0x9e3779b97f4a7c15ULL;
  for (std::size_t i = 0; i < hash.size(); ++i, mixed = mixed * 6364136223846793005ULL + 1)
    hash[i] = static_cast<std::byte>(mixed >> 56);
  return *OffloadKey::make(hash, group);
}
inline KeyList tier_keys(std::uint64_t first, std::size_t count) {
  KeyList keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(tier_key(first + i));
  return keys;
}

/// A primary tier's memory for tests: page-aligned rows with known bytes and use counts.
class TierMemory {
 public:
  TierMemory(ChunkId num_chunks, std::uint64_t row_bytes, std::uint64_t payload_bytes = 0)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, num_chunks * row_bytes))),
        in_use_(num_chunks) {
    std::memset(bytes_.get(), 0, num_chunks * row_bytes);
    view_.base = bytes_.get();
    view_.row_bytes = row_bytes;
    view_.payload_bytes = payload_bytes == 0 ? row_bytes : payload_bytes;
    view_.num_chunks = num_chunks;
    view_.in_use = in_use_.data();
  }

  [[nodiscard]] const PrimaryView& view() const { return view_; }
  [[nodiscard]] std::span<std::byte> row(ChunkId chunk) const { return view_.row(chunk); }
  /// Bytes that depend on `name` and position.
  void fill(ChunkId chunk, std::uint64_t name) {
    const std::vector<std::byte> bytes = expected(name);
    std::memcpy(row(chunk).data(), bytes.data(), view_.payload_bytes);
  }
  void clear(ChunkId chunk) { std::memset(row(chunk).data(), 0xee, view_.row_bytes); }
  [[nodiscard]] bool holds(ChunkId chunk, std::uint64_t name) const {
    const std::vector<std::byte> bytes = expected(name);
    return std::memcmp(row(chunk).data(), bytes.data(), view_.row_bytes) == 0;
  }
  /// What a row filled with `name` holds, padding included.
  [[nodiscard]] std::vector<std::byte> expected(std::uint64_t name) const {
    std::vector<std::byte> bytes(view_.row_bytes);
    std::uint64_t state = name * 0x9e3779b97f4a7c15ULL + 1;
    for (std::uint64_t i = 0; i < view_.payload_bytes; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      bytes[i] = static_cast<std::byte>(state >> 56);
    }
    return bytes;
  }
  [[nodiscard]] std::uint32_t uses() const {
    std::uint32_t sum = 0;
    for (const auto& count : in_use_) sum += count.load();
    return sum;
  }
  [[nodiscard]] std::uint32_t uses(ChunkId chunk) const { return in_use_[chunk].load(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::vector<std::atomic<std::uint32_t>> in_use_;
  PrimaryView view_;
};

}  // namespace kv_offload::test
