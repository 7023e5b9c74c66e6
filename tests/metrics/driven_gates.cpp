#include "kv_offload/tests/metrics/driven_engine.hpp"
#include "kv_offload/tests/metrics/driven_workloads.hpp"

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

/// A request of `tokens` tokens looks `keys` up and is then allocated with `on_device` of them there.
RequestHandle ask(DrivenEngine& engine, const std::string& id, std::uint64_t tokens,
                  const KeyList& keys, std::uint64_t on_device) {
  NewRequest request{.req_id = id, .prompt_tokens = tokens};
  const auto handle = engine.request(std::move(request));
  engine.wait(engine->lookup(handle, keys, {.hold = false}));
  engine.wait(engine->allocated(handle, on_device));
  return handle;
}

// Chunks are 16 tokens. The payoff is the last verdict alone, a load is worth 32 tokens or more, and of
// the lookups that cannot be worth one every second is made all the same.
std::string gates(const std::string& mode) {
  return R"("secondary_tiers": [{$0}], "admission_policy": {"type": "composite", "policies": [
    {"type": "payoff", "mode": ")" + mode + R"(", "target": 1, "floor": 0, "warmup": 1, "alpha": 1},
    {"type": "lookup_gate", "mode": ")" + mode + R"(", "min_load_tokens": 32, "min_issued": 2,
     "probe_every": 2, "cut": 0.9, "alpha": 0.5}]})";
}

/// The tier pays for one request and not for the next; four requests are too short for a load.
Exposition run_gates(const std::string& mode, Definitions& definitions) {
  DrivenEngine engine(64, gates(mode));
  engine.tiers[0]->hold_keys(keys_named('p', 3));
  engine.tiers[0]->hold_keys(keys_named('q', 3));
  const auto paid = ask(engine, "paid", 64, keys_named('p', 3), 0);
  engine.store(paid, keys_named('c', 2));
  const auto unpaid = ask(engine, "unpaid", 64, keys_named('q', 3), 48);
  engine.store(unpaid, keys_named('d', 3));
  for (const unsigned char name : {'w', 'x', 'y', 'z'})
    ask(engine, std::string(1, static_cast<char>(name)), 16, keys_named(name, 1), 0);
  return engine.page(definitions);
}

Exposition enforcing(Definitions& definitions) { return run_gates("enforce", definitions); }
Exposition observing(Definitions& definitions) { return run_gates("observe", definitions); }

const std::vector<Known> kEnforcing = {
    {"kv_offload_payoff" + kT1, 0},
    {"kv_offload_payoff_verdicts_total" + kIn1 + "verdict=\"aligned_large_hit\"}", 1},
    {"kv_offload_payoff_verdicts_total" + kIn1 + "verdict=\"hbm_satisfies_after_alloc\"}", 1},
    {"kv_offload_payoff_verdicts_total" + kIn1 + "verdict=\"lookup_skipped\"}", 2},
    {"kv_offload_payoff_computed_share" + kT1, 0},
    {"kv_offload_payoff_save_share" + kT1, .5},
    {"kv_offload_payoff_saved_jobs_total" + kT1, 1},
    {"kv_offload_payoff_saved_chunks_total" + kT1, 2},
    {"kv_offload_payoff_declined_jobs_total" + kT1, 1},
    {"kv_offload_payoff_declined_chunks_total" + kT1, 3},
    {"kv_offload_payoff_would_decline_jobs_total" + kT1, 0},
    {"kv_offload_payoff_warmup_missing" + kT1, 0},
    {"kv_offload_refused_chunks_total" + kIn1 + "direction=\"cascade\",reason=\"payoff\"}", 3},
    {"kv_offload_lookup_gate_lookups_total" + kT1, 2 + 2},
    {"kv_offload_lookup_gate_answers_total" + kT1, 2 + 2},
    {"kv_offload_lookup_gate_actionable_answers_total" + kT1, 2},
    // .5 and .75 after the two good answers, then halved by each forced one.
    {"kv_offload_lookup_gate_actionable_rate" + kT1, .1875},
    {"kv_offload_lookup_gate_skips_total" + kT1, 2},
    {"kv_offload_lookup_gate_forced_lookups_total" + kT1, 2},
    {"kv_offload_lookup_gate_avoided_tokens_total" + kT1, 2 * 16},
    {"kv_offload_lookup_gate_would_skip_total" + kT1, 0},
    {"kv_offload_lookup_gate_lookup_seconds_total" + kT1, 1e-9, Known::at_least},
    {"kv_offload_lookup_gate_requests_per_second" + kT1, 0, Known::at_least},
    {"kv_offload_payoff_verdicts_per_second" + kT1, 0, Known::at_least},
};

const std::vector<Known> kObserving = {
    {"kv_offload_payoff_saved_jobs_total" + kT1, 2},
    {"kv_offload_payoff_saved_chunks_total" + kT1, 5},
    {"kv_offload_payoff_declined_jobs_total" + kT1, 0},
    {"kv_offload_payoff_would_decline_jobs_total" + kT1, 1},
    {"kv_offload_payoff_would_decline_chunks_total" + kT1, 3},
    {"kv_offload_lookup_gate_lookups_total" + kT1, 2 + 4},
    {"kv_offload_lookup_gate_skips_total" + kT1, 0},
    {"kv_offload_lookup_gate_would_skip_total" + kT1, 2},
};

/// Without a gate in the configuration the estimates are kept all the same.
Exposition unconfigured(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  engine.tiers[0]->hold_keys(keys_named('p', 3));
  const auto request = ask(engine, "r", 64, keys_named('p', 3), 0);
  engine.store(request, keys_named('c', 2));
  return engine.page(definitions);
}

const std::vector<Known> kUnconfigured = {
    {"kv_offload_payoff_verdicts_total" + kIn1 + "verdict=\"too_small\"}", 1},  // 48 of 8192 tokens
    {"kv_offload_payoff_warmup_missing" + kT1, 63},
    {"kv_offload_payoff_saved_jobs_total" + kT1, 1},
    {"kv_offload_lookup_gate_lookups_total" + kT1, 1},
    {"kv_offload_lookup_gate_actionable_answers_total" + kT1, 0},
};

}  // namespace

std::vector<Workload> gate_workloads() {
  return {
      {"gates that enforce", enforcing, kEnforcing},
      {"gates that observe", observing, kObserving},
      {"gates not configured", unconfigured, kUnconfigured},
  };
}

}  // namespace kv_offload::test
