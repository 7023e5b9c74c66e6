#include "kv_offload/bench/io_floor.hpp"

#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/io_tier_harness.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

namespace kv_offload::bench {
namespace {

OffloadError failed(const std::string& what, int error) {
  return {OffloadErrc::io_error, "floor: " + what + ": " + std::strerror(error)};
}

/// One chunk on its way: its descriptor, where its file stands and what it will be called.
struct Slot {
  int fd = -1;
  ChunkId row = 0;
  std::string temp, path;
};

class IoFloor : public IoContestant {
 public:
  IoFloor(const IoShape& shape, const WorkDir& dir)
      : shape_(shape), dir_(dir), slots_(shape.depth) {}
  ~IoFloor() override {
    if (has_ring_) io_uring_queue_exit(&ring_);
  }
  [[nodiscard]] std::string name() const override { return "floor"; }

  Expected<IoFigure> store() override {
    if (auto ready = set_up(); !ready) return ready.error();
    auto files = io_directory(dir_, "floor-" + shape_.tier);
    if (!files) return files.error();
    root_ = files->string();
    if (auto ready = begin_set(); !ready) return ready.error();
    std::vector<std::uint32_t> order(shape_.chunks());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    return run(order, false);
  }
  Expected<IoFigure> load() override { return run(io_order(shape_.chunks()), true); }

 protected:
  virtual Expected<Ok> begin_set() = 0;
  /// 0 or errno.
  virtual int open_chunk(Slot& slot, std::uint32_t number, bool is_load, std::uint64_t& offset) = 0;
  virtual int close_chunk(Slot& slot, bool is_load) = 0;

  const IoShape shape_;
  const WorkDir& dir_;
  std::string root_;

 private:
  Expected<Ok> set_up() {
    if (has_ring_) return Ok{};
    RegionOptions options;
    // As much memory as the tier's measurement moves: a few rows would stay in the caches.
    options.num_chunks = std::max(io_window_chunks(shape_), shape_.depth);
    options.chunk_bytes = shape_.chunk_bytes;
    auto made = Region::create(options);
    if (!made) return made.error();
    region_ = std::move(*made);
    std::memset(region_->view().base, 0x5a, region_->bytes());
    int error = -io_uring_queue_init(shape_.depth, &ring_,
                                     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (error == EINVAL) error = -io_uring_queue_init(shape_.depth, &ring_, 0);
    if (error != 0) return failed("io_uring_setup", error);
    has_ring_ = true;
    const auto plan = region_->registration();
    error = -io_uring_register_buffers(&ring_, plan.buffers.data(),
                                       static_cast<unsigned>(plan.buffers.size()));
    if (error != 0) return failed("registering buffers", error);
    chunks_per_buffer_ = plan.chunks_per_buffer;
    for (ChunkId row = 0; row < region_->view().num_chunks; ++row) free_rows_.push_back(row);
    return Ok{};
  }

  int start(std::size_t slot_idx, std::uint32_t number, bool is_load) {
    std::uint64_t offset = 0;
    if (const int error = open_chunk(slots_[slot_idx], number, is_load, offset); error != 0)
      return error;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    slots_[slot_idx].row = free_rows_.front();
    free_rows_.pop_front();
    const auto row = region_->view().row(slots_[slot_idx].row);
    const int buffer = static_cast<int>(slots_[slot_idx].row / chunks_per_buffer_);
    const auto length = static_cast<unsigned>(shape_.chunk_bytes);
    if (is_load)
      io_uring_prep_read_fixed(sqe, slots_[slot_idx].fd, row.data(), length, offset, buffer);
    else
      io_uring_prep_write_fixed(sqe, slots_[slot_idx].fd, row.data(), length, offset, buffer);
    sqe->user_data = slot_idx;
    return 0;
  }

  Expected<IoFigure> run(const std::vector<std::uint32_t>& order, bool is_load) {
    const IoStopwatch watch;
    std::size_t next = 0, in_flight = 0;
    for (; in_flight < slots_.size() && next < order.size(); ++in_flight)
      if (const int error = start(in_flight, order[next++], is_load); error != 0)
        return failed("opening a chunk", error);
    while (in_flight > 0) {
      const int entered = io_uring_submit_and_wait(&ring_, 1);
      if (entered < 0 && entered != -EINTR) return failed("io_uring_enter", -entered);
      io_uring_cqe* cqe = nullptr;
      while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const auto slot_idx = static_cast<std::size_t>(cqe->user_data);
        const int moved = cqe->res;
        free_rows_.push_back(slots_[slot_idx].row);
        io_uring_cqe_seen(&ring_, cqe);
        if (moved != static_cast<int>(shape_.chunk_bytes))
          return failed("moving a chunk", moved < 0 ? -moved : EIO);
        if (const int error = close_chunk(slots_[slot_idx], is_load); error != 0)
          return failed("closing a chunk", error);
        if (next == order.size()) {
          --in_flight;
        } else if (const int error = start(slot_idx, order[next++], is_load); error != 0) {
          return failed("opening a chunk", error);
        }
      }
    }
    return watch.stop(shape_);
  }

