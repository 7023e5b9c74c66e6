#include "kv_offload/actors/request_holds.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <vector>

using namespace kv_offload;

TEST_CASE("a request holds each chunk once, and gives them back in slot order", "[actor]") {
  RequestHolds holds;
  CHECK(holds.empty());
  for (const ChunkId chunk : {7U, 3U, 9U}) CHECK(holds.try_put({chunk, 1, chunk == 9}).second);
  const auto [again, is_new] = holds.try_put({3, 2, true});
  CHECK_FALSE(is_new);
  CHECK(again->generation == 1);  // as it was: what becomes of it is the caller's to say
  *again = {3, 2, true};
  CHECK(holds.find(3)->generation == 2);
  CHECK(holds.find(4) == nullptr);
  holds.drop(7);
  holds.drop(7);
  CHECK(holds.find(7) == nullptr);
  CHECK(holds.size() == 2);
  std::vector<ChunkId> order;
  for (const auto& hold : std::move(holds).take_in_slot_order()) order.push_back(hold.chunk);
  CHECK(order == std::vector<ChunkId>{3, 9});
}

TEST_CASE("a request that asks key by key moves its holds a few times", "[actor]") {
  RequestHolds holds;
  const RequestHolds::Hold* before = nullptr;
  int moves = 0;
  for (ChunkId chunk = 0; chunk < 65'536; ++chunk) {
    holds.reserve(1);
    holds.try_put({chunk, 1, false});
    moves += holds.all().data() != before ? 1 : 0;
    before = holds.all().data();
  }
  CHECK(moves <= 17);  // 1, 2, 4, ... 65,536
}

TEST_CASE("a request that holds and drops for ever keeps no more than it holds", "[actor]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  RequestHolds holds;
  std::map<ChunkId, std::uint32_t> model;
  std::size_t most = 0;
  for (std::uint32_t step = 0; step < 20'000; ++step) {
    const auto chunk = static_cast<ChunkId>(random() % 200);
    if (random() % 2 == 0) {
      const bool is_new = holds.try_put({chunk, step, false}).second;
      CHECK(is_new == model.try_emplace(chunk, step).second);
    } else {
      holds.drop(chunk);
      model.erase(chunk);
    }
    most = std::max(most, holds.all().size());
    if (step % 97 != 0) continue;
    REQUIRE(holds.size() == model.size());
    for (const auto& [held, generation] : model) {
      REQUIRE(holds.find(held) != nullptr);
      REQUIRE(holds.find(held)->generation == generation);
      REQUIRE(holds.find(held)->chunk == held);
    }
  }
  CHECK(most <= 64 + 2 * 200 + 1);
  auto given = std::move(holds).take_in_slot_order();
  REQUIRE(given.size() == model.size());
  for (std::size_t i = 0; const auto& [held, generation] : model) CHECK(given[i++].chunk == held);
}
