#pragma once

#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tests/support/tier_sink.hpp"
#include "kv_offload/tests/support/tier_test_io.hpp"
#include "kv_offload/tiers/extent/extent_geometry.hpp"
#include "kv_offload/tiers/extent/extent_tier.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// A sink that also collects the answers of forgets.
class ExtentTestSink final : public TierSink {
 public:
  struct Forgot {
    std::uint64_t chunks = 0;
    std::string error;
  };
  void probed(ProbeId probe, std::vector<LookupResult> verdicts) override {
    inner.probed(probe, std::move(verdicts));
  }
  void job_outcome(JobResult result) override { inner.job_outcome(std::move(result)); }
  void job_quiesced(JobId job) override { inner.job_quiesced(job); }
  void lane_died(std::string why) override { inner.lane_died(std::move(why)); }
  void forgot(ForgetId forget, std::uint64_t chunks, std::string error) override {
    const std::lock_guard lock(mutex_);
    forgot_[forget] = {chunks, std::move(error)};
    changed_.notify_all();
  }
  std::optional<Forgot> wait_forgot(ForgetId forget) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, TierTestSink::kPatience, [&] { return forgot_.contains(forget); }))
      return std::nullopt;
    return forgot_.at(forget);
  }
  bool has_forgot(ForgetId forget) {
    const std::lock_guard lock(mutex_);
    return forgot_.contains(forget);
  }

  TierTestSink inner;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ForgetId, Forgot> forgot_;
};

/// An extent tier on a file of its own, with memory and sink. Verbs wait for their answer.
class ExtentFixture {
 public:
  struct Options {
    ChunkId num_chunks = 16;
    std::uint64_t row_bytes = 4096;
    std::uint64_t payload_bytes = 0;
    /// Segments and slots of the file; its capacity follows.
    std::uint32_t slots_per_segment = 8;
    std::uint32_t num_segments = 6;
    IoMode io = test_io();
    ExtentTier::MakeBackend make_backend;
  };

  ExtentFixture() : ExtentFixture(Options{}) {}
  explicit ExtentFixture(Options options)
      : options_(std::move(options)),
        memory(options_.num_chunks, options_.row_bytes, options_.payload_bytes) {
    config.path = directory.path() + "/chunks.extent";
    config.segment_bytes = options_.slots_per_segment * options_.row_bytes;
    const std::uint64_t table = ExtentGeometry::round_up((options_.slots_per_segment + 1) * 128U);
    const std::uint64_t stride = table + config.segment_bytes;
    // Superblocks, two copies of the recency, the hot bits: 5 blocks for files as small as these.
    config.capacity_bytes = 5 * 4096 + options_.num_segments * stride;
  }
  ~ExtentFixture() {
    if (tier && !is_stopped_) tier->stop(std::chrono::seconds(5));
  }

  /// Builds and starts a tier on the file; the previous one is stopped.
  Expected<Ok> try_start() {
    if (tier && !is_stopped_) tier->stop(std::chrono::seconds(5));
    tier.reset();
    TierEnvironment environment;
    environment.label = "1:extent";
    environment.primary = memory.view();
    environment.sink = &sink;
    environment.now = [] { return std::chrono::steady_clock::now(); };
    environment.probes_max = 4096;
    environment.jobs_max = 1024;
    environment.io = options_.io;
    environment.kv_events = kv_events;
    environment.log = [this](std::string line) {
      const std::lock_guard lock(log_mutex_);
      log_ += line + "\n";
    };
    auto made = ExtentTier::make(config, identity, environment, faults, options_.make_backend);
    if (!made) return made.error();
    tier = std::move(made).value();
    is_stopped_ = false;
    auto started = tier->start();
    if (!started) {
      tier->stop(std::chrono::seconds(5));
      is_stopped_ = true;
    }
    return started;
  }
  void start() {
    const auto started = try_start();
    INFO((started ? std::string("started") : to_string(started.error())));
    REQUIRE(started);
  }
  std::string start_error() {
    const auto started = try_start();
    REQUIRE_FALSE(started);
    CHECK(started.error().detail.find("1:extent: ") == 0);
    CHECK(started.error().detail.find('\n') == std::string::npos);
    return started.error().detail;
  }
  bool stop(Duration patience = std::chrono::seconds(5)) {
    is_stopped_ = true;
    return tier->stop(patience);
  }

