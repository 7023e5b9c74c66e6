#include "kv_offload/tests/support/tier_lane_fixture.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>

namespace kv_offload {
namespace {

using test::tier_keys;
using test::TierMemory;
using test::TierTestSink;

/// Rows one after the other in a file in memory. A store waits, after its row, for a write of the
/// storage's own that stands for all stores that came by then.
class GroupStorage final : public LaneStorage {
 public:
  static constexpr std::uint64_t kRow = 16384;
  static constexpr std::uint64_t kOwnAt = 1ULL << 30;

  GroupStorage() : fd_(::memfd_create("rows", MFD_CLOEXEC)) {
    own_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, 4096)));
    std::memset(own_.get(), 1, 4096);
  }
  ~GroupStorage() override { ::close(fd_); }

  void reserve_slots(std::uint32_t count) override { rows_.resize(count); }
  LookupResult probe(const OffloadKey&) override { return LookupResult::miss; }
  StorageStep begin(const ChunkContext& chunk) override {
    if (chunk.is_load) return StorageStep::io(IoOp::read, fd_, 0);
    rows_[chunk.slot] = next_row_++;
    return StorageStep::joinable_write(fd_, rows_[chunk.slot] * kRow);
  }
  void overlap(const ChunkContext&) override {}
  StorageStep proceed(const ChunkContext& chunk, const IoEnd& io) override {
    if (io.error != 0)
      return StorageStep::over(KeyEnd::failed(TransferFailure::io_error, io.error));
    if (chunk.is_load) return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
    waiting_.push_back(chunk.slot);
    return StorageStep::wait();
  }
  void job_ended(const TransferJob&, const JobResult&) override {}
  [[nodiscard]] std::uint32_t own_io_max() const override { return 1; }
  bool next_own_io(OwnIo& io) override {
    if (waiting_.empty() || is_out_) return false;
    is_out_ = true;
    flying_.swap(waiting_);
    ++groups;
    io = {IoOp::write, fd_, kOwnAt, own_.get(), 4096, 77};
    return true;
  }
  void own_io_over(std::uint64_t id, const IoEnd& io) override {
    CHECK(id == 77);
    is_out_ = false;
    for (const TransferSlot slot : flying_)
      resumed_.emplace_back(slot, io.error == 0
                                      ? KeyEnd{KeyFate::done, TransferFailure::none, 0, false}
                                      : KeyEnd::failed(TransferFailure::io_error, io.error));
    flying_.clear();
  }
  bool next_resumed(TransferSlot& slot, StorageStep& step) override {
    if (resumed_.empty()) return false;
    slot = resumed_.front().first;
    step = StorageStep::over(resumed_.front().second);
    resumed_.pop_front();
    return true;
  }

  [[nodiscard]] bool file_holds(const TierMemory& memory, std::uint64_t row,
                                std::uint64_t name) const {
    std::vector<std::byte> bytes(kRow);
    return ::pread(fd_, bytes.data(), kRow, static_cast<off_t>(row * kRow)) ==
               static_cast<ssize_t>(kRow) &&
           bytes == memory.expected(name);
  }
  std::atomic<int> groups{0};

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  const int fd_;
  std::unique_ptr<std::byte, Free> own_;
  std::vector<std::uint64_t> rows_;
  std::uint64_t next_row_ = 0;
  bool is_out_ = false;
  std::vector<TransferSlot> waiting_;
  std::vector<TransferSlot> flying_;
  std::deque<std::pair<TransferSlot, KeyEnd>> resumed_;
};

struct OwnIoFixture {
  TierMemory memory{64, GroupStorage::kRow};
  TierTestSink sink;
  std::shared_ptr<TierFaults> faults = std::make_shared<TierFaults>();
  LaneOptions options;
  GroupStorage* storage = nullptr;
  std::unique_ptr<Lane> lane;
  std::mutex mutex;
  std::vector<std::uint64_t> row_writes;  // lengths
  ScriptedBackend::Script script;

