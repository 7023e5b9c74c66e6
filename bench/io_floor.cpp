#include "kv_offload/bench/io_floor.hpp"

#include "kv_offload/bench/io_floor_program.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/io/lane_options.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace kv_offload::bench {
namespace {

/// More loads than a rate that the device can serve has in flight.
constexpr std::uint32_t kLoadsMax = 128;

class FileFloor final : public FloorProgram {
 public:
  using FloorProgram::FloorProgram;

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

class ExtentFloor final : public FloorProgram {
 public:
  using FloorProgram::FloorProgram;
  ~ExtentFloor() override {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  Expected<Ok> begin_set() override {
    if (fd_ >= 0) ::close(fd_);
    fd_ =
        ::open((root_ + "/chunks").c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
    if (fd_ < 0) return failed("creating its file", errno);
    if (::fallocate(fd_, 0, 0, static_cast<off_t>(shape_.set_bytes + shape_.spare_bytes)) != 0)
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

std::unique_ptr<FloorProgram> program(const IoShape& shape, const WorkDir& dir) {
  if (shape.tier == "extent") return std::make_unique<ExtentFloor>(shape, dir);
  return std::make_unique<FileFloor>(shape, dir);
}

}  // namespace

std::unique_ptr<IoContestant> io_floor(const IoShape& shape, const WorkDir& dir) {
  return program(shape, dir);
}

Expected<IoLatencyPair> io_floor_latency(const IoShape& asked, const WorkDir& dir,
                                         double loads_per_s, double seconds) {
  IoShape shape = asked;
  shape.spare_bytes = io_latency_spare_bytes(seconds);
  const auto stores = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, LaneOptions{}.store_bytes_beside_loads / shape.chunk_bytes));
  shape.depth = stores + kLoadsMax;
  const auto floor = program(shape, dir);
  if (auto filled = floor->store(); !filled) return filled.error();
  return floor->latency(loads_per_s, seconds, stores);
}

}  // namespace kv_offload::bench
