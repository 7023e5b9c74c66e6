#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace kv_offload::test {

/// What a test and its worker processes share beside the region: each rank's device memory, and a board on which
/// they tell each other what to do and how far they are.
struct StageBoard {
  enum State : std::uint32_t { starting, ready, refused, gone, stopped, stop_failed };
  enum Command : std::uint32_t { none, stop, submit };
  std::atomic<std::uint32_t> state{starting};
  std::atomic<std::uint32_t> command{none};
  std::atomic<std::uint32_t> hang{0};      ///< not 0: copies stand still
  std::atomic<std::uint32_t> hanging{0};   ///< copies that stand still
  std::atomic<std::uint32_t> fail{0};      ///< not 0: copies fail
  std::atomic<std::uint64_t> copies{0};    ///< batches begun
  std::atomic<std::uint64_t> own_done{0};  ///< ends of jobs that the worker's embedder submitted
  std::uint64_t own_id = 0;                ///< of the next one: block 0 to chunk 0
  char why[1000] = {};                     ///< of refused, gone
};

struct StageShape {
  std::uint32_t world_size = 1;
  std::uint32_t blocks_per_chunk = 1;
  std::uint64_t page_bytes = 4096;
  std::uint32_t num_blocks = 8;
  std::uint32_t num_tensors = 1;
};

/// Maps a stage; `fd` is inherited by the workers.
class Stage {
 public:
  Stage(const StageShape& shape, int fd) : shape_(shape), fd_(fd) {
    bytes_ = kBoardBytes * shape.world_size + device_bytes() * shape.world_size;
    base_ =
        static_cast<std::byte*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  explicit Stage(const StageShape& shape) : Stage(shape, make_fd(shape)) {}
  ~Stage() {
    ::munmap(base_, bytes_);
    ::close(fd_);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] bool ok() const { return base_ != MAP_FAILED; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const StageShape& shape() const { return shape_; }
  StageBoard& board(std::uint32_t rank) {
    return *reinterpret_cast<StageBoard*>(base_ + kBoardBytes * rank);
  }
  void reset_board(std::uint32_t rank) { new (base_ + kBoardBytes * rank) StageBoard; }
  std::byte* tensor(std::uint32_t rank, std::uint32_t tensor) {
    return base_ + kBoardBytes * shape_.world_size + device_bytes() * rank +
           shape_.page_bytes * shape_.num_blocks * tensor;
  }
  std::byte* block(std::uint32_t rank, std::uint32_t t, std::uint32_t block) {
    return tensor(rank, t) + shape_.page_bytes * block;
  }
  [[nodiscard]] std::uint64_t device_bytes() const {
    return shape_.page_bytes * shape_.num_blocks * shape_.num_tensors;
  }
  /// Of one rank in a row, sharded.
  [[nodiscard]] std::uint64_t slot_bytes() const {
    return shape_.page_bytes * shape_.blocks_per_chunk * shape_.num_tensors;
  }

 private:
  static constexpr std::uint64_t kBoardBytes = 4096;
  static int make_fd(const StageShape& s) {
    const int fd = ::memfd_create("stage", 0);  // without close-on-exec: workers have it
    const std::uint64_t each = kBoardBytes + s.page_bytes * s.num_blocks * s.num_tensors;
    if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(each * s.world_size)) != 0) return -1;
    return fd;
  }
  const StageShape shape_;
  const int fd_;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};
static_assert(sizeof(StageBoard) <= 4096);

}  // namespace kv_offload::test
