// Copies by the engine's workers: what a lease goes through between an order and its two ends.
#include "kv_offload/tests/support/virtual_engine.hpp"

namespace kv_offload::test {
namespace {

constexpr std::uint64_t kNumberedHere = 1ULL << 63;

/// An engine whose workers are the test.
struct Copies {
  std::vector<WorkerOrder> orders;
  std::optional<OffloadError> refusal;
  std::vector<std::string> revisions;
  VirtualEngine engine;
  OpenedRequest request;

  explicit Copies(VirtualEngine::Options options = {})
      : engine([&] {
          options.order_workers = [this](WorkerOrder order) -> Expected<Ok> {
            if (refusal) return *refusal;
            orders.push_back(std::move(order));
            return Ok{};
          };
          options.revise_workers = [this](const std::string& revision) { revisions.push_back(revision); };
          return options;
        }()),
        request(engine.request()) {}

  static BlockList blocks(std::uint32_t n) {
    BlockList list;
    for (std::uint32_t i = 0; i < n; ++i) list.block_ids.push_back(10 + i);
    list.group_sizes = {n};
    list.first_blocks = {0};
    return list;
  }
  void succeed(const WorkerOrder& order) {
    engine.worker_says({order.id, true, {}, {}, 4096 * order.chunk_ids.size(), std::chrono::milliseconds(3)});
    engine.workers_quiesced(order.id);
  }
  void fail(const WorkerOrder& order, OffloadErrc errc) {
    engine.worker_says({order.id, false, errc, "rank 2 died", 0, {}});
  }
  StorePlan prepare(const KeyList& k) {
    auto plan = engine.prepare_store(request, k);
    REQUIRE(plan);
    return *plan;
  }
  LoadPlan prepare_load(const KeyList& k) {
    auto plan = engine.prepare_load(request, k);
    REQUIRE(plan);
    return *plan;
  }
  LookupResult is_there(const OffloadKey& key) { return engine.poll(request, key); }
};

TEST_CASE("workers' copies complete a store: published, offered to the tiers, answered", "[copies]") {
  Copies c;
  const auto plan = c.prepare(keys("a", 3));
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(3));
  REQUIRE(c.orders.size() == 1);
  CHECK(c.orders[0].chunk_ids == plan.chunk_ids);
  CHECK(c.orders[0].blocks.block_ids == std::vector<std::uint32_t>{10, 11, 12});
  CHECK_FALSE(c.orders[0].is_load);
  CHECK_FALSE(c.orders[0].told_by_embedder);
  CHECK(c.orders[0].id >= kNumberedHere);
  CHECK_FALSE(call.answered());
  CHECK(c.is_there(keys("a", 1)[0]) == LookupResult::hit_pending);
  c.succeed(c.orders[0]);
  REQUIRE(call.answered());
  const auto outcome = call.get();
  REQUIRE(outcome);
  CHECK(outcome->published == 3);
  CHECK(outcome->cascades_admitted == 1);
  CHECK(c.is_there(keys("a", 1)[0]) == LookupResult::hit);
  CHECK(c.engine.tier().present.size() == 3);
  const auto stats = c.engine.stats().scheduler.store_copies;
  CHECK(stats.started == 1);
  CHECK(stats.succeeded == 1);
  CHECK(stats.bytes == 3 * 4096);
  CHECK(stats.time_s == Approx(0.003));
  CHECK(stats.size.count() == 1);
  c.engine.require_promises();
}

TEST_CASE("workers' copies complete a load and end its pins", "[copies]") {
  Copies c;
  c.engine.store(c.request, keys("a", 2));
  const auto plan = c.prepare_load(keys("a", 2));
  const auto call = c.engine.load_blocks(plan.lease, Copies::blocks(2));
  REQUIRE(c.orders.size() == 1);
  CHECK(c.orders[0].is_load);
  CHECK(c.engine.stats().primary.pinned == 2);
  CHECK_FALSE(call.answered());
  c.succeed(c.orders[0]);
  CHECK(call.get());
  CHECK(c.engine.stats().primary.pinned == 0);
  CHECK(c.engine.stats().scheduler.load_copies.succeeded == 1);
  c.engine.require_promises();
}

TEST_CASE("a failed copy is told at once, and its rows stay out of use until no worker can touch them", "[copies]") {
  Copies c({.chunks = 4, .tiers = 0});
  const auto plan = c.prepare(keys("a", 4));
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(4));
  c.fail(c.orders[0], OffloadErrc::io_error);
  REQUIRE(call.answered());
  const auto answer = call.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == OffloadErrc::io_error);
  CHECK(answer.error().detail == "rank 2 died");
  CHECK_FALSE(c.engine.prepare_store(c.request, keys("b", 1)));  // no slot: a copy may still run
  CHECK(c.engine.stats().scheduler.store_copies.open == 1);
  c.engine.workers_quiesced(c.orders[0].id);
  CHECK(c.is_there(keys("a", 1)[0]) == LookupResult::miss);
  CHECK(c.engine.prepare_store(c.request, keys("b", 4)));
  const auto stats = c.engine.stats();
  CHECK(stats.scheduler.store_copies.failed == 1);
  CHECK(stats.scheduler.store_copies.open == 0);
  CHECK(stats.primary.reused_in_use == 0);
}

