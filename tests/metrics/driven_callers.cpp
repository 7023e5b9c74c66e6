#include "kv_offload/tests/metrics/driven_engine.hpp"
#include "kv_offload/tests/metrics/driven_workloads.hpp"

#include <future>

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

/// Chunks are 16 tokens: of four, two lie within 32 tokens.
Exposition capped(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  NewRequest limited{.req_id = "limited", .prompt_tokens = 64};
  limited.max_offload_tokens = 32;
  limited.max_load_tokens = 16;
  const auto request = engine.request(std::move(limited));
  const auto keys = keys_named('a', 4);
  engine.wait(engine->lookup(request, keys, {.hold = false}));
  const auto plan = engine.wait(engine->prepare_store(request, keys, {.first_token = 0}));
  engine.wait(engine->complete_store(plan.lease));
  NewRequest broken{.req_id = "broken"};
  broken.kv_transfer_params = R"({"kv_load_tiers": 3, "max_load_tokens": -1})";
  engine.request(std::move(broken));
  return engine.page(definitions);
}

const std::vector<Known> kCapped = {
    {"kv_offload_capped_store_chunks_total", 2},
    {"kv_offload_capped_load_chunks_total", 3},
    {"kv_offload_transfer_param_faults_total{part=\"kv_load_tiers\"}", 1},
    {"kv_offload_transfer_param_faults_total{part=\"max_load_tokens\"}", 1},
    {"kv_offload_transfer_param_faults_total{part=\"max_offload_tokens\"}", 0},
    {"kv_offload_transfer_param_faults_total{part=\"not_an_object\"}", 0},
};

/// Three chunks are stored and forgotten, in memory and in the tier.
Exposition forgotten(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  engine.store(engine.request("r"), keys_named('a', 3));
  engine.wait(engine->forget(keys_named('a', 3)));
  return engine.page(definitions);
}

const std::vector<Known> kForgotten = {
    {"kv_offload_forgotten_chunks_total" + kP, 3},
    {"kv_offload_forgotten_chunks_total" + kT1, 3},
};

/// In the middle of a step: two chunks are granted and not yet submitted, and the tier's verdicts on
/// three are kept.
Exposition polling(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  engine.tiers[0]->hold_keys(keys_named('p', 2));
  const auto request = engine.request("r");
  const LookupOptions polled{.scan = LookupScan::window, .wait = LookupWait::polled, .hold = false};
  const auto keys = keys_named('p', 3);
  while (engine.wait(engine->lookup(request, keys, polled)).results !=
         std::vector{LookupResult::hit_pending, LookupResult::hit_pending, LookupResult::miss})
    std::this_thread::yield();
  const auto page = engine.page(definitions);
  engine.wait(engine->step_end({}));
  return page;
}

const std::vector<Known> kPolling = {
    {"kv_offload_pending_promotion_chunks", 2},
    {"kv_offload_tier_kept_verdicts" + kT1, 3},
};

/// The tier may be asked about one key at a time, and does not answer: of three polled keys two find
/// no room.
Exposition unanswered(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}], "probes_max": 1)");
  engine.tiers[0]->holds_probes = true;
  const LookupOptions polled{.scan = LookupScan::window, .wait = LookupWait::polled, .hold = false};
  engine.wait(engine->lookup(engine.request("r"), keys_named('p', 3), polled));
  return engine.page(definitions);
}

const std::vector<Known> kUnanswered = {
    {"kv_offload_tier_verdicts_full_total" + kT1, 2},
    {"kv_offload_tier_open_probes" + kT1, 1},
};

/// The tier wants requests whole: what another request is writing is parked until it is written.
Exposition parked(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  engine.tiers[0]->wants_requests_whole = true;
  const auto keys = keys_named('a', 2);
  const auto plan = engine.prepare_store(engine.request("writer"), keys);
  engine.prepare_store(engine.request("other"), keys);
  const auto page = engine.page(definitions);
  engine.wait(engine->complete_store(plan.lease));
  return page;
}

const std::vector<Known> kParked = {{"kv_offload_parked_cascade_chunks", 2}};

/// The tier asks for somebody else, twice in time and once after its lane has died.
Exposition asked_by_tier(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  engine.start();
  ParentManager& parent = *engine.tiers[0]->environment().parent;
  const auto announce = [&](const std::string& id) {
    std::promise<bool> answered;
    NewRequest request{.req_id = id};
    parent.new_request(std::move(request), [&](const auto& answer) { answered.set_value(bool(answer)); });
    return answered.get_future().get();
  };
  if (!announce("one") || !announce("two")) throw std::runtime_error("not answered");
  engine.tiers[0]->environment().sink->lane_died("told to");
  engine.until([](const EngineStats& s) { return s.tracker.tiers.at(0).disabled; });
  while (announce("three")) std::this_thread::yield();
  return engine.page(definitions);
}

const std::vector<Known> kAskedByTier = {
    {"kv_offload_external_requests_total", 2, Known::at_least},
    {"kv_offload_expired_external_calls_total", 1, Known::at_least},
};

}  // namespace

std::vector<Workload> caller_workloads() {
  return {
      {"capped", capped, kCapped},
      {"forgotten", forgotten, kForgotten},
      {"polling", polling, kPolling},
      {"unanswered", unanswered, kUnanswered},
      {"parked", parked, kParked},
      {"asked by a tier", asked_by_tier, kAskedByTier},
  };
}

}  // namespace kv_offload::test
