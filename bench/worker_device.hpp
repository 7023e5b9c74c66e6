#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/kv_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kv_offload::bench {

/// A device of host memory that two processes see: the worker copies from and to it, the bench looks at the result. Two
/// tensors, K and V, of `num_blocks` pages each.
class WorkerDevice {
 public:
  static constexpr std::uint32_t kTensors = 2;

  static Expected<std::unique_ptr<WorkerDevice>> create(std::uint64_t page_bytes, std::uint64_t num_blocks);
  /// Of another process; takes the descriptor.
  static Expected<std::unique_ptr<WorkerDevice>> open(int fd, std::uint64_t page_bytes, std::uint64_t num_blocks);
  ~WorkerDevice();
  WorkerDevice(const WorkerDevice&) = delete;
  WorkerDevice& operator=(const WorkerDevice&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::span<std::byte> page(std::uint32_t tensor, std::uint64_t block) const;
  /// Bytes of its own in each of the first `blocks` pages.
  void fill(std::uint64_t blocks, std::uint64_t seed) const;
  [[nodiscard]] KvCaches caches() const;

 private:
  WorkerDevice(int fd, std::byte* base, std::uint64_t page_bytes, std::uint64_t num_blocks)
      : fd_(fd), base_(base), page_bytes_(page_bytes), num_blocks_(num_blocks) {}
  static std::uint64_t bytes_of(std::uint64_t page_bytes, std::uint64_t num_blocks) {
    return kTensors * page_bytes * num_blocks;
  }

  const int fd_;
  std::byte* const base_;
  const std::uint64_t page_bytes_, num_blocks_;
};

}  // namespace kv_offload::bench