  std::unique_ptr<Region> region_;
  std::uint32_t chunks_per_buffer_ = 1;
  std::deque<ChunkId> free_rows_;  // used in turn
  io_uring ring_{};
  bool has_ring_ = false;
  std::vector<Slot> slots_;
};

class FileFloor final : public IoFloor {
 public:
  using IoFloor::IoFloor;

 private:
  static void name_of(const std::string& root, std::uint32_t number, std::string& path) {
    path = root;
    path += '/';
    path += std::to_string(number % kIoDirectories);
    path += '/';
    path += to_hex(io_key(number).content_hash());
  }

  Expected<Ok> begin_set() override {
    for (std::uint64_t i = 0; i < kIoDirectories; ++i)
      if (::mkdir((root_ + '/' + std::to_string(i)).c_str(), 0700) != 0)
        return failed("mkdir", errno);
    return Ok{};
  }

  int open_chunk(Slot& slot, std::uint32_t number, bool is_load, std::uint64_t&) override {
    name_of(root_, number, slot.path);
    if (is_load) {
      slot.fd = ::open(slot.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
      if (slot.fd < 0) return errno;
      DigestAttribute tag;
      return ::fgetxattr(slot.fd, kDigestAttribute, tag.data(), tag.size()) < 0 ? errno : 0;
    }
    slot.temp = slot.path;
    slot.temp += ".tmp";
    slot.fd = ::open(slot.temp.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_DIRECT, 0600);
    if (slot.fd < 0) return errno;
    return ::fallocate(slot.fd, 0, 0, static_cast<off_t>(shape_.chunk_bytes)) != 0 ? errno : 0;
  }

  int close_chunk(Slot& slot, bool is_load) override {
    if (!is_load) {
      const DigestAttribute tag = encode_digest({});
      if (::fsetxattr(slot.fd, kDigestAttribute, tag.data(), tag.size(), 0) != 0) return errno;
    }
    if (::close(slot.fd) != 0) return errno;
    return is_load || ::rename(slot.temp.c_str(), slot.path.c_str()) == 0 ? 0 : errno;
  }
};

class ExtentFloor final : public IoFloor {
 public:
  using IoFloor::IoFloor;
  ~ExtentFloor() override {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  Expected<Ok> begin_set() override {
    if (fd_ >= 0) ::close(fd_);
    fd_ =
        ::open((root_ + "/chunks").c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
    if (fd_ < 0) return failed("creating its file", errno);
    if (::fallocate(fd_, 0, 0, static_cast<off_t>(shape_.set_bytes)) != 0)
      return failed("preallocating its file", errno);
    return Ok{};
  }
  int open_chunk(Slot& slot, std::uint32_t number, bool, std::uint64_t& offset) override {
    slot.fd = fd_;
    offset = number * shape_.chunk_bytes;
    return 0;
  }
  int close_chunk(Slot&, bool) override { return 0; }

  int fd_ = -1;
};

}  // namespace

std::unique_ptr<IoContestant> io_floor(const IoShape& shape, const WorkDir& dir) {
  if (shape.tier == "extent") return std::make_unique<ExtentFloor>(shape, dir);
  return std::make_unique<FileFloor>(shape, dir);
}

}  // namespace kv_offload::bench