  void start() {
    options.name = "1:lane";
    options.primary = memory.view();
    options.sink = &sink;
    options.now = [] { return std::chrono::steady_clock::now(); };
    options.faults = faults;
    auto made = std::make_unique<GroupStorage>();
    storage = made.get();
    const auto seen = [this](const IoRequest& r, std::uint64_t n) {
      if (r.op == IoOp::write && r.offset < GroupStorage::kOwnAt) {
        const std::lock_guard lock(mutex);
        row_writes.push_back(r.length);
      }
      return script ? script(r, n) : ScriptedResult{};
    };
    auto backend = test::scripted_device(seen, {});
    lane = std::make_unique<Lane>(options, std::move(backend), std::move(made));
  }
  JobResult store(std::uint64_t first, ChunkId count) {
    TransferJob job;
    job.job_id = {0, first + 1};
    job.keys = tier_keys(first, count);
    for (ChunkId i = 0; i < count; ++i) {
      memory.fill(i, first + i);
      job.chunk_ids.push_back(i);
    }
    job.chunk_bytes = GroupStorage::kRow;
    std::vector<TransferJob> jobs{job};
    lane->submit(std::move(jobs));
    if (!is_started_) REQUIRE(lane->start());
    is_started_ = true;
    const auto result = sink.wait(job.job_id);
    REQUIRE(result);
    return *result;
  }
  ~OwnIoFixture() {
    if (lane) lane->stop(std::chrono::seconds(5));
  }

 private:
  bool is_started_ = false;
};

TEST_CASE("neighbouring rows go to the device in one write, in their order", "[lane]") {
  OwnIoFixture f;
  f.start();
  CHECK(f.store(0, 40).success);
  for (std::uint64_t row = 0; row < 40; ++row) CHECK(f.storage->file_holds(f.memory, row, row));
  std::uint64_t bytes = 0;
  for (const auto length : f.row_writes) {
    bytes += length;
    CHECK(length <= f.options.join_bytes_max);
  }
  CHECK(bytes == 40 * GroupStorage::kRow);
  CHECK(f.row_writes.size() < 40);
  CHECK(f.storage->groups < 40);
  CHECK(f.storage->groups >= 1);
  CHECK(f.memory.uses() == 0);
  CHECK(f.sink.violations().empty());
}

TEST_CASE("rows too large to gain from it, or without a neighbour, go as they are", "[lane]") {
  OwnIoFixture f;
  f.options.join_bytes_max = GroupStorage::kRow;
  f.start();
  CHECK(f.store(0, 12).success);
  CHECK(f.row_writes == std::vector<std::uint64_t>(12, GroupStorage::kRow));
  CHECK(f.storage->file_holds(f.memory, 11, 11));
}

TEST_CASE("a joined write that is short is continued, one that fails fails its rows", "[lane]") {
  OwnIoFixture f;
  f.script = [&](const IoRequest& r, std::uint64_t) {
    ScriptedResult result;
    if (r.op != IoOp::write || r.offset >= GroupStorage::kOwnAt) return result;
    result.length_max = 8192 + 4096 * static_cast<std::uint32_t>(r.length % 3);
    if (r.offset >= 40 * GroupStorage::kRow) result.result = -EIO;
    return result;
  };
  f.start();
  CHECK(f.store(0, 40).success);
  for (std::uint64_t row = 0; row < 40; ++row) CHECK(f.storage->file_holds(f.memory, row, row));
  const JobResult result = f.store(100, 10);
  CHECK(result.fates == std::vector(10, KeyFate::failed));
  CHECK(result.error_number == EIO);
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a failure of the storage's own I/O reaches those that wait for it", "[lane]") {
  OwnIoFixture f;
  std::atomic<bool> fails{true};
  f.script = [&](const IoRequest& r, std::uint64_t) {
    ScriptedResult result;
    if (fails && r.offset == GroupStorage::kOwnAt) result.result = -EROFS;
    return result;
  };
  f.start();
  const JobResult result = f.store(0, 3);
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(result.error_number == EROFS);
  fails = false;
  CHECK(f.store(10, 3).success);
}

