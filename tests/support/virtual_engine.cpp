#include "kv_offload/tests/support/virtual_engine.hpp"

#include "kv_offload/actors/json_config.hpp"

namespace kv_offload::test {
namespace {

struct TestConfig : caf::actor_system_config {
  TestConfig() { set("scheduler.policy", caf::atom("testing")); }
};

}  // namespace

KeyList keys(const std::string& name, std::size_t n, std::size_t from) {
  KeyList out;
  for (std::size_t i = from; i < from + n; ++i) {
    const std::string text = name + std::to_string(i);
    out.push_back(*OffloadKey::make(std::as_bytes(std::span(text)), 0));
  }
  return out;
}

VirtualEngine::VirtualEngine(Options options)
    : config_(std::make_unique<TestConfig>()), system_(std::make_unique<caf::actor_system>(*config_)) {
  EngineConfig config;
  config.chunk_bytes = 4096;
  config.cpu_bytes_to_use = 4096ULL * options.chunks;
  config.primary = options.primary;
  config.enable_kv_events = options.events;
  config.eviction_policy = options.eviction;
  config.tokens_per_chunk = options.tokens_per_chunk;
  config.compute_tokens_per_s = options.compute_tokens_per_s;
  config.store_threshold = options.store_threshold;
  config.probes_max = options.probes_max;
  config.offload_prompt_only = options.offload_prompt_only;
  config.atomic_groups = options.atomic_groups;
  for (std::size_t t = 0; t < options.tiers; ++t) {
    SecondaryTierConfig tier;
    tier.type = "scripted";
    tier.pin_share = options.pin_share;
    config.secondary_tiers.push_back(tier);
  }
  if (!options.admission.empty()) {
    auto node = parse_json_config(options.admission, "test");
    REQUIRE(node);
    config.admission_policy = *node;
  }
  memory_.resize(config.cpu_bytes_to_use);
  in_use_ = std::make_unique<std::atomic<std::uint32_t>[]>(options.chunks);
  auto env = std::make_shared<ActorEnvironment>();
  env->log = [this](std::string_view level, const std::string& line) {
    log.push_back(std::string(level) + ": " + line);
  };
  env->trace = [this](std::string_view actor, std::string_view message) {
    if (message == "Tick" || message == "PublishTotals") return;
    trace_.push_back(std::string(actor.substr(actor.find('.') + 1)) + " " + std::string(message));
  };
  EngineParts parts;
  parts.env = env;
  if (options.shuffle != 0) shuffle_.emplace(options.shuffle);
  parts.failed = std::make_shared<FailedState>();
  parts.board = std::make_shared<StatsBoard>();
  parts.view = PrimaryView{memory_.data(), 4096, 4096, options.chunks, in_use_.get()};
  parts.map = DomainMap{options.domains, options.chunks / (options.domains * options.domains)};
  parts.admission_keeping = options.keeping;
  parts.labels.push_back(primary_label());
  for (std::size_t t = 0; t < options.tiers; ++t) {
    auto tier = std::make_shared<ScriptedTier>();
    auto sink = std::make_shared<LaneSink>(static_cast<TierIndex>(t));
    tier->sink = sink.get();
    gates_.push_back(std::make_shared<ParentGate>(static_cast<TierIndex>(t), 16, parts.external_expired));
    tier->parent = gates_.back().get();
    if (options.setup_tier) options.setup_tier(t, *tier);
    parts.gates.push_back(gates_.back());
    tiers_.push_back(tier);
    sinks_.push_back(sink);
    parts.tiers.push_back(tier);
    parts.sinks.push_back(sink);
    parts.traits.push_back(tier->traits());
    parts.labels.push_back(tier_label(static_cast<TierIndex>(t), "scripted"));
  }
  if (options.order_workers) parts.worker_sink = worker_sink_ = std::make_shared<WorkerSink>();
  parts.order_workers = options.order_workers;
  parts.revise_workers = options.revise_workers;
  auto spawned = spawn_engine_actors(*system_, config, parts);
  REQUIRE(spawned);
  actors = std::move(spawned).value();
  run();
  trace_.clear();
}

VirtualEngine::~VirtualEngine() {
  for (auto& gate : gates_) gate->close();
  for (auto& sink : sinks_) sink->close();
  if (worker_sink_) worker_sink_->close();
  const auto stop = [&](auto& actor) {
    auto slot = std::make_shared<CompletionSlot<Ok>>(0U);
    caf::anon_send(actor, StopActor{Reply<Ok>(slot)});
    run();
    actor = nullptr;
  };
  for (auto& tier : actors.tiers) stop(tier);
  stop(actors.tracker);
  stop(actors.admission);
  for (auto& primary : actors.primaries) stop(primary);
  for (auto& step : actors.steps) stop(step);
  stop(actors.metrics);
  stop(actors.supervisor);
  run();
}

void VirtualEngine::run() {
  if (!shuffle_) return static_cast<void>(scheduler().run());
  auto& ready = scheduler().jobs;
  while (!ready.empty()) {
    std::swap(ready.front(), ready[(*shuffle_)() % ready.size()]);
    scheduler().run_once();
  }
}

void VirtualEngine::advance(Duration d) {
  constexpr Duration kTick = std::chrono::milliseconds(50);
  for (; d > Duration::zero(); d -= std::min(d, kTick)) {
    scheduler().advance_time(std::min(d, kTick));
    run();
  }
}

OpenedRequest VirtualEngine::request(const std::string& id, TierFilter filter) {
  return request(NewRequest{.req_id = id, .load_tiers = std::move(filter)});
}

OpenedRequest VirtualEngine::request(NewRequest request, std::optional<TierIndex> excluded) {
  auto slot = std::make_shared<CompletionSlot<OpenedRequest>>(0U);
  caf::anon_send(actors.steps.at(request.domain.value_or(0)),
                 NewRequestCall{std::move(request), excluded, Reply<OpenedRequest>(slot)});
  run();
  auto handle = Call<OpenedRequest>{slot}.get();
  REQUIRE(handle);
  return *handle;
}

VirtualEngine::Call<LookupAnswer> VirtualEngine::lookup(RequestHandle request, const KeyList& keys,
                                                        LookupOptions options) {
  return start<LookupAnswer>([&](Reply<LookupAnswer> reply) {
    return LookupCall{request, std::make_shared<const KeyList>(keys), options, std::move(reply)};
  });
}

Expected<StorePlan> VirtualEngine::prepare_store(RequestHandle request, const KeyList& keys, StoreOptions options) {
  return start<StorePlan>([&](Reply<StorePlan> reply) {
           return PrepareStoreCall{request, std::make_shared<const KeyList>(keys), options, std::move(reply)};
         }).get();
}

VirtualEngine::Call<StoreOutcome> VirtualEngine::complete_store(LeaseId lease, CompleteStoreOptions options) {
  return start<StoreOutcome>([&](Reply<StoreOutcome> reply) {
    return CompleteStoreCall{lease, options, std::move(reply)};
  });
}

void VirtualEngine::store(RequestHandle request, const KeyList& keys) {
  auto plan = prepare_store(request, keys);
  REQUIRE(plan);
  REQUIRE(complete_store(plan->lease).get());
}

Expected<LoadPlan> VirtualEngine::prepare_load(RequestHandle request, const KeyList& keys) {
  return start<LoadPlan>([&](Reply<LoadPlan> reply) {
           return PrepareLoadCall{request, std::make_shared<const KeyList>(keys), std::move(reply)};
         }).get();
}

Expected<Ok> VirtualEngine::complete_load(LeaseId lease) {
  return start<Ok>([&](Reply<Ok> reply) { return CompleteLoadCall{lease, std::move(reply)}; }).get();
}

VirtualEngine::Call<StoreOutcome> VirtualEngine::store_blocks(LeaseId lease, BlockList blocks,
                                                              CopyOptions options) {
  return start<StoreOutcome>([&](Reply<StoreOutcome> reply) {
    return StoreBlocksCall{lease, std::move(blocks), options, std::move(reply)};
  });
}

VirtualEngine::Call<Ok> VirtualEngine::load_blocks(LeaseId lease, BlockList blocks,
                                                   CopyOptions options) {
  return start<Ok>([&](Reply<Ok> reply) {
    return LoadBlocksCall{lease, std::move(blocks), options, std::move(reply)};
  });
}

void VirtualEngine::worker_says(OrderOutcome outcome) {
  worker_sink_->order_outcome(std::move(outcome));
  run();
}

void VirtualEngine::workers_quiesced(std::uint64_t order) {
  worker_sink_->order_quiesced(order);
  run();
}

LookupResult VirtualEngine::poll(RequestHandle request, const OffloadKey& key) {
  const auto answer = lookup(request, {key}, {.wait = LookupWait::polled, .hold = false}).get();
  REQUIRE(answer);
  return answer->results.at(0);
}

void VirtualEngine::step(bool ends, ScheduleEnd end) {
  REQUIRE(start_all<Ok>(
              [&](Reply<Ok> reply) {
                return StepCall{ends, end, std::move(reply)};
              },
              [](Ok&, Ok) {})
              .get());
}

void VirtualEngine::touch(RequestHandle request, const KeyList& keys) {
  REQUIRE(start<Ok>([&](Reply<Ok> reply) {
            return TouchCall{request, std::make_shared<const KeyList>(keys), std::move(reply)};
          }).get());
}

std::vector<OffloadingEvent> VirtualEngine::take_events() {
  using Events = std::vector<OffloadingEvent>;
  auto events = start<Events>([](Reply<Events> reply) { return EventsCall{std::move(reply)}; }).get();
  REQUIRE(events);
  return *events;
}

Expected<ForgetSummary> VirtualEngine::forget(const KeyList& keys, const std::string& tenant, bool whole_tenant) {
  return start_all<ForgetSummary>(
             [&](Reply<ForgetSummary> reply) {
               return ForgetCall{std::make_shared<const KeyList>(keys), tenant, whole_tenant,
                                 std::move(reply)};
             },
             [](ForgetSummary& whole, const ForgetSummary& part) {
               whole.primary_chunks += part.primary_chunks;
               whole.tier_chunks += part.tier_chunks;
             })
      .get();
}

bool VirtualEngine::has_pending_work() {
  return *start_all<bool>([](Reply<bool> reply) { return PendingWorkCall{std::move(reply)}; },
                          [](bool& any, bool one) { any = any || one; })
              .get();
}

void VirtualEngine::allocated(RequestHandle request, std::uint64_t device_tokens) {
  REQUIRE(start<Ok>([&](Reply<Ok> reply) { return AllocatedCall{request, device_tokens, std::move(reply)}; }).get());
}

Expected<Ok> VirtualEngine::reset() {
  return start<Ok>([](Reply<Ok> reply) { return ResetCall{false, {}, std::move(reply)}; }).get();
}

Expected<RequestSummary> VirtualEngine::finish(RequestHandle request) {
  return start<RequestSummary>([&](Reply<RequestSummary> reply) { return FinishCall{request, std::move(reply)}; })
      .get();
}

Expected<Ok> VirtualEngine::abort(RequestHandle request) {
  return start<Ok>([&](Reply<Ok> reply) { return AbortCall{request, std::move(reply)}; }).get();
}

EngineStats VirtualEngine::stats() {
  const auto kept = trace_;
  auto answer = start<EngineStats>([](Reply<EngineStats> reply) { return StatsCall{std::move(reply)}; }).get();
  trace_ = kept;
  REQUIRE(answer);
  return *answer;
}

void VirtualEngine::require_promises() {
  for (const auto& check : check_promises(stats(), true)) {
    INFO("promise " << check.number << " (" << check.name << "): " << check.why);
    CHECK(check.held);
  }
}

std::vector<std::string> VirtualEngine::take_trace() { return std::exchange(trace_, {}); }

}  // namespace kv_offload::test
