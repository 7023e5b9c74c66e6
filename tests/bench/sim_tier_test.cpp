#include "kv_offload/bench/sim_tier.hpp"

#include "kv_offload/bench/device.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;

namespace {

/// Keeps what the tier says, and when.
struct Heard : TierSink {
  explicit Heard(SimWorld& w) : world(w) {}
  void probed(ProbeId id, std::vector<LookupResult> answer) override {
    probes.emplace_back(id, std::move(answer));
    probed_s = world.seconds();
  }
  void job_outcome(JobResult result) override {
    ended.push_back({std::move(result), world.seconds()});
  }
  void job_quiesced(JobId job) override { quiesced.push_back(job.sequence); }
  void lane_died(std::string) override { FAIL("no lane of a simulated tier dies"); }

  struct End {
    JobResult result;
    double seconds = 0;
  };
  SimWorld& world;
  std::vector<std::pair<ProbeId, std::vector<LookupResult>>> probes;
  double probed_s = -1;
  std::vector<End> ended;
  std::vector<std::uint64_t> quiesced;
};

struct Fixture {
  explicit Fixture(SimTierModel m) : model(std::move(m)), tier(model, parts()) {}
  SimTier::Parts parts() {
    return {&world, &sink, PrimaryView{nullptr, 4096, 4096, 64, in_use}, 1,
            [this](Duration d) { stalled_s += to_seconds(d); }};
  }
  TransferJob job(std::uint64_t id, bool is_load, std::vector<std::uint64_t> chunks) {
    TransferJob job;
    job.job_id = {0, id};
    job.is_promotion = is_load;
    job.chunk_bytes = 4096;
    for (const auto chunk : chunks) {
      job.keys.push_back(chunk_key(chunk));
      job.chunk_ids.push_back(static_cast<ChunkId>(chunk));
    }
    return job;
  }
  void submit(std::vector<TransferJob> jobs) { tier.submit(std::move(jobs)); }
  void finish() {
    (void)world.run([] { return false; });
  }

  SimWorld world;
  Heard sink{world};
  std::atomic<std::uint32_t> in_use[64]{};
  double stalled_s = 0;
  SimTierModel model;
  SimTier tier;
};

SimTierModel steady(double seconds, std::uint32_t depth) {
  SimTierModel model;
  model.load.median_s = model.store.median_s = seconds;
  model.depth = depth;
  return model;
}

KeyList keys(std::vector<std::uint64_t> chunks) {
  KeyList keys;
  for (const auto chunk : chunks) keys.push_back(chunk_key(chunk));
  return keys;
}

}  // namespace

TEST_CASE("queued loads overtake queued stores only where the model says so", "[bench][unit]") {
  const bool loads_first = GENERATE(true, false);
  auto model = steady(0.1, 1);
  model.loads_first = loads_first;
  Fixture f(model);
  f.tier.preload(keys({9}));
  f.submit({f.job(1, false, {1}), f.job(2, false, {2}), f.job(3, true, {9})});
  f.finish();
  REQUIRE(f.sink.ended.size() == 3);
  std::vector<std::uint64_t> order;
  for (const auto& end : f.sink.ended) order.push_back(end.result.job_id.sequence);
  CHECK(order ==
        (loads_first ? std::vector<std::uint64_t>{3, 1, 2} : std::vector<std::uint64_t>{1, 2, 3}));
  CHECK(f.sink.ended[2].seconds == Approx(0.3));
  CHECK(f.sink.quiesced.size() == 3);
}

TEST_CASE("as many chunks move at once as the tier is deep, and share its bandwidth",
          "[bench][unit]") {
  Fixture latency_bound(steady(0.1, 4));
  latency_bound.submit({latency_bound.job(1, false, {1, 2, 3, 4, 5, 6, 7, 8})});
  latency_bound.finish();
  CHECK(latency_bound.sink.ended.at(0).seconds == Approx(0.2));
  auto model = steady(0, 4);
  model.write_bytes_s = 4096 * 10;
  Fixture bytes_bound(model);
  bytes_bound.submit({bytes_bound.job(1, false, {1, 2, 3, 4, 5, 6, 7, 8})});
  bytes_bound.finish();
  const auto& end = bytes_bound.sink.ended.at(0);
  CHECK(end.seconds == Approx(0.8));
  CHECK(end.result.transfer_bytes == 8 * 4096);
  CHECK(end.result.finished_at == bytes_bound.world.now());
  for (const auto& slot : bytes_bound.in_use) CHECK(slot == 0);
}

