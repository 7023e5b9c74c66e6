#pragma once

#include "kv_offload/bench/object_server/object_server.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tests/support/tier_sink.hpp"
#include "kv_offload/tiers/obj/obj_metadata.hpp"
#include "kv_offload/tiers/obj/obj_metrics.hpp"
#include "kv_offload/tiers/obj/obj_namespace.hpp"
#include "kv_offload/tiers/obj/obj_tier.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// What a TierTestSink collects, and besides: a look at the moment at which a job's slots become
/// anybody's, and what forgets complain about.
class ObjTestSink final : public TierSink {
 public:
  explicit ObjTestSink(TierTestSink& to) : to_(to) {}

  /// In the lane's thread, before others hear of it. Set before the start.
  std::function<void(const JobId&)> on_quiesced;

  void probed(ProbeId probe, std::vector<LookupResult> verdicts) override {
    to_.probed(probe, std::move(verdicts));
  }
  void job_outcome(JobResult result) override { to_.job_outcome(std::move(result)); }
  void job_quiesced(JobId job) override {
    if (on_quiesced) on_quiesced(job);
    to_.job_quiesced(job);
  }
  void forgot(ForgetId forget, std::uint64_t chunks, std::string error) override {
    {
      const std::lock_guard lock(mutex_);
      if (!errors_.emplace(forget, error).second) twice_ = true;
    }
    to_.forgot(forget, chunks, std::move(error));
  }
  void lane_died(std::string why) override { to_.lane_died(std::move(why)); }

  /// Of a forget that was answered; empty: all went well.
  std::string forget_error(ForgetId forget) {
    const std::lock_guard lock(mutex_);
    return errors_.at(forget);
  }
  bool forgot_twice() {
    const std::lock_guard lock(mutex_);
    return twice_;
  }

 private:
  TierTestSink& to_;
  std::mutex mutex_;
  std::map<ForgetId, std::string> errors_;
  bool twice_ = false;
};