TEST_CASE("a failed load keeps its chunks for everybody else", "[copies]") {
  Copies c;
  c.engine.store(c.request, keys("a", 2));
  const auto plan = c.prepare_load(keys("a", 2));
  const auto call = c.engine.load_blocks(plan.lease, Copies::blocks(2));
  c.fail(c.orders[0], OffloadErrc::deadline);
  CHECK(call.get().error().code == OffloadErrc::deadline);
  CHECK(c.engine.stats().primary.pinned == 2);
  c.engine.workers_quiesced(c.orders[0].id);
  CHECK(c.engine.stats().primary.pinned == 0);
  CHECK(c.is_there(keys("a", 1)[0]) == LookupResult::hit);
  c.engine.require_promises();
}

TEST_CASE("an order that is refused leaves the lease as it was", "[copies]") {
  Copies c;
  c.refusal = OffloadError{OffloadErrc::io_error, "rank 1 is missing"};
  const auto plan = c.prepare(keys("a", 2));
  const auto refused = c.engine.store_blocks(plan.lease, Copies::blocks(2)).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == OffloadErrc::busy);  // io_error is for copies that began
  CHECK(refused.error().detail == "rank 1 is missing");
  CHECK(c.engine.stats().scheduler.store_copies.started == 0);
  c.refusal.reset();
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(2));
  REQUIRE(c.orders.size() == 1);
  c.succeed(c.orders[0]);
  CHECK(call.get());
  c.engine.require_promises();
}

TEST_CASE("a lease that workers copy is nobody else's to end", "[copies]") {
  Copies c;
  const auto plan = c.prepare(keys("a", 1));
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(1));
  CHECK(c.engine.complete_store(plan.lease).get().error().code == OffloadErrc::invalid_argument);
  CHECK(c.engine.store_blocks(plan.lease, Copies::blocks(1)).get().error().code == OffloadErrc::invalid_argument);
  CHECK(c.orders.size() == 1);
  c.succeed(c.orders[0]);
  CHECK(call.get());
  const auto load = c.prepare_load(keys("a", 1));
  const auto second = c.engine.load_blocks(load.lease, Copies::blocks(1));
  CHECK(c.engine.complete_load(load.lease).error().code == OffloadErrc::invalid_argument);
  c.succeed(c.orders[1]);
  CHECK(second.get());
  c.engine.require_promises();
}

TEST_CASE("leases of the other direction, unknown and ended ones are no leases to copy for", "[copies]") {
  Copies c;
  const auto plan = c.prepare(keys("a", 1));
  CHECK(c.engine.load_blocks(plan.lease, Copies::blocks(1)).get().error().code == OffloadErrc::unknown_lease);
  CHECK(c.engine.store_blocks(LeaseId{0, 99}, Copies::blocks(1)).get().error().code == OffloadErrc::unknown_lease);
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(1));
  c.succeed(c.orders[0]);
  CHECK(call.get());
  CHECK(c.engine.store_blocks(plan.lease, Copies::blocks(1)).get().error().code == OffloadErrc::unknown_lease);
}

TEST_CASE("a lease without chunks needs no worker", "[copies]") {
  Copies c;
  c.engine.store(c.request, keys("a", 1));
  const auto plan = c.prepare(keys("a", 1));
  REQUIRE(plan.chunk_ids.empty());
  CHECK(c.engine.store_blocks(plan.lease, Copies::blocks(1)).get().error().code == OffloadErrc::invalid_argument);
  const auto outcome = c.engine.store_blocks(plan.lease, {}).get();
  REQUIRE(outcome);
  CHECK(outcome->published == 0);
  CHECK(c.orders.empty());
  c.engine.require_promises();
}

