#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace kv_offload {

/// Memory that direct I/O can use. Zeroed. Throws std::bad_alloc.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 4096;

  AlignedBuffer() = default;
  /// @param bytes  multiple of kAlignment
  explicit AlignedBuffer(std::uint64_t bytes)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes))), size_(bytes) {
    if (!bytes_) throw std::bad_alloc();
    std::memset(bytes_.get(), 0, bytes);
  }
  /// Empty where there is no memory.
  static AlignedBuffer try_make(std::uint64_t bytes) noexcept {
    try {
      return AlignedBuffer(bytes);
    } catch (const std::bad_alloc&) {
      return {};
    }
  }
  /// The device may still touch it: it is never freed.
  void leak() { (void)bytes_.release(); }

  [[nodiscard]] std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> span() const { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<std::byte> span(std::uint64_t at, std::uint64_t length) const {
    return {bytes_.get() + at, length};
  }
  explicit operator bool() const { return bytes_ != nullptr; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::uint64_t size_ = 0;
};

}  // namespace kv_offload
