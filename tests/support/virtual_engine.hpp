#pragma once

#include "kv_offload/actors/engine_actors.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <catch2/catch.hpp>

#include <deque>
#include <map>
#include <set>

namespace kv_offload::test {

/// A secondary tier that does what the test says, when it says so: an in-memory presence map whose jobs
/// wait until `finish` is called (or end at once with `automatic`).
class ScriptedTier : public SecondaryTier {
 public:
  bool automatic = true;
  bool answers_probes = true;
  std::set<OffloadKey> present;
  std::set<OffloadKey> unreadable;  ///< loads of these fail
  std::deque<TransferJob> jobs;     ///< waiting for finish()
  std::vector<std::pair<ProbeId, KeyList>> probes;
  std::vector<JobId> cancelled;
  TierSink* sink = nullptr;

  TierTraits traits() const override { return {"scripted", Medium::storage, Locality::local}; }
  Expected<Ok> start() override { return Ok{}; }
  bool probe(ProbeId id, KeyList keys) override {
    probes.emplace_back(id, keys);
    if (answers_probes) answer_probe(id, keys);
    return true;
  }
  void answer_probe(ProbeId id, const KeyList& keys) {
    std::vector<LookupResult> verdicts;
    for (const auto& key : keys)
      verdicts.push_back(present.contains(key) ? LookupResult::hit : LookupResult::miss);
    sink->probed(id, verdicts);
  }
  void submit(std::vector<TransferJob> batch) override {
    for (auto& job : batch) {
      jobs.push_back(std::move(job));
      if (automatic) finish(0);
    }
  }
  /// Ends the waiting job at `at`: both ends, or the first only.
  void finish(std::size_t at, bool quiesce = true) {
    const auto job = jobs.at(at);
    jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(at));
    JobResult result;
    result.job_id = job.job_id;
    result.success = true;
    for (const auto& key : job.keys) {
      const bool ok = job.is_promotion ? present.contains(key) && !unreadable.contains(key) : true;
      result.fates.push_back(ok ? KeyFate::done : KeyFate::failed);
      result.success = result.success && ok;
      if (ok && !job.is_promotion) present.insert(key);
      if (ok) result.transfer_bytes += job.chunk_bytes;
    }
    if (!result.success) result.failure = TransferFailure::corrupt;
    sink->job_outcome(result);
    if (quiesce) sink->job_quiesced(job.job_id);
  }
  void cancel(JobId job) override { cancelled.push_back(job); }
  void cancel_queued() override {
    while (!jobs.empty()) {
      JobResult result;
      result.job_id = jobs.front().job_id;
      result.failure = TransferFailure::cancelled;
      jobs.pop_front();
      sink->job_outcome(result);
      sink->job_quiesced(result.job_id);
    }
  }
  TierStats stats() const override { return {}; }
  bool stop(Duration) override { return true; }
};

/// Every actor of an engine under CAF's test scheduler: messages run one at a time in a fixed order, time
/// moves only by `advance`. Calls answer through `ask`, which runs the actors until nothing is left to do.
class VirtualEngine {
 public:
  struct Options {
    std::uint32_t chunks = 16;
    std::size_t tiers = 1;
    std::string admission = {};  ///< JSON of admission_policy
    double pin_share = 0.4;
    PrimaryConfig primary{0.0, 0.3, 0.3};
    bool events = false;
  };
  explicit VirtualEngine(Options options);
  ~VirtualEngine();

  void run() { scheduler().run(); }
  /// Moves time on in ticks and lets everything due happen.
  void advance(Duration d);
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }

  template <class T>
  struct Call {
    std::shared_ptr<CompletionSlot<T>> slot;
    [[nodiscard]] bool answered() const { return slot->ready(); }
    Expected<T> get() const {
      REQUIRE(slot->ready());
      return slot->take();
    }
  };
  /// Sends a call and runs; the answer may still be open afterwards.
  template <class T, class Make>
  Call<T> start(Make make) {
    auto slot = std::make_shared<CompletionSlot<T>>(0U);
    caf::anon_send(actors.step, make(Reply<T>(slot)));
    run();
    return {slot};
  }

  RequestHandle request(const std::string& id = "r", TierFilter filter = {});
  Call<LookupAnswer> lookup(RequestHandle request, const KeyList& keys, LookupOptions options = {});
  Expected<StorePlan> prepare_store(RequestHandle request, const KeyList& keys);
  Call<StoreOutcome> complete_store(LeaseId lease, CompleteStoreOptions options = {});
  /// prepare and complete, as a caller does.
  void store(RequestHandle request, const KeyList& keys);
  Expected<LoadPlan> prepare_load(RequestHandle request, const KeyList& keys);
  Expected<Ok> complete_load(LeaseId lease);
  Expected<RequestSummary> finish(RequestHandle request);
  Expected<Ok> abort(RequestHandle request);
  EngineStats stats();
  /// Fails the test, naming the promise, if the idle counters disagree.
  void require_promises();
  ScriptedTier& tier(std::size_t t = 0) { return *tiers_.at(t); }
  /// Handled messages since the last call, "<actor> <message>", without ticks and totals.
  std::vector<std::string> take_trace();

  EngineActors actors;
  std::vector<std::string> log;

 private:
  std::unique_ptr<caf::actor_system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::vector<std::byte> memory_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> in_use_;
  std::vector<std::shared_ptr<ScriptedTier>> tiers_;
  std::vector<std::shared_ptr<LaneSink>> sinks_;
  std::vector<std::string> trace_;
};

/// Keys "<name>0" … of one prefix.
KeyList keys(const std::string& name, std::size_t n, std::size_t from = 0);

}  // namespace kv_offload::test
