#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// Ranks of one layer each: mapping and page of every rank.
std::vector<RankLayout> ranks_with(const std::vector<PageMapping>& mappings,
                                   std::uint64_t page_bytes) {
  std::vector<RankLayout> ranks;
  for (std::uint32_t r = 0; r < mappings.size(); ++r) {
    RankLayout rank;
    rank.place = {r, static_cast<std::uint32_t>(mappings.size()), 4, ChunkLayout::canonical};
    rank.page_bytes = {mappings[0].canonical_page_bytes};
    rank.chunk_bytes = 4 * mappings[0].canonical_page_bytes;
    rank.refs = {{0, 0, "layer.0", page_bytes, mappings[r]}};
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::vector<RankLayout> sharded_heads(const AttentionPage& page, std::uint32_t world_size,
                                      std::uint64_t page_bytes) {
  std::vector<PageMapping> mappings;
  for (std::uint32_t r = 0; r < world_size; ++r) {
    auto mapping = map_sharded_heads(page, r, world_size);
    REQUIRE(mapping);
    mappings.push_back(*mapping);
  }
  return ranks_with(mappings, page_bytes);
}

std::string refusal(const std::vector<RankLayout>& ranks) {
  const auto checked = check_ranks(ranks);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == OffloadErrc::invalid_config);
  return to_string(checked.error());
}

constexpr AttentionPage kEightHeads{4, 8, 16, PageOrder::nhd, true};

}  // namespace

TEST_CASE("ranks of every mapping that the helpers make fit together", "[device][layout]") {
  for (const auto order : {PageOrder::nhd, PageOrder::hnd})
    for (const bool split : {false, true})
      for (const std::uint32_t world : {1U, 2U, 4U, 8U, 16U, 32U}) {
        const AttentionPage page{4, 8, 16, order, split};
        const std::uint64_t heads = std::max(8U / world, 1U);
        CHECK(check_ranks(sharded_heads(page, world, 4 * heads * 16 * (split ? 2 : 1))));
      }
  for (const auto order : {PageOrder::nhd, PageOrder::hnd})
    for (const std::uint32_t interleave : {1U, 2U, 4U}) {
      std::vector<PageMapping>
          mappings;  // 8 ranks: 2 groups of heads x 2 copies of each x 2 shares of tokens
      for (std::uint32_t r = 0; r < 8; ++r) {
        auto mapping =
            map_attention_page({4, 2, 16, order, true}, {4, r / 2, 2, r % 2, interleave});
        REQUIRE(mapping);
        mappings.push_back(*mapping);
      }
      CHECK(check_ranks(ranks_with(mappings, 4 * 16 * 2)));
    }
  std::vector<PageMapping> replicated, opaque;
  for (std::uint32_t r = 0; r < 3; ++r) {
    replicated.push_back(*map_replicated_page(64, r, 3));
    opaque.push_back(*map_opaque_page(64, r, 3));
  }
  CHECK(check_ranks(ranks_with(replicated, 64)));
  CHECK(check_ranks(ranks_with(opaque, 64)));
}

TEST_CASE("ranks may come in any order", "[device][layout]") {
  auto ranks = sharded_heads(kEightHeads, 4, 256);
  std::swap(ranks[0], ranks[3]);
  std::swap(ranks[1], ranks[2]);
  CHECK(check_ranks(ranks));
}

TEST_CASE("a missing, repeated or foreign rank is refused", "[device][layout]") {
  CHECK(says(refusal({}), {"none has registered"}));
  auto ranks = sharded_heads(kEightHeads, 4, 256);
  ranks.pop_back();
  CHECK(says(refusal(ranks), {"ranks: 3 registered", "world_size, which is 4"}));
  ranks.push_back(ranks[1]);
  CHECK(says(refusal(ranks), {"rank 1: registered twice"}));
  ranks[3].place.rank = 7;
  CHECK(says(refusal(ranks), {"rank 7 is not allowed", "0 to 3"}));
}

