#pragma once

#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tests/support/tier_sink.hpp"
#include "kv_offload/tests/support/tier_test_io.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/fs_tier.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// An fs tier in a directory of its own, with memory and sink. Verbs wait for their answer.
class FsFixture {
 public:
  struct Options {
    ChunkId num_chunks = 16;
    std::uint64_t row_bytes = 64 << 10;
    std::uint64_t payload_bytes = 0;
    std::uint32_t probes_max = 4096;
    std::uint32_t jobs_max = 1024;
    IoMode io = test_io();
    FsTier::MakeBackend make_backend;
  };

  FsFixture() : FsFixture(Options{}) {}
  explicit FsFixture(Options options)
      : options_(std::move(options)),
        memory(options_.num_chunks, options_.row_bytes, options_.payload_bytes) {
    config.root_dir = directory.path();
  }
  ~FsFixture() {
    if (tier && is_stopped_ == false) tier->stop(std::chrono::seconds(5));
  }

  /// Builds and starts a tier on the directory; the previous one is stopped.
  Expected<Ok> try_start() {
    if (tier) tier->stop(std::chrono::seconds(5));
    TierEnvironment environment;
    environment.label = "1:fs";
    environment.primary = memory.view();
    environment.sink = &sink;
    environment.now = [] { return std::chrono::steady_clock::now(); };
    environment.probes_max = options_.probes_max;
    environment.jobs_max = options_.jobs_max;
    environment.io = options_.io;
    environment.log = [this](std::string line) {
      const std::lock_guard lock(log_mutex_);
      log_ += line + "\n";
    };
    auto made = FsTier::make(config, identity, environment, faults, options_.make_backend);
    if (!made) return made.error();
    tier = std::move(made).value();
    is_stopped_ = false;
    return tier->start();
  }
  void start() {
    const auto started = try_start();
    INFO((started ? std::string("started") : to_string(started.error())));
    REQUIRE(started);
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
  JobResult run(bool is_load, KeyList keys, ChunkId first_chunk = 0) {
    return end_of(submit(job(is_load, std::move(keys), first_chunk)));
  }
  JobResult store(KeyList keys, ChunkId first_chunk = 0) {
    return run(false, std::move(keys), first_chunk);
  }
  JobResult load(KeyList keys, ChunkId first_chunk = 0) {
    return run(true, std::move(keys), first_chunk);
  }
  JobResult end_of(const JobId& id) {
    auto result = sink.wait(id);
    REQUIRE(result.has_value());
    return std::move(*result);
  }
  std::vector<LookupResult> probe(KeyList keys) {
    const ProbeId id = next_probe_++;
    REQUIRE(tier->probe(id, std::move(keys)));
    auto verdicts = sink.wait_probe(id);
    REQUIRE(verdicts.has_value());
    return *verdicts;
  }
  /// Stores chunks named first, first + 1, … from slots 0, 1, …
  void store_named(std::uint64_t first, ChunkId count) {
    for (ChunkId i = 0; i < count; ++i) memory.fill(i, first + i);
    REQUIRE(store(tier_keys(first, count)).success);
  }
  [[nodiscard]] std::string path_of(const OffloadKey& key) const {
    return FileMapper::make(directory.path(), identity)->path_of(key);
  }
  std::string log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

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
  TierTestSink sink;
  FsConfig config;
  NamespaceIdentity identity;
  std::shared_ptr<TierFaults> faults = std::make_shared<TierFaults>();
  std::unique_ptr<SecondaryTier> tier;
};

}  // namespace kv_offload::test
