#include "kv_offload/bench/io_tier.hpp"

#include "kv_offload/bench/io_tier_harness.hpp"

#include <algorithm>
#include <fcntl.h>
#include <linux/fs.h>
#include <random>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kv_offload::bench {
namespace {

/// Keys of a job, as many as the window allows four jobs of.
constexpr std::uint32_t kBatchMax = 16;

/// ext4 without a journal skips inodes freed within the last minutes one by one, so that creating files is
/// many times slower near others that were just removed, by an earlier run say. With this flag it puts
/// each subdirectory far from the others. Other file systems do not know it, and need it not.
void spread_subdirectories(const std::filesystem::path& dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  int flags = 0;
  if (::ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
    flags |= FS_TOPDIR_FL;
    (void)::ioctl(fd, FS_IOC_SETFLAGS, &flags);
  }
  ::close(fd);
}

class IoTier final : public IoContestant {
 public:
  IoTier(const IoShape& shape, const WorkDir& dir)
      : shape_(shape),
        dir_(dir),
        batch_(std::clamp(io_window_chunks(shape) / 4, 1U, kBatchMax)),
        harness_(shape, std::max(io_window_chunks(shape) / batch_, 1U), batch_) {}

  [[nodiscard]] std::string name() const override { return "tier"; }

  Expected<IoFigure> store() override {
    auto files = io_directory(dir_, shape_.tier);
    if (!files) return files.error();
    if (auto started = harness_.start(*files); !started) return started.error();
    move(false, std::uint64_t{1} << 40, kIoDirectories);
    if (auto ended = harness_.drain(); !ended) return ended.error();
    const IoStopwatch watch;
    move(false, 0, shape_.chunks());
    if (auto ended = harness_.drain(); !ended) return ended.error();
    return watch.stop(shape_);
  }

  Expected<IoFigure> load() override {
    const auto order = io_order(shape_.chunks());
    const IoStopwatch watch;
    std::vector<std::uint64_t> numbers;
    for (std::size_t at = 0; at < order.size(); at += batch_) {
      numbers.assign(order.begin() + static_cast<std::ptrdiff_t>(at),
                     order.begin() + static_cast<std::ptrdiff_t>(
                                         std::min<std::size_t>(at + batch_, order.size())));
      harness_.submit(true, numbers);
    }
    if (auto ended = harness_.drain(); !ended) return ended.error();
    return watch.stop(shape_);
  }

 private:
  void move(bool is_load, std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t at = 0; at < count; at += batch_) {
      numbers.clear();
      for (std::uint64_t i = at; i < std::min<std::uint64_t>(at + batch_, count); ++i)
        numbers.push_back(first + i);
      harness_.submit(is_load, numbers);
    }
  }

  const IoShape shape_;
  const WorkDir& dir_;
  const std::uint32_t batch_;
  IoTierHarness harness_;
};

}  // namespace

std::unique_ptr<IoContestant> io_tier(const IoShape& shape, const WorkDir& dir) {
  return std::make_unique<IoTier>(shape, dir);
}

Expected<std::filesystem::path> io_directory(const WorkDir& dir, const std::string& who) {
  spread_subdirectories(dir.path());
  // A name that no run had before: ext4 derives the place of such a directory from its name.
  std::random_device random;
  return dir.subdirectory(who + "-" + std::to_string(random()));
}

}  // namespace kv_offload::bench
