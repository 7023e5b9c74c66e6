#pragma once

#include "kv_offload/actors/domain_calls.hpp"
#include "kv_offload/actors/engine_actors.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <catch2/catch.hpp>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
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
  std::set<OffloadKey> unstorable;  ///< stores of these fail
  std::deque<TransferJob> jobs;     ///< waiting for finish()
  std::vector<std::pair<ProbeId, KeyList>> probes;
  std::vector<JobId> cancelled;
  std::deque<TransferJob> submitted;  ///< every job ever, in order
  TierSink* sink = nullptr;
  ParentManager* parent = nullptr;    ///< the engine, for a tier that serves others
  // What the tier is and wants; set before the engine is made (Options::setup_tier).
  bool in_memory = false;             ///< answers lookups at once, without a probe
  bool forgets = true;
  TierTraits tier_traits{"scripted", Medium::storage, Locality::local, false, false};
  OffloadPolicy policy = OffloadPolicy::chunk_level;
  std::vector<std::string> calls;     ///< "open r", "close r", "touch n", in order
  std::vector<OffloadingEvent> events;

  TierTraits traits() const override { return tier_traits; }
  Expected<Ok> start() override { return Ok{}; }
  std::optional<LookupResult> lookup(const OffloadKey& key) override {
    if (!in_memory) return std::nullopt;
    return present.contains(key) ? LookupResult::hit : LookupResult::miss;
  }
  OffloadPolicy on_new_request(const RequestContext& r) override {
    calls.push_back("open " + r.request.req_id);
    return policy;
  }
  void on_request_finished(const RequestContext& r) override { calls.push_back("close " + r.request.req_id); }
  void touch(const KeyList& keys) override { calls.push_back("touch " + std::to_string(keys.size())); }
  bool forget(ForgetId id, KeyList keys) override {
    if (!forgets) return false;
    std::uint64_t n = 0;
    for (const auto& key : keys) n += present.erase(key);
    sink->forgot(id, n, {});
    return true;
  }
  bool forget_tenant(ForgetId id, std::uint64_t salt) override {
    sink->forgot(id, std::erase_if(present, [&](const auto& key) { return key.has_salt(salt); }), {});
    return true;
  }
  std::vector<OffloadingEvent> take_events() override { return std::exchange(events, {}); }
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
      submitted.push_back(job);
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
      const bool ok = job.is_promotion ? present.contains(key) && !unreadable.contains(key) : !unstorable.contains(key);
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
    DomainId domains = 1;  ///< `chunks` is a multiple of its square
    std::uint64_t shuffle =
        0;  ///< seed: actors take their turns in a random order; 0: in that of their messages
    std::size_t tiers = 1;
    std::string admission = {};  ///< JSON of admission_policy
    double pin_share = 0.4;
    PrimaryConfig primary{0.0, 0.3, 0.3};
    bool events = false;
    std::string eviction = "lru";
    std::uint32_t tokens_per_chunk = 0;
    std::uint32_t compute_tokens_per_s = 0;
    std::uint32_t store_threshold = 0;
    std::uint32_t probes_max = 65536;
    bool offload_prompt_only = true;
    std::vector<std::vector<std::uint32_t>> atomic_groups = {};
    std::function<void(std::size_t, ScriptedTier&)> setup_tier = {};
    AdmissionKeeping keeping = {};
    std::function<Expected<Ok>(WorkerOrder)> order_workers =
        {};  ///< workers that do what the test says
    std::function<void(const std::string&)> revise_workers = {};
  };
  explicit VirtualEngine(Options options);
  ~VirtualEngine();

  void run();
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
    send_call(actors.steps, make(Reply<T>(slot)));
    run();
    return {slot};
  }

  /// The same to every domain.
  template <class T, class Make, class Add>
  Call<T> start_all(Make make, Add add) {
    auto slot = std::make_shared<CompletionSlot<T>>(0U);
    ask_all<T>(actors.steps, Reply<T>(slot), make, add);
    run();
    return {slot};
  }

  OpenedRequest request(const std::string& id = "r", TierFilter filter = {});
  OpenedRequest request(NewRequest request, std::optional<TierIndex> excluded = {});
  Call<LookupAnswer> lookup(RequestHandle request, const KeyList& keys, LookupOptions options = {});
  Expected<StorePlan> prepare_store(RequestHandle request, const KeyList& keys, StoreOptions options = {});
  Call<StoreOutcome> complete_store(LeaseId lease, CompleteStoreOptions options = {});
  /// prepare and complete, as a caller does.
  void store(RequestHandle request, const KeyList& keys);
  Expected<LoadPlan> prepare_load(RequestHandle request, const KeyList& keys);
  Expected<Ok> complete_load(LeaseId lease);
  Call<StoreOutcome> store_blocks(LeaseId lease, BlockList blocks, CopyOptions options = {});
  Call<Ok> load_blocks(LeaseId lease, BlockList blocks, CopyOptions options = {});
  /// What the workers' hub says of an order.
  void worker_says(OrderOutcome outcome);
  void workers_quiesced(std::uint64_t order);
  /// The polling view: what one key's lookup says now.
  LookupResult poll(RequestHandle request, const OffloadKey& key);
  void step_begin() { step(false, {}); }
  void step_end(ScheduleEnd end = {}) { step(true, std::move(end)); }
  void touch(RequestHandle request, const KeyList& keys);
  std::vector<OffloadingEvent> take_events();
  Expected<ForgetSummary> forget(const KeyList& keys, const std::string& tenant = {}, bool whole_tenant = false);
  bool has_pending_work();
  void allocated(RequestHandle request, std::uint64_t device_tokens);
  Expected<Ok> reset();
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
  void step(bool ends, ScheduleEnd end);
  std::unique_ptr<caf::actor_system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::vector<std::byte> memory_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> in_use_;
  std::vector<std::shared_ptr<ScriptedTier>> tiers_;
  std::vector<std::shared_ptr<LaneSink>> sinks_;
  std::vector<std::shared_ptr<ParentGate>> gates_;
  std::shared_ptr<WorkerSink> worker_sink_;
  std::vector<std::string> trace_;
  std::optional<std::mt19937_64> shuffle_;
};

/// Keys "<name>0" … of one prefix.
KeyList keys(const std::string& name, std::size_t n, std::size_t from = 0);

}  // namespace kv_offload::test
