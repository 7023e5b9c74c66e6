#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace kv_offload {

/// A mapping that ends with its owner.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  MappedMemory(MappedMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory() { unmap(); }

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  void unmap();
  /// Stays for the rest of the process.
  void leak() { base_ = nullptr, bytes_ = 0; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// `bytes` are whole pages; the address is a multiple of 2 MiB. Private and anonymous if `fd` is -1, else shared from
/// the file's beginning. Neither dumped with the process nor seen by children of fork: a child must not copy pages
/// under running I/O, nor write to rows that are not its own. Without memory: base() is null, errno says why.
[[nodiscard]] MappedMemory map_region(int fd, std::uint64_t bytes);

struct SharedMemoryFile {
  UniqueFd fd;
  std::uint64_t bytes = 0;  ///< whole pages
  bool is_huge = false;     ///< of explicit huge pages
};
/// Memory with a descriptor and no name, zeroed, sealed against shrinking and growing. `label` shows in /proc.
Expected<SharedMemoryFile> open_shared_memory(const std::string& label, std::uint64_t bytes,
                                              bool huge_pages);

/// Is the file behind `fd` at least that large, and will it stay so? Files of open_shared_memory are sealed; others are
/// as large as they are now.
Expected<Ok> check_shared_size(int fd, std::uint64_t bytes, bool must_be_sealed);

}  // namespace kv_offload
