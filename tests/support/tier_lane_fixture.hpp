#pragma once

#include "kv_offload/tests/support/tier_flat_storage.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tests/support/tier_sink.hpp"
#include "kv_offload/tests/support/tier_test_io.hpp"
#include "kv_offload/tiers/io/lane.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// A lane over a scripted device, or threads that do what the script says. Set options, script and storage, then make(), submit what should be
/// queued before the first turn, then start().
class LaneFixture {
 public:
  static constexpr std::uint64_t kRowBytes = 16384;

  LaneFixture() : memory(64, kRowBytes), storage(std::make_unique<FlatStorage>(kRowBytes)) {
    options.name = "1:lane";
    options.primary = memory.view();
    options.sink = &sink;
    options.now = [this] {
      return is_time_frozen ? MonotonicTime(Duration(time.load()))
                            : std::chrono::steady_clock::now();
    };
    options.faults = faults;
  }
  ~LaneFixture() {
    if (lane) lane->stop(std::chrono::seconds(5));
  }

  void make() {
    auto made = scripted_device(script, device);
    backend = dynamic_cast<ScriptedBackend*>(made.get());
    flat = storage.get();
    lane = std::make_unique<Lane>(options, std::move(made), std::move(storage));
  }
  void start() {
    if (!lane) make();
    REQUIRE(lane->start());
  }

  TransferJob job(bool is_load, KeyList keys, ChunkId first_chunk = 0) {
    TransferJob job;
    job.job_id = {0, next_job_++};
    job.is_promotion = is_load;
    job.chunk_ids.resize(keys.size());
    std::iota(job.chunk_ids.begin(), job.chunk_ids.end(), first_chunk);
    job.keys = std::move(keys);
    job.chunk_bytes = kRowBytes;
    return job;
  }
  JobId submit(TransferJob job) {
    const JobId id = job.job_id;
    std::vector<TransferJob> jobs;
    jobs.push_back(std::move(job));
    lane->submit(std::move(jobs));
    return id;
  }
  JobResult end_of(const JobId& id) {
    auto result = sink.wait(id);
    REQUIRE(result.has_value());
    return std::move(*result);
  }
  JobResult run(bool is_load, KeyList keys, ChunkId first_chunk = 0) {
    return end_of(submit(job(is_load, std::move(keys), first_chunk)));
  }
  /// Stores keys first, first + 1, … from slots that hold their names.
  void store_named(std::uint64_t first, ChunkId count) {
    for (ChunkId i = 0; i < count; ++i) memory.fill(i, first + i);
    REQUIRE(run(false, tier_keys(first, count)).success);
  }
  /// Returns when the lane has answered, hence has made a turn since the call.
  std::vector<LookupResult> probe(KeyList keys) {
    const ProbeId id = next_probe_++;
    REQUIRE(lane->probe(id, std::move(keys)));
    auto verdicts = sink.wait_probe(id);
    REQUIRE(verdicts.has_value());
    return *verdicts;
  }
  void make_turns(int count) {
    for (int i = 0; i < count; ++i) probe(tier_keys(1'000'000, 1));
  }

 private:
  std::uint64_t next_job_ = 1;
  ProbeId next_probe_ = 1;

 public:
  TierMemory memory;
  TierTestSink sink;
  std::shared_ptr<TierFaults> faults = std::make_shared<TierFaults>();
  std::atomic<bool> is_time_frozen{false};
  std::atomic<std::int64_t> time{1'000'000'000};
  LaneOptions options;
  ScriptedBackend::Script script;
  ScriptedBackend::Options device;
  std::unique_ptr<FlatStorage> storage;
  FlatStorage* flat = nullptr;
  ScriptedBackend* backend = nullptr;  ///< null with threads
  std::unique_ptr<Lane> lane;
};

}  // namespace kv_offload::test
