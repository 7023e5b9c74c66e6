#pragma once

#include "kv_offload/tiers/io/io_request.hpp"

#include <cstdint>

namespace kv_offload {

/// Moves one chunk with as many requests as it takes and has one result. Owner: a lane's thread; one
/// request is out at a time.
///
/// Short transfers are normal (signals, quotas, ends of extents): the rest is asked for again from the
/// last aligned position, because direct I/O accepts nothing else. A read that meets the same end twice has
/// met the end of the file; a write that moves nothing is an error.
class ChunkTransfer {
 public:
  /// Linux moves at most 0x7ffff000 bytes per call; one registered buffer is at most 1 GiB.
  static constexpr std::uint32_t kRequestBytesMax = 1U << 30;
  /// What direct I/O is aligned to here: every device and file system in use accepts 4096.
  static constexpr std::uint32_t kAlignment = 4096;
  /// -EAGAIN, -EINTR and results without progress in a row; beyond it the errno (EIO) is the result.
  static constexpr std::uint32_t kRetriesMax = 64;

  struct Plan {
    IoOp op = IoOp::read;
    int fd = -1;
    std::uint64_t offset = 0;
    std::byte* buffer = nullptr;
    std::uint64_t length = 0;  ///< multiple of kAlignment; 0 for the sync operations and unlink
    int buffer_index = -1;
    std::uint32_t request_bytes_max = kRequestBytesMax;  ///< multiple of kAlignment
    const char* path = nullptr;                          ///< unlink only
  };

  ChunkTransfer() = default;
  ChunkTransfer(const Plan& plan, std::uint64_t tag) : plan_(plan), tag_(tag) {}

  /// The request to hand to the backend now. Same answer until complete() is called.
  [[nodiscard]] IoRequest next() const;
  /// Takes the result of that request. True: the transfer is over; false: next() has more to ask.
  bool complete(std::int32_t result);

  [[nodiscard]] bool is_over() const { return over_; }
  /// errno, 0 if none. A read that met the end of the file has no error but is_short().
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] bool is_short() const { return error_ == 0 && bytes_done_ < plan_.length; }
  [[nodiscard]] std::uint64_t bytes_done() const { return bytes_done_; }

 private:
  bool end(int error);
  [[nodiscard]] bool moves_bytes() const {
    return plan_.op == IoOp::read || plan_.op == IoOp::write;
  }

  Plan plan_;
  std::uint64_t tag_ = 0;
  std::uint64_t bytes_done_ = 0;
  std::uint64_t cursor_ = 0;  ///< where the present request starts; aligned, at most bytes_done_
  std::uint32_t retries_ = 0;
  int error_ = 0;
  bool over_ = false;
};

}  // namespace kv_offload
