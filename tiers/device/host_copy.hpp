#pragma once

#include "kv_offload/tiers/device/device_backend.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kv_offload {

/// How memory is copied past the caches.
enum class CopyPath : std::uint8_t {
  plain,   ///< memcpy
  avx2,    ///< streaming stores of 32 bytes
  avx512,  ///< streaming stores of 64 bytes
};
constexpr std::string_view to_string(CopyPath path) {
  constexpr std::string_view kNames[] = {"memcpy", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(path)];
}
[[nodiscard]] bool supported(CopyPath path);
/// The fastest that this processor has; asked once.
[[nodiscard]] CopyPath best_copy_path();

/// A batch of at least so many bytes goes past the caches: its target is not read soon, and an
/// ordinary store first reads the line that it overwrites. Measured on an EPYC with 1 MiB of L2 a
/// core: 10 against 5 GiB/s for 2 MiB of cold memory, 9 against 5.6 for 16 KiB of it. A quarter of
/// that L2, so that what is small stays where it was.
inline constexpr std::uint64_t kStreamBytesMin = 256 * 1024;
/// Fragments below this are copied with ordinary stores: a line that is written in two halves past
/// the caches costs two trips to memory.
inline constexpr std::uint64_t kStreamFragmentBytesMin = 1024;

/// Copies fragments; everything is visible to other threads and processes that are told afterwards.
void copy_fragments(std::span<const CopyFragment> fragments, CopyPath path = best_copy_path());

/// A copy whose bytes are looked at on their way, while the first-level cache has them:
///
///     CopyThrough copy(to, from);
///     while (!copy.done()) digest(copy.next());
///
/// `next` answers what was copied, not what the source holds by then. Not for overlapping memory.
class CopyThrough {
 public:
  static constexpr std::size_t kPieceBytes =
      4096;  // with its source 8 of the 32 KiB of a first-level cache
  /// @param batch_bytes  of everything that is copied along with this, which decides whether to
  ///                     stream; 0: this alone
  CopyThrough(std::span<std::byte> to, std::span<const std::byte> from,
              std::uint64_t batch_bytes = 0, CopyPath path = best_copy_path());
  /// Makes what was streamed visible.
  ~CopyThrough();
  CopyThrough(const CopyThrough&) = delete;
  CopyThrough& operator=(const CopyThrough&) = delete;
  [[nodiscard]] bool done() const { return at_ == from_.size(); }
  [[nodiscard]] std::span<const std::byte> next();

 private:
  alignas(64) std::byte piece_[kPieceBytes];
  std::span<std::byte> to_;
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  CopyPath path_;
};

}  // namespace kv_offload
