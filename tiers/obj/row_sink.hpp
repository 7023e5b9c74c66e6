#pragma once

#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/obj/http_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace kv_offload {

/// Puts the body of an answer into a slot of the primary tier and digests it on the way, while the cache has it:
/// the one copy of a load. Lane thread.
class RowSink final : public BodySink {
 public:
  void open(std::span<std::byte> row, bool with_digest) {
    row_ = row;
    with_digest_ = with_digest;
    begin();
  }
  void begin() override {
    at_ = 0;
    if (with_digest_) digest_.begin();
  }
  bool take(std::span<const std::byte> piece) override {
    if (piece.size() > row_.size() - at_) return false;
    constexpr std::size_t kFused = 8192;  // stays in the first-level cache between copy and digest
    while (!piece.empty()) {
      const auto part = piece.first(std::min(kFused, piece.size()));
      const auto to = row_.subspan(at_, part.size());
      std::memcpy(to.data(), part.data(), part.size());
      if (with_digest_) digest_.take(to);
      at_ += part.size();
      piece = piece.subspan(part.size());
    }
    return true;
  }
  [[nodiscard]] ChunkDigest digest(const ChunkDigester& digester, const OffloadKey& key) const {
    return digest_.finish(digester, key);
  }

 private:
  std::span<std::byte> row_;
  std::size_t at_ = 0;
  bool with_digest_ = false;
  DigestStream digest_;
};

}  // namespace kv_offload