/// Polls until it holds. False: it never did.
template <class Holds>
bool becomes_true(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + TierTestSink::kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// An obj tier on a store in this process, with memory and sink. Verbs wait for their answer. At
/// its end every job has ended once, no slot is in use, and no secret stands in the log.
class ObjFixture {
 public:
  struct Options {
    ChunkId num_chunks = 16;
    std::uint64_t row_bytes = 64 << 10;
    std::uint64_t payload_bytes = 0;
    std::uint32_t probes_max = 4096;
    std::uint32_t jobs_max = 1024;
  };

  ObjFixture() : ObjFixture(Options{}) {}
  explicit ObjFixture(Options options)
      : options_(options), memory(options.num_chunks, options.row_bytes, options.payload_bytes) {
    REQUIRE(server.start());
    config.place.scheme = "http";
    config.place.host = "127.0.0.1:" + std::to_string(server.port());
    config.place.bucket = server.bucket();
    config.credentials.access_key = "AKIDEXAMPLE";
    config.credentials.secret_key = "a-secret-that-must-not-be-shown";
    config.enable_kv_events = true;
    // Nothing waits for a second by default: tests that want to see waiting say so.
    config.retry.base = std::chrono::milliseconds(1);
    config.retry.max = std::chrono::milliseconds(5);
    config.positive_ttl = std::chrono::hours(1);
    config.negative_ttl = Duration::zero();
    surroundings.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = environment.find(name);
      return it == environment.end() ? std::nullopt : std::optional(it->second);
    };
    surroundings.seed = 1;
  }
  ~ObjFixture() {
    server.faults().clear();
    faults->hang = false;
    if (tier && !is_stopped_) tier->stop(std::chrono::seconds(5));
    CHECK(sink.violations().empty());
    CHECK_FALSE(tap.forgot_twice());
    CHECK(log().find("must-not-be-shown") == std::string::npos);
    if (is_killed) return;
    CHECK(memory.uses() == 0);
    for (const JobId& id : submitted_) CHECK(sink.has_ended(id));
  }

  /// Builds and starts a tier on the bucket; the previous one is stopped.
  Expected<Ok> try_start() {
    if (tier && !is_stopped_) tier->stop(std::chrono::seconds(5));
    TierEnvironment around;
    around.label = "1:obj";
    around.primary = memory.view();
    around.sink = &tap;
    around.now = [this] { return now(); };
    around.kv_events = engine_publishes_events;
    around.probes_max = options_.probes_max;
    around.jobs_max = options_.jobs_max;
    around.log = [this](std::string line) {
      const std::lock_guard lock(log_mutex_);
      log_ += line + "\n";
    };
    auto made = ObjTier::make(config, identity, around, faults, surroundings);
    if (!made) return made.error();
    tier = std::move(made).value();
    is_stopped_ = false;
    return tier->start();
  }
  /// The tier's clock, which tests may put forward.
  [[nodiscard]] MonotonicTime now() const {
    return std::chrono::steady_clock::now() + ahead.load();
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
    submitted_.push_back(id);
    std::vector<TransferJob> jobs;
    jobs.push_back(std::move(job));
    tier->submit(std::move(jobs));
    return id;
  }
  /// Several, handed over at once.
  std::vector<JobId> submit(std::vector<TransferJob> jobs) {
    std::vector<JobId> ids;
    for (const TransferJob& each : jobs) ids.push_back(each.job_id);
    submitted_.insert(submitted_.end(), ids.begin(), ids.end());
    tier->submit(std::move(jobs));
    return ids;
  }
  JobResult end_of(const JobId& id) {
    auto result = sink.wait(id);
    REQUIRE(result.has_value());
    return std::move(*result);
  }
  JobResult store(KeyList keys, ChunkId first_chunk = 0) {
    return end_of(submit(job(false, std::move(keys), first_chunk)));
  }
  JobResult load(KeyList keys, ChunkId first_chunk = 0) {
    return end_of(submit(job(true, std::move(keys), first_chunk)));
  }
  ProbeId begin_probe(KeyList keys) {
    const ProbeId id = next_probe_++;
    REQUIRE(tier->probe(id, std::move(keys)));
    return id;
  }
  std::vector<LookupResult> probe(KeyList keys) {
    return end_of_probe(begin_probe(std::move(keys)));
  }
  std::vector<LookupResult> end_of_probe(ProbeId id) {
    auto verdicts = sink.wait_probe(id);
    REQUIRE(verdicts.has_value());
    return *verdicts;
  }
  /// How many chunks a forget removed.
  std::uint64_t forget(KeyList keys) { return end_of_forget(begin_forget(std::move(keys))); }
  ForgetId begin_forget(KeyList keys) {
    const ForgetId id = next_forget_++;
    REQUIRE(tier->forget(id, std::move(keys)));
    return id;
  }
  std::uint64_t forget_tenant(std::uint64_t salt) {
    const ForgetId id = next_forget_++;
    REQUIRE(tier->forget_tenant(id, salt));
    return end_of_forget(id);
  }
  std::uint64_t end_of_forget(ForgetId id) {
    const auto gone = sink.wait_forgot(id);
    REQUIRE(gone.has_value());
    return *gone;
  }
  /// What the last forget complained about; empty: nothing.
  std::string forget_error() { return tap.forget_error(next_forget_ - 1); }
  /// Stores chunks named first, first + 1, … from slots 0, 1, …
  void store_named(std::uint64_t first, ChunkId count) {
    for (ChunkId i = 0; i < count; ++i) memory.fill(i, first + i);
    REQUIRE(store(tier_keys(first, count)).success);
  }
  /// One after another: the keys of one job are put side by side and are used in the order of the answers.
  void store_in_order(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t name = first; name < first + count; ++name) ObjFixture::store_named(name, 1);
  }
  [[nodiscard]] std::string object_of(const OffloadKey& key) const {
    return ObjNamespace::make(config.prefix, identity)->object_of(key);
  }
  /// Of one series, with one label besides `tier` if `label` is given.
  [[nodiscard]] double metric(const std::string& name, const std::string& label = "") const {
    for (const MetricSample& sample : tier->stats().samples) {
      if (sample.name != name) continue;
      if (label.empty() || (sample.labels.size() == 2 && sample.labels[1].second == label))
        return sample.value;
    }
    FAIL("no series " << name << " " << label);
    return 0;
  }
  /// Of every outcome of an attempt that ever came.
  [[nodiscard]] std::map<std::string, double> outcomes() const {
    std::map<std::string, double> seen;
    for (const MetricSample& sample : tier->stats().samples)
      if (sample.name == "kv_offload_obj_answers_total" && sample.value != 0)
        seen[sample.labels[1].second] = sample.value;
    return seen;
  }
  /// What moved since `before`.
  [[nodiscard]] std::map<std::string, double> outcomes_since(
      const std::map<std::string, double>& before) const {
    auto moved = outcomes();
    for (const auto& [outcome, count] : before) moved[outcome] -= count;
    std::erase_if(moved, [](const auto& each) { return each.second == 0; });
    return moved;
  }
  [[nodiscard]] double answers(const std::string& outcome) const {
    return metric("kv_offload_obj_answers_total", outcome);
  }
  [[nodiscard]] double requests(const std::string& operation) const {
    return metric("kv_offload_obj_requests_total", operation);
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
  ForgetId next_forget_ = 1;
  bool is_stopped_ = false;
  std::vector<JobId> submitted_;

 public:
  std::atomic<Duration> ahead{Duration::zero()};
  bool engine_publishes_events = true;
  bool is_killed = false;  ///< the lane says nothing any more, on purpose
  bench::ObjectServer server;
  TierMemory memory;
  TierTestSink sink;
  ObjTestSink tap{sink};
  ObjConfig config;
  NamespaceIdentity identity;
  std::map<std::string, std::string> environment;
  ObjTier::Surroundings surroundings;
  std::shared_ptr<TierFaults> faults = std::make_shared<TierFaults>();
  std::unique_ptr<SecondaryTier> tier;
};

}  // namespace kv_offload::test
