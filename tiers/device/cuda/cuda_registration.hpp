#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>

namespace kv_offload {

/// Host memory that the driver has pinned for DMA. Any thread.
///
/// In pieces, because one call pins all or nothing: drivers were seen to refuse 256 to 512 GB where
/// 128 GB went, and a refusal should cost its own piece. 1 GiB: pinning it takes some 100 ms, so
/// that a call more per GiB is lost in the noise, and a piece that is refused is at most a per
/// mille of a region that large.
class CudaRegistration {
 public:
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 30;

  /// @return bytes that are pinned now. Each run of refused pieces is one line of `log`.
  std::uint64_t add(std::span<std::byte> memory, const std::function<void(std::string)>& log);
  void remove(std::span<std::byte> memory);
  /// Bytes from `at` to the end of its piece: a copy must not span two, whatever both are. All
  /// there are, if it is in none.
  [[nodiscard]] std::uint64_t bytes_to_border(const std::byte* at) const;

 private:
  struct Piece {
    std::uint64_t bytes = 0;
    bool is_pinned = false;  // by us
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Piece> pieces_;  // by address
};

}  // namespace kv_offload
