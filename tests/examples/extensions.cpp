// A tier, an admission policy and an eviction policy from outside the library, used by name in the
// configuration. Only public headers are included.
#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>

using namespace kv_offload;

namespace {

/// Keeps rows in a map. Every answer is given inside the call: the engine does not mind.
class MapTier final : public SecondaryTier {
 public:
  explicit MapTier(TierEnvironment environment) : env_(std::move(environment)) {}
  TierTraits traits() const override { return {"map", Medium::cpu, Locality::local}; }
  Expected<Ok> start() override { return Ok{}; }
  bool probe(ProbeId probe, KeyList keys) override {
    std::vector<LookupResult> verdicts;
    for (const auto& key : keys) verdicts.push_back(rows_.contains(key) ? LookupResult::hit : LookupResult::miss);
    env_.sink->probed(probe, std::move(verdicts));
    return true;
  }
  void submit(std::vector<TransferJob> jobs) override {
    for (const auto& job : jobs) {
      JobResult result;
      result.job_id = job.job_id;
      result.success = true;
      for (std::size_t i = 0; i < job.keys.size(); ++i) {
        const auto slot = env_.primary.row(job.chunk_ids[i]);
        if (job.is_promotion) std::ranges::copy(rows_.at(job.keys[i]), slot.begin());
        else rows_[job.keys[i]].assign(slot.begin(), slot.end());
        result.fates.push_back(KeyFate::done);
      }
      result.transfer_bytes = job.bytes();
      result.finished_at = env_.now();
      env_.sink->job_outcome(std::move(result));  // first end: the bytes are there
      env_.sink->job_quiesced(job.job_id);        // second end: nothing touches the slots any more
    }
  }
  void cancel(JobId) override {}
  void cancel_queued() override {}
  TierStats stats() const override { return {}; }
  bool stop(Duration) override { return true; }

 private:
  const TierEnvironment env_;
  std::map<OffloadKey, std::vector<std::byte>> rows_;
};

/// Refuses to store the chunks of requests whose id says so.
class NoScratch final : public AdmissionPolicy {
 public:
  std::string_view name() const override { return "no_scratch"; }
  RefusalReason should_admit(const JobMetadata& job, MonotonicTime) const override {
    const bool scratch = job.request != nullptr && job.request->request.req_id.starts_with("scratch");
    return scratch && !job.is_promotion ? RefusalReason::custom : RefusalReason::none;
  }
  void on_admitted(const JobMetadata&, MonotonicTime) override {}
  void on_refused(const JobMetadata&, const AdmissionPolicy*, MonotonicTime) override {}
  void on_completed(const JobMetadata&, const CompletedTransfer&, MonotonicTime) override {}
  void on_withdrawn(const JobMetadata&, MonotonicTime) override {}
  void reset() override {}
};

/// First in, first out, whatever is read.
class Fifo final : public EvictionPolicy {
 public:
  explicit Fifo(ChunkId num_chunks) : evictable_(num_chunks, false) {}
  void insert(const OffloadKey&, ChunkId chunk) override { queue_.push_back(chunk); }
  void remove(const OffloadKey&, ChunkId chunk) override {
    std::erase(queue_, chunk);
    evictable_[chunk] = false;
  }
  void mark_evictable(ChunkId chunk) override { evictable_[chunk] = true; }
  void mark_non_evictable(ChunkId chunk) override { evictable_[chunk] = false; }
  void touch(std::span<const OffloadKey>, std::span<const ChunkId>) override {}
  bool evict(std::size_t count, const ProtectedSlots& keep, std::vector<ChunkId>& victims) override {
    const auto before = victims.size();
    for (const auto chunk : queue_)
      if (victims.size() - before < count && evictable_[chunk] && !keep.contains(chunk)) victims.push_back(chunk);
    if (victims.size() - before < count) return victims.resize(before), false;
    for (auto i = before; i < victims.size(); ++i) {
      std::erase(queue_, victims[i]);
      evictable_[victims[i]] = false;
    }
    return true;
  }
  void clear() override {
    queue_.clear();
    std::fill(evictable_.begin(), evictable_.end(), false);
  }
  std::string_view name() const override { return "fifo"; }

 private:
  std::deque<ChunkId> queue_;
  std::vector<bool> evictable_;
};

KeyList keys(unsigned char name, unsigned n) {
  KeyList out;
  for (unsigned i = 0; i < n; ++i) {
    const std::byte hash[32] = {static_cast<std::byte>(name), static_cast<std::byte>(i)};
    out.push_back(*OffloadKey::make(hash, 0));
  }
  return out;
}

bool store(OffloadEngine& engine, const char* req_id, const KeyList& list) {
  const auto request = engine.new_request({.req_id = req_id}).get();
  const auto plan = request ? engine.prepare_store(*request, list).get() : Expected<StorePlan>(request.error());
  if (!plan) return false;
  for (const auto chunk : plan->chunk_ids) std::ranges::fill(engine.chunk(chunk), std::byte{9});
  return engine.complete_store(plan->lease, {.wait_cascades = true}).get() && engine.request_finished(*request).get();
}

}  // namespace

int main() {
  TierType map_tier;
  map_tier.make = [](const TierConfig&, TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
    return std::unique_ptr<SecondaryTier>(new MapTier(std::move(environment)));
  };
  const bool registered =
      secondary_tiers().register_tier("map", map_tier) &&
      admission_policies().register_policy(
          "no_scratch", [](ConfigReader&, const AdmissionBuild&) { return std::make_unique<NoScratch>(); }) &&
      eviction_policies().register_policy("fifo", [](ChunkId n) { return std::make_unique<Fifo>(n); });
  auto config = EngineConfig::parse(R"({"chunk_bytes": "16KiB", "cpu_bytes_to_use": "1MiB", "log_level": "error",
      "eviction_policy": "fifo", "admission_policy": {"type": "no_scratch"}, "secondary_tiers": [{"type": "map"}]})");
  if (!registered || !config) return 2;
  auto started = OffloadEngine::start(*config);
  if (!started) return std::fprintf(stderr, "%s\n", to_string(started.error()).c_str()), 2;
  auto& engine = **started;

  // 64 slots: the last store needs five of the six that the first two took.
  const auto kept = keys('k', 4), scratch = keys('s', 2), more = keys('m', 63);
  if (!store(engine, "kept", kept) || !store(engine, "scratch-1", scratch) || !store(engine, "more", more)) return 1;
  const auto request = *engine.new_request({.req_id = "reader"}).get();
  const auto found = *engine.lookup(request, kept).get();         // evicted by fifo, found in the map
  const auto gone = *engine.lookup(request, scratch).get();       // evicted, and never stored there
  std::printf("%u of 4 from the outside tier, %u of 2 that the outside policy refused\n", found.tier_hits[1],
              gone.leading_hits);
  return engine.request_finished(request).get() && engine.shutdown() && found.tier_hits[1] == 4 && gone.leading_hits == 0 ? 0 : 1;
}