  TransferJob job(bool is_load, KeyList keys, ChunkId first_chunk = 0) {
    TransferJob job;
    job.job_id = {0, next_job_++};
    job.is_promotion = is_load;
    job.chunk_ids.resize(keys.size());
    std::iota(job.chunk_ids.begin(), job.chunk_ids.end(), first_chunk);
    job.generations.resize(keys.size());
    job.keys = std::move(keys);
    job.chunk_bytes = options_.row_bytes;
    return job;
  }
  JobId submit(TransferJob job) {
    const JobId id = job.job_id;
    std::vector<TransferJob> jobs;
    jobs.push_back(std::move(job));
    tier->submit(std::move(jobs));
    return id;
  }
  JobResult end_of(const JobId& id) {
    auto result = sink.inner.wait(id);
    REQUIRE(result.has_value());
    return std::move(*result);
  }
  JobResult run(bool is_load, KeyList keys, ChunkId first_chunk = 0) {
    return end_of(submit(job(is_load, std::move(keys), first_chunk)));
  }
  JobResult store(KeyList keys, ChunkId first_chunk = 0) {
    return run(false, std::move(keys), first_chunk);
  }
  JobResult load(KeyList keys, ChunkId first_chunk = 0) {
    return run(true, std::move(keys), first_chunk);
  }
  std::vector<LookupResult> probe(KeyList keys) {
    const ProbeId id = next_probe_++;
    REQUIRE(tier->probe(id, std::move(keys)));
    auto verdicts = sink.inner.wait_probe(id);
    REQUIRE(verdicts.has_value());
    return *verdicts;
  }
  bool has(std::uint64_t name) { return probe(tier_keys(name, 1)).front() == LookupResult::hit; }
  /// Names in [first, first + count) that the tier says it has.
  std::vector<std::uint64_t> present(std::uint64_t first, std::size_t count) {
    std::vector<std::uint64_t> names;
    const auto verdicts = probe(tier_keys(first, count));
    for (std::size_t i = 0; i < count; ++i)
      if (verdicts[i] == LookupResult::hit) names.push_back(first + i);
    return names;
  }
  /// Stores chunks named first, first + 1, … from slots 0, 1, …, as many jobs as it takes.
  void store_named(std::uint64_t first, std::size_t count) {
    while (count > 0) {
      const auto now = std::min<std::size_t>(count, options_.num_chunks / 2);
      for (ChunkId i = 0; i < now; ++i) memory.fill(i, first + i);
      REQUIRE(store(tier_keys(first, now)).success);
      first += now;
      count -= now;
    }
  }
  /// The chunk is loaded, with its own bytes.
  bool loads_named(std::uint64_t name) {
    const ChunkId chunk = options_.num_chunks - 1;
    memory.clear(chunk);
    return load(tier_keys(name, 1), chunk).success && memory.holds(chunk, name);
  }
  /// As of the lane's last full turn.
  double metric(const std::string& name) {
    for (int turn = 0; turn < 2; ++turn) probe(tier_keys(1'000'000'000, 1));
    for (const MetricSample& sample : tier->stats().samples)
      if (sample.name == "kv_offload_extent_" + name) return sample.value;
    FAIL("no sample of " << name);
    return 0;
  }
  /// Waits until the number is reached; false if it is not within a minute.
  bool metric_becomes(const std::string& name, double value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (metric(name) != value)
      if (std::chrono::steady_clock::now() > deadline) return false;
    return true;
  }
  ExtentGeometry geometry() const {
    return *ExtentGeometry::make(config.capacity_bytes, config.segment_bytes, options_.row_bytes);
  }
  std::string log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  Options options_;
  std::mutex log_mutex_;
  std::string log_;
  std::uint64_t next_job_ = 1;
  ProbeId next_probe_ = 1;
  bool is_stopped_ = false;

 public:
  TierDirectory directory;
  TierMemory memory;
  ExtentTestSink sink;
  ExtentConfig config;
  NamespaceIdentity identity;
  bool kv_events = true;
  std::shared_ptr<TierFaults> faults = std::make_shared<TierFaults>();
  std::unique_ptr<SecondaryTier> tier;
};

}  // namespace kv_offload::test
