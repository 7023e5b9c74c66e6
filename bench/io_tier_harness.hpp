#pragma once

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace kv_offload::bench {

/// A tier without an engine around it: region, sink and the tier, as its actor would drive it. Jobs take
/// a piece of the region each; submit() waits until one is free. Several threads may submit and wait. A tier of
/// which no transfer ends within a minute is a failure, which drain() tells.
class IoTierHarness {
 public:
  /// @param pieces  jobs in flight at most, of `batch` chunks each
  IoTierHarness(const IoShape& shape, std::uint32_t pieces, std::uint32_t batch);
  ~IoTierHarness();
  IoTierHarness(const IoTierHarness&) = delete;
  IoTierHarness& operator=(const IoTierHarness&) = delete;

  /// A new tier whose files lie in `dir`, which exists and is empty. The previous one is stopped.
  Expected<Ok> start(const std::filesystem::path& dir);
  void stop();

  /// Waits for a free piece, then hands the tier one job of at most `batch` chunks.
  /// `landed` is called on the lane's thread with the time since `since`.
  using Landed = std::function<void(Duration)>;
  void submit(bool is_load, const std::vector<std::uint64_t>& numbers, Landed landed = {},
              std::optional<MonotonicTime> since = std::nullopt);
  /// Until no job is in flight. The first failure of a job since the last call, if any.
  Expected<Ok> drain();
  /// Until no load is in flight; stores may be.
  void settle_loads();
  [[nodiscard]] std::uint32_t batch() const { return batch_; }
  /// What the tier said at its start.
  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  class Sink;
  struct Job {
    std::uint32_t piece = 0;
    bool is_load = false;
    MonotonicTime since;
    Landed landed;
  };

  Expected<Ok> make_region();
  template <class Condition>
  bool wait_until(std::unique_lock<std::mutex>& lock, Condition condition);

  const IoShape shape_;
  const std::uint32_t pieces_, batch_;
  std::string place_;  // of the tier's files
  std::unique_ptr<Region> region_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<SecondaryTier> tier_;
  std::string log_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, Job> jobs_;
  std::uint64_t loads_out_ = 0;
  std::uint64_t ended_jobs_ = 0;
  std::uint64_t next_job_ = 1;
  std::string failure_;
};

/// The tier's entry in a configuration, with its files in `dir`.
[[nodiscard]] ConfigNode io_tier_parameters(const IoShape& shape, const std::filesystem::path& dir);
/// Chunks that a measurement keeps in flight at a tier: enough that the tier's own bounds decide.
[[nodiscard]] std::uint32_t io_window_chunks(const IoShape& shape);

}  // namespace kv_offload::bench
