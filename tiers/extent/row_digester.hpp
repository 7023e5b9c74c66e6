#pragma once

#include "kv_offload/tiers/digest.hpp"

#include <span>
#include <string_view>

namespace kv_offload {

/// What the record of a row carries that was stored without a digest.
inline constexpr ChunkDigest kNoDigest{};

/// Digests of rows, or none of them with `checksum: off`. A row without one counts as right while digests are
/// off, and as damaged once they are on again. Lane thread.
class RowDigester {
 public:
  RowDigester(std::string_view name_space, bool is_on) : digester_(name_space), is_on_(is_on) {}

  [[nodiscard]] ChunkDigest make(const OffloadKey& key, std::span<const std::byte> row) const {
    return is_on_ ? digester_.digest(key, row) : kNoDigest;
  }
  /// Always true while digests are off.
  [[nodiscard]] bool matches(const ChunkDigest& digest, const OffloadKey& key,
                             std::span<const std::byte> row) const {
    return !is_on_ || (digest != kNoDigest && digester_.digest(key, row) == digest);
  }
  [[nodiscard]] bool is_on() const { return is_on_; }

 private:
  ChunkDigester digester_;
  bool is_on_;
};

}  // namespace kv_offload
