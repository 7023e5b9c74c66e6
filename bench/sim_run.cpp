#include "kv_offload/bench/sim_run.hpp"

#include "kv_offload/actors/json_config.hpp"
#include "kv_offload/bench/cascade_window.hpp"
#include "kv_offload/bench/device.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/sim_engine.hpp"
#include "kv_offload/bench/sim_sequential.hpp"
#include "kv_offload/bench/sim_serving.hpp"
#include "kv_offload/bench/sim_workload.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace kv_offload::bench {
namespace {

/// Streams of one seed that must not be the same.
constexpr std::uint64_t kWorkloadStream = 0x5851f42d4c957f2dULL;
constexpr std::uint64_t kTierStream = 0x14057b7ef767814fULL;

constexpr int kDrains = 4;  // of deadlines.drain each, 30 s: a store is given up after 60 s

/// Brings the engine to an idle point and takes the final numbers.
void settle(SimWorld& world, SimEngine& engine, SimOutcome& outcome) {
  // A slow tier may have more queued than one drain waits for; a transfer beyond twice its own deadline is given up.
  for (int left = kDrains; left > 0; --left) {
    // Shared: an engine that ends answers what is still open.
    const auto drained = std::make_shared<std::optional<Expected<Ok>>>();
    engine.drain([drained](Expected<Ok> done) { *drained = std::move(done); });
    if (!world.run([&] { return drained->has_value(); })) {
      outcome.problems.emplace_back("the drain did not end");
      break;
    }
    if (**drained) break;
    if (left == 1) outcome.problems.push_back("drain: " + to_string((*drained)->error()));
  }
  bool told = false;
  engine.stats([&](Expected<EngineStats> stats) {
    if (stats)
      outcome.stats = std::move(*stats);
    else
      outcome.problems.push_back("stats: " + to_string(stats.error()));
    told = true;
  });
  if (!world.run([&] { return told; })) outcome.problems.emplace_back("no stats were answered");
  outcome.promises = check_promises(outcome.stats, /*idle=*/true);
  outcome.tiers = tier_reports(outcome.stats, outcome.totals.tier_hits);
}

KeyList keys_of(const std::vector<std::uint64_t>& chunks) {
  KeyList keys;
  for (const auto chunk : chunks) keys.push_back(chunk_key(chunk));
  return keys;
}

}  // namespace

Expected<SimOutcome> run_policy(const Json& document, const SimPolicy& policy,
                                const SimInput& input) {
  auto setup = build_setup(document, policy);
  if (!setup) return setup.error();
  const auto workload_it = document.find("workload");
  auto node =
      parse_json_config(workload_it == document.end() ? "{}" : workload_it->dump(), "workload");
  if (!node) return node.error();
  ConfigReader reader(*node, "workload");
  auto workload =
      read_workload(reader, {setup->engine.tokens_per_chunk, input.seed ^ kWorkloadStream,
                             input.requests_max, input.trace});
  if (auto error = reader.finish()) return *error;
  if (setup->sequential && (input.trace == nullptr || !setup->offload))
    return OffloadError{OffloadErrc::invalid_config,
                        "serving.order: \"sequential\" needs --trace and a policy other than off"};

  SimOutcome outcome;
  outcome.policy = policy.name;
  outcome.row_bytes = setup->engine.row_bytes();
  SimWorld world;
  SimDevice device(world, setup->device);
  std::unique_ptr<SimEngine> engine;
  if (setup->offload) {
    auto started = SimEngine::start(world, setup->engine, setup->tiers, input.seed ^ kTierStream,
                                    [&](Duration duration) { device.stall(duration); });
    if (!started) return started.error();
    engine = std::move(*started);
    const KeyList before = keys_of(workload->preloaded());
    for (std::size_t t = 0; t < setup->tiers.size() && !before.empty(); ++t)
      engine->tier(t).preload(before);
  }
  const auto play = [&](auto& driver) {
    driver.start();
    if (!world.run([&] { return driver.done() || interrupted(); }))
      outcome.problems.emplace_back("the run stood still before its last request had ended");
    outcome.totals = driver.take_totals();
  };
  // The drivers are called back until the engine is gone: they live as long.
  SimServingOptions serving{setup->engine.tokens_per_chunk,
                            outcome.row_bytes,
                            setup->engine.primary.hold,
                            setup->step_tokens,
                            setup->offers,
                            setup->look_up_at_arrival,
                            setup->from_s,
                            setup->to_s};
  SimServing concurrent(world, device, engine.get(), *workload, serving);
  std::unique_ptr<SimSequential> sequential;
  if (setup->sequential) {
    sequential = std::make_unique<SimSequential>(
        world, device, *engine, *input.trace,
        input.requests_max > 0 ? input.requests_max : input.trace->size(),
        SimSequentialOptions{setup->head_most_recent, setup->engine.tokens_per_chunk,
                             outcome.row_bytes, cascade_chunks_max(setup->engine)});
    play(*sequential);
  } else {
    play(concurrent);
  }
  if (interrupted()) outcome.problems.emplace_back("interrupted");
  if (outcome.totals.call_errors > 0)
    outcome.problems.push_back(std::to_string(outcome.totals.call_errors) +
                               " calls failed, first: " + outcome.totals.first_error);
  if (engine != nullptr && !interrupted()) settle(world, *engine, outcome);
  bool healed = true;
  for (std::size_t t = 0; engine != nullptr && t < setup->tiers.size(); ++t) {
    const SimTier& tier = engine->tier(t);
    outcome.backlog_share = std::max(outcome.backlog_share, static_cast<double>(tier.backlog_peak()) /
                                                                static_cast<double>(outcome.stats.primary.num_chunks));
    if (setup->tiers[t].faults.empty()) continue;
    healed = healed && tier.recovery_s() >= 0;
    outcome.recovery_s = healed ? std::max(outcome.recovery_s, tier.recovery_s()) : -1;
  }
  engine.reset();
  return outcome;
}

}  // namespace kv_offload::bench