TEST_CASE("ranks that differ in what they must share are refused by name", "[device][layout]") {
  const auto good = sharded_heads(kEightHeads, 2, 512);
  auto ranks = good;
  ranks[1].place.blocks_per_chunk = 5;
  CHECK(says(refusal(ranks), {"rank 1", "blocks_per_chunk 5", "expected 4"}));
  ranks = good;
  ranks[1].place.layout = ChunkLayout::replicated;
  CHECK(says(refusal(ranks), {"rank 1", "layout replicated", "expected canonical"}));
  ranks = good;
  ranks[1].place.world_size = 3;
  CHECK(says(refusal(ranks), {"rank 1", "world_size 3", "expected 2"}));
  ranks = good;
  ranks[1].chunk_bytes = 1;
  CHECK(says(refusal(ranks), {"rank 1", "chunk_bytes 1"}));
  ranks = good;
  ranks[1].page_bytes = {1025};
  CHECK(says(refusal(ranks), {"rank 1", "page_bytes of tensor 0 1025"}));
  ranks[1].page_bytes = {1024, 1024};
  CHECK(says(refusal(ranks), {"rank 1", "number of tensors 2"}));
  ranks = good;
  ranks[1].refs.clear();
  CHECK(says(refusal(ranks), {"rank 1", "0 layers", "expected 1"}));
  ranks = good;
  ranks[1].refs[0].group = 1;
  CHECK(says(refusal(ranks), {"rank 1", "group 1", "unknown to rank 0"}));
  ranks = good;
  ranks[1].refs[0].layer = "layer.1";
  CHECK(says(refusal(ranks), {"rank 1", "layer \"layer.1\"", "rank 0 has layer \"layer.0\""}));
  ranks = good;
  ranks[1].refs[0].mapping.reset();
  CHECK(says(refusal(ranks), {"rank 1", "no mapping"}));
  ranks = good;
  ranks[1].refs[0].mapping->canonical_page_bytes = 4096;
  CHECK(says(refusal(ranks), {"rank 1", "canonical_page_bytes 4096"}));
  ranks = good;
  for (auto& rank : ranks) rank.page_bytes = {512};
  CHECK(says(refusal(ranks), {"canonical_page_bytes 1024", "more than the tensor's page"}));
  ranks = good;
  ranks[1].refs[0].mapping->runs[0].local_offset = ~std::uint64_t{0};
  CHECK(says(refusal(ranks), {"rank 1", "layer \"layer.0\"", "run 0"}));
}

TEST_CASE(
    "a byte of the canonical page that nobody or somebody else writes as well is refused with its "
    "place",
    "[device][layout]") {
  const PageMapping front{64, {{0, 0, 32, 1, 0, 0}}, 1, 0, true};
  const auto from = [](std::uint64_t offset, std::uint64_t bytes) {
    return PageMapping{64, {{0, offset, bytes, 1, 0, 0}}, 1, 0, true};
  };
  CHECK(check_ranks(ranks_with({front, from(32, 32)}, 32)));
  CHECK(says(refusal(ranks_with({front, from(33, 31)}, 32)),
             {"layer \"layer.0\"", "bytes 32 to 33", "by no rank", "rank 1"}));
  CHECK(says(refusal(ranks_with({front, from(31, 32)}, 32)),
             {"bytes 31 to 32", "by rank 0 and by rank 1"}));
  CHECK(says(refusal(ranks_with({front, from(32, 31)}, 32)), {"bytes 63 to 64", "by no rank"}));
  CHECK(
      says(refusal(ranks_with({front, front}, 32)), {"bytes 0 to 32", "by rank 0 and by rank 1"}));
}

TEST_CASE("every turn of a rotation is checked, not only the first", "[device][layout]") {
  std::vector<PageMapping> mappings;
  for (std::uint32_t r = 0; r < 3; ++r) mappings.push_back(*map_replicated_page(64, r, 3));
  mappings[2].writer = 1;  // turn 2 is nobody's, turn 1 two ranks'
  CHECK(says(refusal(ranks_with(mappings, 64)),
             {"blocks whose number is 1 mod 3", "by rank 1 and by rank 2"}));
  mappings[1].writer = 0;
  mappings[0].writer = 1;
  mappings[2] = *map_replicated_page(64, 2, 4);
  CHECK(says(refusal(ranks_with(mappings, 64)), {"mod 12"}));
  for (std::uint32_t r = 0; r < 3; ++r) mappings[r].num_writers = 4093 + r;
  CHECK(says(refusal(ranks_with(mappings, 64)),
             {"layer \"layer.0\"", "repeat after", "same num_writers"}));
}

TEST_CASE("sharded ranks may hold other layers, replicated ones may not", "[device][layout]") {
  RankLayout rank;
  rank.place = {0, 2, 1, ChunkLayout::sharded};
  rank.page_bytes = {64};
  rank.chunk_bytes = 128;
  rank.refs = {{0, 0, "layer.0", 64, {}}};
  std::vector<RankLayout> ranks{rank, rank};
  ranks[1].place.rank = 1;
  ranks[1].refs[0].layer = "layer.9";
  CHECK(check_ranks(ranks));
  for (auto& r : ranks) r.place.layout = ChunkLayout::replicated;
  CHECK(says(refusal(ranks), {"rank 1", "layer.9"}));
  ranks[1].refs[0].layer = "layer.0";
  CHECK(check_ranks(ranks));
  ranks[1].refs[0].page_bytes = 32;
  CHECK(says(refusal(ranks), {"rank 1", "page_bytes 32", "same bytes"}));
}