TEST_CASE("a job that the caller told the workers keeps the caller's number", "[copies]") {
  Copies c;
  const auto plan = c.prepare(keys("a", 1));
  const auto refused =
      c.engine.store_blocks(plan.lease, Copies::blocks(1), {.told_job = kNumberedHere}).get();
  CHECK(refused.error().code == OffloadErrc::invalid_argument);
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(1), {.told_job = 7});
  REQUIRE(c.orders.size() == 1);
  CHECK(c.orders[0].id == 7);
  CHECK(c.orders[0].told_by_embedder);
  const auto other = c.prepare(keys("b", 1));
  CHECK(c.engine.store_blocks(other.lease, Copies::blocks(1), {.told_job = 7}).get().error().code ==
        OffloadErrc::invalid_argument);
  c.succeed(c.orders[0]);
  CHECK(call.get());
}

TEST_CASE("a list that does not fill the lease's chunks is refused before anybody is told", "[copies]") {
  Copies c;
  const auto plan = c.prepare(keys("a", 2));
  const auto refused = [&](BlockList list, const std::string& field) {
    const auto answer = c.engine.store_blocks(plan.lease, std::move(list)).get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == OffloadErrc::invalid_argument);
    CHECK(answer.error().detail.starts_with(field));
  };
  refused(Copies::blocks(1), "blocks.block_ids: 1 are not allowed; expected what fills the lease's 2 chunks");
  refused(Copies::blocks(3), "blocks.block_ids: 3 are not allowed");
  auto list = Copies::blocks(2);
  list.group_sizes = {3};
  refused(list, "blocks.block_ids: 2 are not allowed; expected 3, the sum of group_sizes");
  list = Copies::blocks(2);
  list.first_blocks = {};
  refused(list, "blocks.first_blocks: 0 are not allowed; expected 1");
  refused({}, "blocks.block_ids: 0 are not allowed");
  CHECK(c.orders.empty());
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(2));
  c.succeed(c.orders.at(0));
  CHECK(call.get());
  c.engine.require_promises();
}

TEST_CASE("without workers a copy is refused with what to do instead", "[copies]") {
  VirtualEngine engine(VirtualEngine::Options{});
  const auto request = engine.request();
  const auto plan = engine.prepare_store(request, keys("a", 1));
  REQUIRE(plan);
  const auto answer = engine.store_blocks(plan->lease, Copies::blocks(1)).get();
  CHECK(answer.error().code == OffloadErrc::unsupported);
  CHECK(engine.complete_store(plan->lease).get());
}

TEST_CASE("a finished request lives until its copies have ended", "[copies]") {
  Copies c;
  const auto plan = c.prepare(keys("a", 1));
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(1));
  REQUIRE(c.engine.finish(c.request));
  CHECK(c.engine.stats().scheduler.requests_live == 1);
  c.succeed(c.orders[0]);
  CHECK(call.get());
  CHECK(c.engine.stats().scheduler.requests_live == 0);
  c.engine.require_promises();
}

TEST_CASE("a reset waits for copies until its deadline, then their slots are left out", "[copies]") {
  Copies c({.chunks = 4, .tiers = 0});
  const auto plan = c.prepare(keys("a", 2));
  const auto call = c.engine.store_blocks(plan.lease, Copies::blocks(2));
  const auto reset = c.engine.start<Ok>([](Reply<Ok> reply) { return ResetCall{false, {}, std::move(reply)}; });
  CHECK_FALSE(reset.answered());
  c.engine.advance(std::chrono::seconds(31));
  REQUIRE(reset.answered());
  CHECK(reset.get());
  CHECK_FALSE(c.engine.prepare_store(c.request, keys("b", 3)));  // two slots may still be written to
  c.succeed(c.orders[0]);
  REQUIRE(call.answered());
  CHECK(c.is_there(keys("a", 1)[0]) == LookupResult::miss);  // of before the reset
  const auto after = c.engine.prepare_store(c.request, keys("b", 4));
  CHECK(after);
  CHECK(c.engine.stats().primary.reused_in_use == 0);
}

TEST_CASE("workers learn of a new revision once the reset has ended well", "[copies]") {
  Copies c({.tiers = 0});
  CHECK(c.engine.reset());
  CHECK(c.revisions.empty());
  CHECK(c.engine.start<Ok>([](Reply<Ok> reply) { return ResetCall{true, "v2", std::move(reply)}; }).get());
  CHECK(c.revisions == std::vector<std::string>{"v2"});
}

TEST_CASE("copies that are open when the engine stops are answered", "[copies]") {
  std::optional<VirtualEngine::Call<StoreOutcome>> call;
  {
    Copies c;
    const auto plan = c.prepare(keys("a", 1));
    call = c.engine.store_blocks(plan.lease, Copies::blocks(1));
    CHECK_FALSE(call->answered());
  }
  CHECK(call->get().error().code == OffloadErrc::shutting_down);
}

}  // namespace
}  // namespace kv_offload::test
