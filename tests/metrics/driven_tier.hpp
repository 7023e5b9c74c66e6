#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// What a tier of the test does, and what it was asked; shared by the test and the tier.
class TierScript {
 public:
  /// How long every job's I/O claims to have taken. A power of two: sums stay exact.
  static constexpr double kIoSeconds = 0.25;

  // -- what the test sets, before or between its calls --
  bool holds = false;                               ///< jobs stay open until release()
  bool holds_probes = false;                        ///< probes stay without a verdict, too
  TransferFailure fails = TransferFailure::none;    ///< of every job that starts from now on
  std::optional<double> latency_s;                  ///< from submission to the claimed end
  bool wants_requests_whole = false;                ///< OffloadPolicy::request_level
  TierStats stats;                                  ///< shown as they are
  void hold_keys(const KeyList& keys) { present_.insert(keys.begin(), keys.end()); }

  /// Ends every job that is held.
  void release() {
    std::vector<TransferJob> held;
    {
      const std::scoped_lock lock(mutex_);
      holds = false;
      held.swap(held_);
    }
    for (const auto& job : held) end(job);
  }
  [[nodiscard]] TierEnvironment& environment() {
    if (!environment_) throw std::logic_error("the tier was not started");
    return *environment_;
  }

 private:
  friend class DrivenTier;

  void end(const TransferJob& job) {
    JobResult result;
    result.job_id = job.job_id;
    result.transfer_time = from_seconds(kIoSeconds);
    result.finished_at =
        latency_s ? job.submit_time + from_seconds(*latency_s) : environment_->now();
    {
      const std::scoped_lock lock(mutex_);
      result.success = fails == TransferFailure::none;
      result.failure = fails;
      for (const auto& key : job.keys) {
        const bool is_there = !job.is_promotion && present_.contains(key);
        result.fates.push_back(!result.success ? KeyFate::failed
                               : is_there      ? KeyFate::already_present
                                               : KeyFate::done);
        if (!result.success || is_there) continue;
        result.transfer_bytes += job.chunk_bytes;
        if (!job.is_promotion) present_.insert(key);
      }
    }
    environment_->sink->job_outcome(std::move(result));
    environment_->sink->job_quiesced(job.job_id);
  }

  std::mutex mutex_;
  std::set<OffloadKey> present_;
  std::vector<TransferJob> held_;
  std::optional<TierEnvironment> environment_;  // of the one that was started
};

/// In memory, without bytes: what it "loads" is whatever the slot holds. For tests of counters only.
class DrivenTier : public SecondaryTier {
 public:
  static constexpr const char* kType = "test-driven";

  /// A new script, and the name under which a configuration finds it:
  /// {"type": "test-driven", "script": <name>}.
  static std::pair<std::string, std::shared_ptr<TierScript>> make_script() {
    static const bool kIsKnown = make_known();
    if (!kIsKnown) throw std::logic_error("registered by somebody else");
    const std::string name = "script" + std::to_string(scripts().size());
    return {name, scripts()[name] = std::make_shared<TierScript>()};
  }

  explicit DrivenTier(std::shared_ptr<TierScript> script, TierEnvironment environment)
      : script_(std::move(script)), environment_(std::move(environment)) {}

  [[nodiscard]] TierTraits traits() const override {
    TierTraits traits{kType, Medium::storage, std::nullopt};
    traits.asks_requests = script_->wants_requests_whole;
    return traits;
  }
  Expected<Ok> start() override {
    script_->environment_ = environment_;
    return Ok{};
  }
  bool probe(ProbeId probe, KeyList keys) override {
    std::vector<LookupResult> verdicts;
    {
      const std::scoped_lock lock(script_->mutex_);
      if (script_->holds_probes) return true;
      for (const auto& key : keys)
        verdicts.push_back(script_->present_.contains(key) ? LookupResult::hit
                                                           : LookupResult::miss);
    }
    environment_.sink->probed(probe, std::move(verdicts));
    return true;
  }
  void submit(std::vector<TransferJob> jobs) override {
    for (auto& job : jobs) {
      {
        const std::scoped_lock lock(script_->mutex_);
        if (script_->holds) {
          script_->held_.push_back(std::move(job));
          continue;
        }
      }
      script_->end(job);
    }
  }
  void cancel(JobId) override {}
  void cancel_queued() override {}
  OffloadPolicy on_new_request(const RequestContext&) override {
    return script_->wants_requests_whole ? OffloadPolicy::request_level
                                         : OffloadPolicy::chunk_level;
  }
  bool forget(ForgetId forget, KeyList keys) override {
    std::uint64_t removed = 0;
    {
      const std::scoped_lock lock(script_->mutex_);
      for (const auto& key : keys) removed += script_->present_.erase(key);
    }
    environment_.sink->forgot(forget, removed, {});
    return true;
  }
  [[nodiscard]] TierStats stats() const override { return script_->stats; }
  bool stop(Duration) override {
    script_->release();
    return true;
  }

 private:
  static std::map<std::string, std::shared_ptr<TierScript>>& scripts() {
    static std::map<std::string, std::shared_ptr<TierScript>> all;
    return all;
  }
  static bool make_known() {
    TierType type;
    type.make = [](const TierConfig& config,
                   TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
      const ConfigNode* name = config.node.find("script");
      const auto* text = name != nullptr ? std::get_if<std::string>(&name->value()) : nullptr;
      if (text == nullptr || !scripts().contains(*text))
        return OffloadError{OffloadErrc::invalid_config, config.path + ".script: unknown"};
      return std::unique_ptr<SecondaryTier>(
          std::make_unique<DrivenTier>(scripts().at(*text), std::move(environment)));
    };
    return bool(secondary_tiers().register_tier(kType, std::move(type)));
  }

  std::shared_ptr<TierScript> script_;
  TierEnvironment environment_;
};

}  // namespace kv_offload::test
