#pragma once

#include "kv_offload/tiers/secondary_tier.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::test {

/// Collects what a tier reports and checks the order of the two ends of each job.
class TierTestSink final : public TierSink {
 public:
  /// Ends a test that hangs, before its own time limit does. Much longer than a busy disk syncs a file.
  static constexpr auto kPatience = std::chrono::seconds(50);

  void probed(ProbeId probe, std::vector<LookupResult> verdicts) override {
    change([&] {
      if (!verdicts_.emplace(probe, std::move(verdicts)).second) violations_ += "probe twice; ";
    });
  }
  void job_outcome(JobResult result) override {
    change([&] {
      const JobId id = result.job_id;
      order_.push_back(id);
      if (!outcomes_.emplace(id, std::move(result)).second) violations_ += "outcome twice; ";
    });
  }
  void job_quiesced(JobId job) override {
    change([&] {
      if (!outcomes_.contains(job)) violations_ += "quiesced before its outcome; ";
      if (!quiesced_.emplace(job, true).second) violations_ += "quiesced twice; ";
    });
  }
  void forgot(ForgetId forget, std::uint64_t chunks, std::string /*error*/) override {
    change([&] { forgot_[forget] = chunks; });
  }
  void lane_died(std::string why) override {
    change([&] { died_ = std::move(why); });
  }

  /// The result of a job once both its ends were told; nullopt after kPatience.
  std::optional<JobResult> wait(const JobId& job) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return quiesced_.contains(job); }))
      return std::nullopt;
    return outcomes_.at(job);
  }
  std::optional<std::vector<LookupResult>> wait_probe(ProbeId probe) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return verdicts_.contains(probe); }))
      return std::nullopt;
    return verdicts_.at(probe);
  }
  /// How many chunks a forget removed.
  std::optional<std::uint64_t> wait_forgot(ForgetId forget) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return forgot_.contains(forget); }))
      return std::nullopt;
    return forgot_.at(forget);
  }
  std::optional<std::string> wait_death() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return died_.has_value(); });
    return died_;
  }
  [[nodiscard]] bool has_ended(const JobId& job) {
    const std::lock_guard lock(mutex_);
    return outcomes_.contains(job) || quiesced_.contains(job);
  }
  [[nodiscard]] bool lane_is_dead() {
    const std::lock_guard lock(mutex_);
    return died_.has_value();
  }
  /// Jobs in the order of their outcomes.
  [[nodiscard]] std::vector<JobId> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  /// Empty unless the tier broke the contract.
  [[nodiscard]] std::string violations() {
    const std::lock_guard lock(mutex_);
    return violations_;
  }

 private:
  template <class F>
  void change(F f) {
    const std::lock_guard lock(mutex_);
    f();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ProbeId, std::vector<LookupResult>> verdicts_;
  std::map<JobId, JobResult> outcomes_;
  std::map<JobId, bool> quiesced_;
  std::map<ForgetId, std::uint64_t> forgot_;
  std::vector<JobId> order_;
  std::optional<std::string> died_;
  std::string violations_;
};

}  // namespace kv_offload::test
