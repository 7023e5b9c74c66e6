#include "kv_offload/bench/io_tier_harness.hpp"

#include "kv_offload/actors/json_config.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStopPatience = std::chrono::seconds(60);
/// Between the ends of two transfers; the slowest disk takes less for everything in flight.
constexpr auto kTransferPatience = std::chrono::seconds(60);

}  // namespace

ConfigNode io_tier_parameters(const IoShape& shape, const std::filesystem::path& dir) {
  nlohmann::json keys{{"type", shape.tier}};
  if (shape.tier == "extent") {
    // Room for the set, its tables and the segments that are kept free; a tenth more, and 64 MiB.
    keys["path"] = (dir / "chunks.extent").string();
    keys["capacity_bytes"] =
        shape.set_bytes + shape.set_bytes / 10 + (std::uint64_t{64} << 20) + shape.spare_bytes;
  } else if (shape.tier == "obj") {
    const IoStore& store = *shape.store;
    nlohmann::json place{
        {"bucket", store.bucket}, {"endpoint_override", store.endpoint}, {"region", store.region}};
    if (!store.ca_bundle.empty()) place["ca_bundle"] = store.ca_bundle;
    if (!store.credentials.access_key.empty()) {
      place["access_key"] = store.credentials.access_key;
      place["secret_key"] = store.credentials.secret_key;
    }
    keys["store_config"] = place;
    keys["prefix"] = "kv-offload-bench";
    keys["max_inflight"] = shape.depth;  // connections, not bytes, are what the tier bounds
  } else {
    keys["root_dir"] = dir.string();
  }
  if (!shape.checksum) keys["checksum"] = false;
  if (shape.io) keys["io"] = *shape.io;
  return *parse_json_config(keys.dump(), "tier");
}

/// Forwards to the harness; outlives the tier.
class IoTierHarness::Sink final : public TierSink {
 public:
  explicit Sink(IoTierHarness& owner) : owner_(owner) {}

  void probed(ProbeId, std::vector<LookupResult>) override {}
  void job_outcome(JobResult result) override {
    Landed landed;
    MonotonicTime since;
    {
      const std::lock_guard lock(owner_.mutex_);
      if (!result.success && owner_.failure_.empty())
        owner_.failure_ =
            "a transfer failed: " + std::string(to_string(result.failure)) +
            (result.error_number == 0 ? std::string()
                                      : std::string(": ") + std::strerror(result.error_number)) +
            ", in " + owner_.place_;
      Job& job = owner_.jobs_.at(result.job_id.sequence);
      landed = std::move(job.landed);
      since = job.since;
    }
    if (landed) landed(result.finished_at - since);
  }
  void job_quiesced(JobId id) override {
    const std::lock_guard lock(owner_.mutex_);
    const auto job = owner_.jobs_.find(id.sequence);
    owner_.free_.push_back(job->second.piece);
    if (job->second.is_load) --owner_.loads_out_;
    owner_.jobs_.erase(job);
    ++owner_.ended_jobs_;
    owner_.changed_.notify_all();
  }
  void lane_died(std::string why) override {
    const std::lock_guard lock(owner_.mutex_);
    if (owner_.failure_.empty()) owner_.failure_ = std::move(why);
  }

 private:
  IoTierHarness& owner_;
};

IoTierHarness::IoTierHarness(const IoShape& shape, std::uint32_t pieces, std::uint32_t batch)
    : shape_(shape), pieces_(pieces), batch_(batch), sink_(std::make_unique<Sink>(*this)) {
  for (std::uint32_t piece = 0; piece < pieces_; ++piece) free_.push_back(piece);
}

IoTierHarness::~IoTierHarness() { stop(); }

void IoTierHarness::stop() {
  if (!tier_) return;
  if (!tier_->stop(kStopPatience)) {
    region_->leak({});
    (void)tier_.release();  // its lane may still run
    (void)sink_.release();
    return;
  }
  tier_.reset();
}

