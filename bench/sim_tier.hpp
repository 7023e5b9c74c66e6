#pragma once

#include "kv_offload/bench/sim_latency.hpp"
#include "kv_offload/bench/sim_world.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kv_offload::bench {

/// During [from_s, to_s) of a run: every operation takes `slow` times as long, and this share of the
/// transfers fails.
struct SimFault {
  double from_s = 0, to_s = 0;
  double slow = 1;
  double error_share = 0;
};

/// What one secondary tier is made of. Every number comes from the scenario file, with its origin.
struct SimTierModel {
  std::uint64_t capacity_bytes = 0;  ///< 0: no bound; beyond it the least recently used chunk goes
  bool loads_first = true;           ///< queued loads overtake queued stores
  std::uint32_t depth = 32;          ///< chunks in flight at once
  bool in_memory = false;            ///< lookups are answered without a probe
  SimLatency probe, load, store;     ///< per window of keys; per chunk
  double read_bytes_s = 0, write_bytes_s = 0;  ///< of the tier as a whole, each way; 0: no bound
  std::vector<SimFault> faults;
  // What the tier's work costs the serving process.
  double stall_per_probe = 0;           ///< device seconds per second of probe latency
  double stall_s_per_written_byte = 0;  ///< device seconds
  double stall_s_per_read_byte = 0;
  std::optional<Locality> locality;

  /// No operation takes any time: it then ends inside the call, as in an in-memory tier.
  [[nodiscard]] bool is_instant() const {
    return load.is_zero() && store.is_zero() && read_bytes_s == 0 && write_bytes_s == 0;
  }
};
SimTierModel read_tier_model(ConfigReader& reader);

/// A secondary tier in virtual time: a presence map and a queue, no bytes. Keeps the whole contract of
/// SecondaryTier; results reach its sink at the simulated moment. One thread.
class SimTier final : public SecondaryTier {
 public:
  struct Parts {
    SimWorld* world = nullptr;
    TierSink* sink = nullptr;
    PrimaryView primary;
    std::uint64_t seed = 1;
    std::function<void(Duration)> stall;  ///< takes time from the device; may be empty
  };
  SimTier(SimTierModel model, Parts parts);

  /// Puts keys there before the run.
  void preload(const KeyList& keys);
  [[nodiscard]] std::size_t chunks() const { return present_.size(); }
  /// Most chunks that were queued or in flight at once.
  [[nodiscard]] std::size_t backlog_peak() const { return backlog_peak_; }
  /// Seconds from the end of the last fault to the first store submitted after it; -1: none came.
  [[nodiscard]] double recovery_s() const { return recovery_s_; }

  [[nodiscard]] TierTraits traits() const override;
  Expected<Ok> start() override { return Ok{}; }
  bool probe(ProbeId probe, KeyList keys) override;
  std::optional<LookupResult> lookup(const OffloadKey& key) override;
  void submit(std::vector<TransferJob> jobs) override;
  void cancel(JobId job) override;
  void cancel_queued() override;
  [[nodiscard]] TierStats stats() const override;
  bool stop(Duration /*patience*/) override { return true; }

 private:
  struct Job {
    TransferJob job;
    std::vector<KeyFate> fates;
    std::size_t started = 0, ended = 0;
    std::uint64_t bytes = 0;
    Duration io_time{};
    TransferFailure failure = TransferFailure::none;
  };
  using Jobs = std::map<std::uint64_t, Job>;  // by arrival
  void start_work();
  [[nodiscard]] std::deque<std::uint64_t>* next_queue();
  void start_chunk(std::uint64_t id);
  void end_chunk(std::uint64_t id, std::size_t key, KeyFate fate, TransferFailure failure);
  void finish(std::uint64_t id);
  void cancel_if_queued(std::uint64_t id, std::deque<std::uint64_t>& queue);
  [[nodiscard]] const SimFault* fault() const;
  [[nodiscard]] LookupResult verdict(const OffloadKey& key);
  void insert(const OffloadKey& key);
  void stall(double seconds) const;

  const SimTierModel model_;
  const Parts parts_;
  Random random_;
  std::list<OffloadKey> recency_;  // most recent first
  std::unordered_map<OffloadKey, std::list<OffloadKey>::iterator> present_;
  Jobs jobs_;
  std::deque<std::uint64_t> loads_, stores_;  // with chunks that have not started
  std::uint64_t next_job_ = 0;
  std::uint32_t in_flight_ = 0;
  MonotonicTime read_free_{}, write_free_{};  // when the tier's own bandwidth is free again
  std::uint64_t chunk_bytes_ = 0;
  std::size_t backlog_ = 0, backlog_peak_ = 0;  // chunks
  double recovery_s_ = -1;
  TierStats stats_;
};

}  // namespace kv_offload::bench