TEST_CASE("a chunk that is there already is not written, and one that is not cannot be read",
          "[bench][unit]") {
  Fixture f(steady(0.1, 2));
  f.tier.preload(keys({1}));
  f.submit({f.job(1, false, {1, 2}), f.job(2, true, {1, 7})});
  f.finish();
  REQUIRE(f.sink.ended.size() == 2);
  for (const auto& end : f.sink.ended) {
    if (end.result.job_id.sequence == 1) {
      CHECK(end.result.success);
      CHECK(end.result.fates == std::vector<KeyFate>{KeyFate::already_present, KeyFate::done});
      CHECK(end.result.transfer_bytes == 4096);
    } else {
      CHECK_FALSE(end.result.success);
      CHECK(end.result.failure == TransferFailure::not_found);
      CHECK(end.result.fates == std::vector<KeyFate>{KeyFate::done, KeyFate::failed});
    }
  }
}

TEST_CASE("a fault slows or fails what starts within it, and nothing else", "[bench][unit]") {
  auto model = steady(0.1, 1);
  model.faults.push_back({1.0, 2.0, 20, 0});
  model.faults.push_back({5.0, 6.0, 1, 1});
  Fixture f(model);
  const auto store_at = [&](double seconds, std::uint64_t id) {
    f.world.at(SimWorld::kStart + from_seconds(seconds),
               [&f, id] { f.submit({f.job(id, false, {id})}); });
  };
  store_at(0.5, 1);
  store_at(1.5, 2);
  store_at(4.0, 3);
  store_at(5.5, 4);
  f.finish();
  REQUIRE(f.sink.ended.size() == 4);
  CHECK(f.sink.ended[0].seconds == Approx(0.6));
  CHECK(f.sink.ended[1].seconds == Approx(3.5));
  CHECK(f.sink.ended[2].seconds == Approx(4.1));
  CHECK(f.sink.ended[2].result.success);
  CHECK(f.sink.ended[3].result.failure == TransferFailure::io_error);
  CHECK(f.tier.chunks() == 3);
}

TEST_CASE("a full tier gives up what was used least recently", "[bench][unit]") {
  auto model = steady(0, 1);
  model.capacity_bytes = 3 * 4096;
  model.in_memory = true;
  Fixture f(model);
  f.submit({f.job(1, false, {1, 2, 3})});
  CHECK(f.tier.lookup(chunk_key(1)) == LookupResult::hit);  // used: 2 is the oldest now
  f.submit({f.job(2, false, {4})});
  f.finish();
  CHECK(f.tier.chunks() == 3);
  CHECK(f.tier.lookup(chunk_key(1)) == LookupResult::hit);
  CHECK(f.tier.lookup(chunk_key(2)) == LookupResult::miss);
}

TEST_CASE("a probe is answered after its latency, and costs the device what the model says",
          "[bench][unit]") {
  SimTierModel model;
  model.probe.median_s = 0.010;
  model.stall_per_probe = 2;
  Fixture f(model);
  f.tier.preload(keys({1}));
  CHECK_FALSE(f.tier.lookup(chunk_key(1)).has_value());
  REQUIRE(f.tier.probe(5, keys({1, 2})));
  CHECK(f.sink.probes.empty());
  f.finish();
  REQUIRE(f.sink.probes.size() == 1);
  CHECK(f.sink.probes[0].second ==
        std::vector<LookupResult>{LookupResult::hit, LookupResult::miss});
  CHECK(f.sink.probed_s == Approx(0.010));
  CHECK(f.stalled_s == Approx(0.020));
}

TEST_CASE("cancelling ends what is queued and nothing that runs", "[bench][unit]") {
  Fixture f(steady(0.1, 1));
  f.submit({f.job(1, false, {1}), f.job(2, false, {2}), f.job(3, false, {3})});
  f.tier.cancel({0, 2});
  REQUIRE(f.sink.ended.size() == 1);
  CHECK(f.sink.ended[0].result.failure == TransferFailure::cancelled);
  f.tier.cancel({0, 1});
  CHECK(f.sink.ended.size() == 1);
  f.tier.cancel_queued();
  CHECK(f.sink.ended.size() == 2);
  f.finish();
  REQUIRE(f.sink.ended.size() == 3);
  CHECK(f.sink.ended[2].result.success);
  CHECK(f.sink.quiesced == std::vector<std::uint64_t>{2, 3, 1});
}