/// False, and a failure, if the tier stands still. Every end of a transfer starts the patience anew.
template <class Condition>
bool IoTierHarness::wait_until(std::unique_lock<std::mutex>& lock, Condition condition) {
  while (!condition()) {
    const auto ended = ended_jobs_;
    if (changed_.wait_for(lock, kTransferPatience,
                          [&] { return condition() || ended_jobs_ != ended; }))
      continue;
    if (failure_.empty()) failure_ = "no transfer ended for a minute";
    return false;
  }
  return true;
}

Expected<Ok> IoTierHarness::make_region() {
  if (region_) return Ok{};
  RegionOptions options;
  options.num_chunks = pieces_ * batch_;
  options.chunk_bytes = shape_.chunk_bytes;
  auto made = Region::create(options);
  if (!made) return made.error();
  region_ = std::move(*made);
  // No zeros: a device or file system may treat them in a special way.
  const PrimaryView view = region_->view();
  for (ChunkId chunk = 0; chunk < view.num_chunks; ++chunk) {
    const auto row = view.payload(chunk);
    for (std::size_t at = 0; at + 8 <= row.size(); at += 8) {
      const std::uint64_t word = (at + chunk * 0x10001ULL) * 0x9e3779b97f4a7c15ULL;
      std::memcpy(row.data() + at, &word, sizeof word);
    }
  }
  return Ok{};
}

Expected<Ok> IoTierHarness::start(const std::filesystem::path& dir) {
  stop();
  if (auto made = make_region(); !made) return made;
  TierConfig config;
  place_ =
      shape_.tier == "obj" ? shape_.store->endpoint + "/" + shape_.store->bucket : dir.string();
  config.type = shape_.tier;
  config.node = io_tier_parameters(shape_, dir);
  config.path = "secondary_tiers[0]";
  config.identity.model_name = "kv-offload-bench";
  TierEnvironment environment;
  environment.label = "1:" + shape_.tier;
  environment.primary = region_->view();
  environment.sink = sink_.get();
  environment.now = [] { return Clock::now(); };
  environment.probes_max = 4096;
  environment.jobs_max = pieces_ + 1;
  environment.kv_events = false;
  environment.log = [this](std::string line) { log_ = std::move(line); };
  auto tier = secondary_tiers().make(config, std::move(environment));
  if (!tier) return tier.error();
  tier_ = std::move(*tier);
  return tier_->start();
}

void IoTierHarness::submit(bool is_load, const std::vector<std::uint64_t>& numbers, Landed landed,
                           std::optional<MonotonicTime> since) {
  TransferJob job;
  job.is_promotion = is_load;
  for (const std::uint64_t number : numbers) job.keys.push_back(io_key(number));
  job.generations.resize(numbers.size());
  job.chunk_bytes = region_->view().row_bytes;
  {
    std::unique_lock lock(mutex_);
    if (!wait_until(lock, [&] { return !free_.empty(); })) return;
    const std::uint32_t piece = free_.back();
    free_.pop_back();
    for (std::uint32_t i = 0; i < numbers.size(); ++i) job.chunk_ids.push_back(piece * batch_ + i);
    job.job_id.sequence = next_job_++;
    if (is_load) ++loads_out_;
    jobs_.emplace(job.job_id.sequence,
                  Job{piece, is_load, since.value_or(Clock::now()), std::move(landed)});
  }
  std::vector<TransferJob> jobs;
  jobs.push_back(std::move(job));
  tier_->submit(std::move(jobs));
}

Expected<Ok> IoTierHarness::drain() {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return jobs_.empty(); });
  if (failure_.empty()) return Ok{};
  return OffloadError{OffloadErrc::io_error, std::exchange(failure_, {})};
}

void IoTierHarness::settle_loads() {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return loads_out_ == 0; });
}

std::uint32_t io_window_chunks(const IoShape& shape) {
  const std::uint64_t by_bytes = (std::uint64_t{16} << 20) / shape.chunk_bytes;
  const std::uint64_t wanted =
      std::max<std::uint64_t>({by_bytes, std::uint64_t{4} * shape.depth, 16});
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>({wanted, 1024, std::max<std::uint64_t>(shape.chunks(), 1)}));
}

}  // namespace kv_offload::bench
