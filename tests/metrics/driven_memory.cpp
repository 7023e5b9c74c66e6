#include "kv_offload/tests/metrics/driven_engine.hpp"
#include "kv_offload/tests/metrics/driven_workloads.hpp"

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

const LookupOptions kUnheld{.hold = false};
/// Nothing of the primary tier is set aside: four chunks are four chunks.
const std::string kNoShares = R"("primary": {"headroom_share": 0, "hold_share": 0,
    "max_pinned_share": 0, "pin_unread": "never"})";

/// As many promotions as may be.
const std::string kAllShares = R"("primary": {"headroom_share": 0, "hold_share": 0,
    "max_pinned_share": 0.5, "pin_unread": "never"})";

/// Four chunks, all wanted at once: one is evicted, then none can be.
Exposition crowded(Definitions& definitions) {
  DrivenEngine engine(4, kNoShares + R"(, "secondary_tiers": [{$0, "pin_share": 1}])");
  const auto request = engine.request("r");
  const auto keys = keys_named('a', 4);
  engine.store(request, keys);
  engine.lookup(request, first_of(keys, 2));  // wants two holds, which no share allows
  engine.store(request, keys_named('b', 1));  // for which one of the four goes
  return engine.page(definitions);
}

const std::vector<Known> kCrowded = {
    {"kv_offload_primary_evicted_chunks_total", 1, Known::at_least},
    {"kv_offload_primary_refused_holds_total", 2},
};

/// Every chunk is leased: a store finds no room, nor does a chunk that the tier has.
Exposition full(Definitions& definitions) {
  DrivenEngine engine(4, kAllShares + R"(, "secondary_tiers": [{$0, "pin_share": 0.5}])");
  engine.tiers[0]->hold_keys(keys_named('p', 1));
  const auto request = engine.request("r");
  const auto keys = keys_named('a', 4);
  engine.store(request, keys);
  const auto lease = engine.prepare_load(request, keys);
  if (engine->prepare_store(request, keys_named('c', 2)).get())
    throw std::runtime_error("a full tier had room");
  engine.lookup(engine.request("other"), keys_named('p', 1), kUnheld);
  const auto page = engine.page(definitions);
  engine.wait(engine->complete_load(lease));
  return page;
}

const std::vector<Known> kFull = {
    {"kv_offload_allocation_failures_total", 1},
    {kTiering + "promotion_allocation_failures_total", 1},
    {kTiering + "chunk_hits_total" + kT1, 1},  // a hit, although it could not be promoted
    {"kv_offload_dropped_chunks_total" + kIn1 + "direction=\"promotion\",reason=\"no_space\"}", 1},
    {"kv_offload_admission_withdrawn_chunks_total" + kT1, 1},
    {kVllm + "cpu_cache_usage_perc", 1},
};

/// A promoted chunk is evicted before anyone reads it.
Exposition thrashing(Definitions& definitions) {
  DrivenEngine engine(4, kAllShares + R"(, "secondary_tiers": [{$0, "pin_share": 0.5}])");
  engine.tiers[0]->hold_keys(keys_named('p', 1));
  const auto request = engine.request("r");
  engine.lookup(request, keys_named('p', 1), kUnheld);
  engine.store(request, keys_named('a', 4));
  return engine.page(definitions);
}

const std::vector<Known> kThrashing = {
    {"kv_offload_primary_promoted_evicted_unread_chunks_total", 1},
    {"kv_offload_primary_evicted_chunks_total", 1},
};

/// Two promoted chunks that nobody reads in time.
Exposition unread(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}], "deadlines": {"unread_ms": 1})");
  engine.tiers[0]->hold_keys(keys_named('p', 2));
  engine.lookup(engine.request("r"), keys_named('p', 2), kUnheld);
  engine.until([](const EngineStats& s) { return s.primary.pins_expired_unread == 2; });
  return engine.page(definitions);
}

const std::vector<Known> kUnread = {
    {"kv_offload_primary_expired_unread_holds_total", 2},
};

/// A store's keys have to be looked up twice first: of two only one was.
Exposition reuse(Definitions& definitions) {
  DrivenEngine engine(64, R"("store_threshold": 2)");
  const auto request = engine.request("r");
  const auto keys = keys_named('a', 2);
  engine.lookup(request, keys);
  engine.lookup(engine.request("again"), first_of(keys, 1));
  engine.store(request, keys);
  return engine.page(definitions);
}

const std::vector<Known> kReuse = {
    {kVllm + "stores_skipped_total", 1},
    {"kv_offload_reuse_tracked_chunks", 2},
    {"kv_offload_device_stored_chunks_total", 1},
};

/// With nothing filtered the reference's counter is there as well, at 0.
Exposition no_reuse(Definitions& definitions) {
  DrivenEngine engine(64, R"("store_threshold": 2)");
  return engine.page(definitions);
}

const std::vector<Known> kNoReuse = {{kVllm + "stores_skipped_total", 0},
                                     {"kv_offload_reuse_tracked_chunks", 0}};

/// Nobody takes the events of so many stores, each of which evicts a chunk: two events a store.
Exposition untaken_events(Definitions& definitions) {
  DrivenEngine engine(512, kNoShares + R"(, "enable_kv_events": true)");
  const auto request = engine.request("r");
  for (std::size_t round = 0; engine.wait(engine->stats()).primary.events_dropped == 0; ++round) {
    std::vector<Pending<StorePlan>> plans;
    for (std::size_t n = 0; n < 512; ++n) {
      std::byte hash[32] = {static_cast<std::byte>(n), static_cast<std::byte>(n >> 8),
                            static_cast<std::byte>(round), static_cast<std::byte>(round >> 8)};
      plans.push_back(engine->prepare_store(request, {*OffloadKey::make(hash, 0)}));
    }
    std::vector<Pending<StoreOutcome>> outcomes;
    for (auto& plan : plans)
      outcomes.push_back(engine->complete_store(DrivenEngine::wait(std::move(plan)).lease));
    for (auto& outcome : outcomes) DrivenEngine::wait(std::move(outcome));
  }
  return engine.page(definitions);
}

const std::vector<Known> kUntakenEvents = {
    {"kv_offload_events_dropped_total", 1, Known::at_least},
};

}  // namespace

std::vector<Workload> memory_workloads() {
  return {
      {"crowded", crowded, kCrowded},       {"full", full, kFull},
      {"thrashing", thrashing, kThrashing}, {"unread", unread, kUnread},
      {"reuse", reuse, kReuse},             {"no reuse", no_reuse, kNoReuse},
      {"untaken events", untaken_events, kUntakenEvents},
  };
}

}  // namespace kv_offload::test
