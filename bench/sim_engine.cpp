#include "kv_offload/bench/sim_engine.hpp"

#include "kv_offload/actors/engine_actors.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <atomic>
#include <string>
#include <utility>

namespace kv_offload::bench {
namespace {

/// Distinct streams of one seed.
constexpr std::uint64_t kSeedStep = 0x9e3779b97f4a7c15ULL;

struct TestConfig : caf::actor_system_config {
  TestConfig() { set("scheduler.policy", caf::atom("testing")); }
};

}  // namespace

void register_sim_tier_type() {
  static const bool once = [] {
    TierType type;
    type.make = [](const TierConfig&, TierEnvironment) -> Expected<std::unique_ptr<SecondaryTier>> {
      return OffloadError{OffloadErrc::unsupported, "type sim: only `simulate` has such tiers"};
    };
    return static_cast<bool>(secondary_tiers().register_tier("sim", std::move(type)));
  }();
  (void)once;
}

struct SimEngine::Impl {
  TestConfig caf_config;
  caf::actor_system system{caf_config};
  EngineActors actors;
  EngineParts parts;
  std::vector<std::shared_ptr<SimTier>> tiers;
  std::unique_ptr<std::atomic<std::uint32_t>[]> in_use;
  SimWorld* world = nullptr;
  MonotonicTime next_tick{};

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  template <class T, class Make>
  void call(Then<T> then, Make make) {
    auto slot = std::make_shared<CompletionSlot<T>>(0U);
    auto message = make(Reply<T>(slot));
    if (then) slot->on_ready(std::move(then));
    caf::anon_send(actors.steps.front(), std::move(message));
  }
  template <class Actor>
  void stop(Actor& actor) {
    if (!actor) return;
    auto slot = std::make_shared<CompletionSlot<Ok>>(0U);
    caf::anon_send(actor, StopActor{Reply<Ok>(slot)});
    scheduler().run();
    actor = nullptr;
  }
};

SimEngine::SimEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Expected<std::unique_ptr<SimEngine>> SimEngine::start(SimWorld& world, const EngineConfig& config,
                                                      const std::vector<SimTierModel>& tiers,
                                                      std::uint64_t seed,
                                                      std::function<void(Duration)> stall) {
  register_sim_tier_type();
  if (auto error = config.validate()) return *error;
  std::unique_ptr<SimEngine> engine(new SimEngine(std::make_unique<Impl>()));
  Impl& impl = *engine->impl_;
  impl.world = &world;
  auto env = std::make_shared<ActorEnvironment>();
  if (config.log)
    env->log = [log = config.log](std::string_view level, const std::string& line) {
      log(std::string(level), line);
    };
  else
    env->log = [](std::string_view, const std::string&) {};
  impl.parts.env = env;
  const auto chunks = static_cast<ChunkId>(config.num_chunks());
  impl.in_use = std::make_unique<std::atomic<std::uint32_t>[]>(chunks);
  impl.parts.view = {nullptr, config.row_bytes(), config.chunk_bytes, chunks, impl.in_use.get()};
  impl.parts.labels.push_back(primary_label());
  for (std::size_t t = 0; t < tiers.size(); ++t) {
    const auto index = static_cast<TierIndex>(t);
    auto sink = std::make_shared<LaneSink>(index);
    auto tier = std::make_shared<SimTier>(
        tiers[t],
        SimTier::Parts{&world, sink.get(), impl.parts.view, seed + (t + 1) * kSeedStep, stall});
    impl.parts.gates.push_back(
        std::make_shared<ParentGate>(index, config.calls_max, impl.parts.external_expired));
    impl.parts.traits.push_back(tier->traits());
    impl.parts.labels.push_back(tier_label(index, config.secondary_tiers[t].type));
    impl.parts.sinks.push_back(std::move(sink));
    impl.parts.tiers.push_back(tier);
    impl.tiers.push_back(std::move(tier));
  }
  // The actors' clock starts where the world is.
  impl.scheduler().clock().current_time = world.now();
  auto actors = spawn_engine_actors(impl.system, config, impl.parts);
  if (!actors) return actors.error();
  impl.actors = std::move(actors).value();
  impl.scheduler().run();
  impl.next_tick = world.now() + env->tick;
  world.inhabit(engine.get());
  return engine;
}

SimEngine::~SimEngine() {
  Impl& impl = *impl_;
  if (impl.world != nullptr) impl.world->inhabit(nullptr);
  for (auto& gate : impl.parts.gates) gate->close();
  for (auto& sink : impl.parts.sinks) sink->close();
  for (auto& tier : impl.actors.tiers) impl.stop(tier);
  impl.stop(impl.actors.tracker);
  impl.stop(impl.actors.admission);
  for (auto& primary : impl.actors.primaries) impl.stop(primary);
  for (auto& step : impl.actors.steps) impl.stop(step);
  impl.stop(impl.actors.metrics);
  impl.stop(impl.actors.supervisor);
  impl.scheduler().run();
}

SimTier& SimEngine::tier(std::size_t t) { return *impl_->tiers.at(t); }

void SimEngine::settle() { impl_->scheduler().run(); }

void SimEngine::advance(Duration step) {
  impl_->scheduler().advance_time(step);
  while (impl_->next_tick <= impl_->world->now()) impl_->next_tick += impl_->parts.env->tick;
}

MonotonicTime SimEngine::next_due() const { return impl_->next_tick; }

// -- calls ----------------------------------------------------------------------------------------------

namespace {

SharedKeys shared(KeyList keys) { return std::make_shared<const KeyList>(std::move(keys)); }

}  // namespace

void SimEngine::new_request(NewRequest request, Then<OpenedRequest> then) {
  impl_->call<OpenedRequest>(std::move(then), [&](Reply<OpenedRequest> reply) {
    return NewRequestCall{std::move(request), std::nullopt, std::move(reply)};
  });
}
void SimEngine::lookup(RequestHandle request, KeyList keys, LookupOptions options,
                       Then<LookupAnswer> then) {
  impl_->call<LookupAnswer>(std::move(then), [&](Reply<LookupAnswer> reply) {
    return LookupCall{request, shared(std::move(keys)), options, std::move(reply)};
  });
}
void SimEngine::allocated(RequestHandle request, std::uint64_t device_tokens) {
  impl_->call<Ok>({}, [&](Reply<Ok> reply) {
    return AllocatedCall{request, device_tokens, std::move(reply)};
  });
}
void SimEngine::prepare_load(RequestHandle request, KeyList keys, Then<LoadPlan> then) {
  impl_->call<LoadPlan>(std::move(then), [&](Reply<LoadPlan> reply) {
    return PrepareLoadCall{request, shared(std::move(keys)), std::move(reply)};
  });
}
void SimEngine::complete_load(LeaseId lease) {
  impl_->call<Ok>({}, [&](Reply<Ok> reply) { return CompleteLoadCall{lease, std::move(reply)}; });
}
void SimEngine::prepare_store(RequestHandle request, KeyList keys, StoreOptions options,
                              Then<StorePlan> then) {
  impl_->call<StorePlan>(std::move(then), [&](Reply<StorePlan> reply) {
    return PrepareStoreCall{request, shared(std::move(keys)), options, std::move(reply)};
  });
}
void SimEngine::complete_store(LeaseId lease, CompleteStoreOptions options,
                               Then<StoreOutcome> then) {
  impl_->call<StoreOutcome>(std::move(then), [&](Reply<StoreOutcome> reply) {
    return CompleteStoreCall{lease, options, std::move(reply)};
  });
}
void SimEngine::touch(RequestHandle request, KeyList keys) {
  impl_->call<Ok>({}, [&](Reply<Ok> reply) {
    return TouchCall{request, shared(std::move(keys)), std::move(reply)};
  });
}
void SimEngine::finish(RequestHandle request) {
  impl_->call<RequestSummary>({}, [&](Reply<RequestSummary> reply) {
    return FinishCall{request, std::move(reply)};
  });
}
void SimEngine::drain(Then<Ok> then) {
  impl_->call<Ok>(std::move(then), [&](Reply<Ok> reply) {
    return DrainCall{false, std::nullopt, std::move(reply)};
  });
}
void SimEngine::stats(Then<EngineStats> then) {
  impl_->call<EngineStats>(std::move(then),
                           [&](Reply<EngineStats> reply) { return StatsCall{std::move(reply)}; });
}

}  // namespace kv_offload::bench