TEST_CASE("a stop waits for stores that wait for the storage's own I/O", "[lane]") {
  OwnIoFixture f;
  std::atomic<bool> seen{false};
  f.script = [&](const IoRequest& r, std::uint64_t) {
    ScriptedResult result;
    if (r.offset == GroupStorage::kOwnAt) {
      result.after_reaps = 50;
      seen = true;
    }
    return result;
  };
  f.start();
  REQUIRE(f.lane->start());
  TransferJob job;
  job.job_id = {0, 1};
  job.keys = tier_keys(0, 2);
  job.chunk_ids = {0, 1};
  job.chunk_bytes = GroupStorage::kRow;
  f.lane->submit({job});
  while (!seen) {
  }
  CHECK(f.lane->stop(std::chrono::seconds(50)));
  CHECK(f.sink.has_ended(job.job_id));
  CHECK(f.memory.uses() == 0);
}

/// Stores wait and are then refused; counts overlaps of transfers that were over.
class RefusingStorage final : public LaneStorage {
 public:
  void reserve_slots(std::uint32_t count) override { is_open_.resize(count); }
  LookupResult probe(const OffloadKey&) override { return LookupResult::miss; }
  StorageStep begin(const ChunkContext& chunk) override {
    is_open_[chunk.slot] = true;
    waiting_.push_back(chunk.slot);
    return StorageStep::wait();
  }
  void overlap(const ChunkContext& chunk) override {
    late_overlaps += is_open_[chunk.slot] ? 0 : 1;
  }
  StorageStep proceed(const ChunkContext&, const IoEnd&) override {
    return StorageStep::over(KeyEnd::failed(TransferFailure::io_error, EIO));
  }
  void job_ended(const TransferJob&, const JobResult&) override {}
  [[nodiscard]] StorageCosts costs() const override { return {0, 0, 0, 0}; }
  [[nodiscard]] std::uint32_t own_io_max() const override { return 1; }
  bool next_resumed(TransferSlot& slot, StorageStep& step) override {
    if (waiting_.empty()) return false;
    slot = waiting_.front();
    waiting_.pop_front();
    is_open_[slot] = false;
    step = StorageStep::over(KeyEnd::failed(TransferFailure::no_space, ENOSPC));
    return true;
  }
  std::atomic<int> late_overlaps{0};

 private:
  std::vector<bool> is_open_;
  std::deque<TransferSlot> waiting_;
};

TEST_CASE("a store that is refused while it waits is not touched afterwards", "[lane]") {
  TierMemory memory(64, GroupStorage::kRow);
  TierTestSink sink;
  LaneOptions options;
  options.name = "1:lane";
  options.primary = memory.view();
  options.sink = &sink;
  options.now = [] { return std::chrono::steady_clock::now(); };
  options.queue_depth = 1024;  // more than the digests of one turn
  auto made = std::make_unique<RefusingStorage>();
  RefusingStorage& storage = *made;
  Lane lane(options, std::make_unique<ScriptedBackend>(), std::move(made));
  TransferJob job;
  job.job_id = {0, 1};
  job.keys = tier_keys(0, 3000);
  for (ChunkId i = 0; i < 3000; ++i) job.chunk_ids.push_back(i % 64);
  job.chunk_bytes = GroupStorage::kRow;
  lane.submit({job});
  REQUIRE(lane.start());
  const auto result = sink.wait(job.job_id);
  REQUIRE(result);
  CHECK(result->failure == TransferFailure::no_space);
  CHECK(storage.late_overlaps == 0);
  CHECK(memory.uses() == 0);
  CHECK(lane.stop(std::chrono::seconds(5)));
}

TEST_CASE("faults meant for single rows hit single rows of joined writes", "[lane]") {
  OwnIoFixture f;
  f.faults->corrupt_every = 3;
  f.start();
  CHECK(f.store(0, 9).success);
  int wrong = 0;
  for (std::uint64_t row = 0; row < 9; ++row)
    wrong += f.storage->file_holds(f.memory, row, row) ? 0 : 1;
  CHECK(wrong == 3);
  f.faults->corrupt_every = 0;
  f.faults->store_error_every = 2;
  const JobResult result = f.store(20, 4);
  CHECK(std::count(result.fates.begin(), result.fates.end(), KeyFate::done) == 2);
}

}  // namespace
}  // namespace kv_offload
