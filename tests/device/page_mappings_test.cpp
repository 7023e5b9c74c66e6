// Offsets below are worked out by hand: 4 tokens a block, 10 bytes a token and head.
#include "kv_offload/tiers/device/page_mappings.hpp"

#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tiers/device/page_runs.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

using Fragments = std::vector<PageFragment>;

AttentionPage page_of(std::uint32_t heads, PageOrder order, bool split = false) {
  return {4, heads, 10, order, split};
}
Fragments fragments_of(const Expected<PageMapping>& mapping) {
  if (!mapping) FAIL(to_string(mapping.error()));
  return unroll_runs(*mapping);
}
template <class Mapping>
std::string refusal(const Mapping& mapping) {
  REQUIRE_FALSE(mapping);
  return to_string(mapping.error());
}

}  // namespace

TEST_CASE("runs unroll into fragments, neighbours on both sides into one", "[device][mapping]") {
  const PageMapping mapping{1000, {{0, 100, 10, 3, 20, 50}, {200, 300, 10, 2, 10, 10}}, 1, 0, true};
  CHECK(unroll_runs(mapping) ==
        Fragments{{0, 100, 10}, {20, 150, 10}, {40, 200, 10}, {200, 300, 20}});
}

TEST_CASE("heads sharded in token order: a piece of every token", "[device][mapping]") {
  const auto mapping = map_sharded_heads(page_of(4, PageOrder::nhd), 1, 2);  // heads 2 and 3 of 4
  CHECK(fragments_of(mapping) ==
        Fragments{{0, 20, 20}, {20, 60, 20}, {40, 100, 20}, {60, 140, 20}});
  CHECK(mapping->canonical_page_bytes == 160);
  CHECK(mapping->num_writers == 1);
  CHECK(mapping->parallelism_agnostic);
}

TEST_CASE("heads sharded in head order: one piece", "[device][mapping]") {
  const auto mapping = map_sharded_heads(page_of(4, PageOrder::hnd), 1, 2);
  CHECK(fragments_of(mapping) == Fragments{{0, 80, 80}});
}

TEST_CASE("split halves: keys from the first half, values from the second", "[device][mapping]") {
  const auto hnd = map_sharded_heads(page_of(4, PageOrder::hnd, true), 1, 2);
  CHECK(fragments_of(hnd) == Fragments{{0, 80, 80}, {80, 240, 80}});
  CHECK(hnd->canonical_page_bytes == 320);
  const auto nhd = map_sharded_heads(page_of(2, PageOrder::nhd, true), 1, 2);
  CHECK(fragments_of(nhd) == Fragments{{0, 10, 10},
                                       {10, 30, 10},
                                       {20, 50, 10},
                                       {30, 70, 10},
                                       {40, 90, 10},
                                       {50, 110, 10},
                                       {60, 130, 10},
                                       {70, 150, 10}});
}

TEST_CASE("one rank alone is one piece", "[device][mapping]") {
  for (const auto order : {PageOrder::nhd, PageOrder::hnd}) {
    CHECK(fragments_of(map_sharded_heads(page_of(4, order), 0, 1)) == Fragments{{0, 0, 160}});
    CHECK(fragments_of(map_sharded_heads(page_of(4, order, true), 0, 1)) == Fragments{{0, 0, 320}});
  }
}

TEST_CASE("fewer heads than ranks: each head on ranks beside each other, which take turns",
          "[device][mapping]") {
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    const auto mapping = map_sharded_heads(page_of(2, PageOrder::hnd), rank, 6);
    CHECK(fragments_of(mapping) == Fragments{{0, rank / 3 * 40ULL, 40}});
    CHECK(mapping->num_writers == 3);
    CHECK(mapping->writer == rank % 3);
  }
}

TEST_CASE("a latent is replicated: whole pages in turn", "[device][mapping]") {
  const auto mapping = map_replicated_page(1234, 2, 8);
  CHECK(fragments_of(mapping) == Fragments{{0, 0, 1234}});
  CHECK(mapping->canonical_page_bytes == 1234);
  CHECK(mapping->num_writers == 8);
  CHECK(mapping->writer == 2);
  CHECK(mapping->parallelism_agnostic);
}

TEST_CASE("tokens dealt to context parallel ranks, interleave at a time", "[device][mapping]") {
  // 8 tokens of 20 bytes (2 heads) on 2 ranks: 0 2 4 6 and 1 3 5 7; then 0 1 4 5 and 2 3 6 7.
  CHECK(fragments_of(map_interleaved_tokens(page_of(2, PageOrder::nhd), 1, 2, 1)) ==
        Fragments{{0, 20, 20}, {20, 60, 20}, {40, 100, 20}, {60, 140, 20}});
  const auto twos = map_interleaved_tokens(page_of(2, PageOrder::nhd), 1, 2, 2);
  CHECK(fragments_of(twos) == Fragments{{0, 40, 40}, {40, 120, 40}});
  CHECK(twos->canonical_page_bytes == 160);
  // In head order: the same tokens, in each head of 80 bytes.
  CHECK(fragments_of(map_interleaved_tokens(page_of(2, PageOrder::hnd), 0, 2, 2)) ==
        Fragments{{0, 0, 20}, {20, 40, 20}, {40, 80, 20}, {60, 120, 20}});
  // A block of one rank behind the other.
  CHECK(fragments_of(map_interleaved_tokens(page_of(2, PageOrder::nhd), 1, 2, 4)) ==
        Fragments{{0, 80, 80}});
}

TEST_CASE("heads and tokens dealt at once", "[device][mapping]") {
  // 2 heads on 2 head ranks, 8 tokens on 2 token ranks, 2 at a time: head 1, tokens 2 3 6 7. A
  // token has 20 bytes.
  const auto mapping = map_attention_page(page_of(2, PageOrder::nhd), {2, 1, 2, 1, 2});
  auto fragments = fragments_of(mapping);
  std::sort(fragments.begin(), fragments.end(),
            [](const auto& a, const auto& b) { return a.local_offset < b.local_offset; });
  CHECK(fragments == Fragments{{0, 50, 10}, {10, 70, 10}, {20, 130, 10}, {30, 150, 10}});
  CHECK(fragments_of(map_attention_page(page_of(2, PageOrder::hnd), {2, 1, 2, 1, 2})) ==
        Fragments{{0, 100, 20}, {20, 140, 20}});
}

TEST_CASE("an opaque page lies rank behind rank and is not portable", "[device][mapping]") {
  const auto mapping = map_opaque_page(100, 3, 4);
  CHECK(fragments_of(mapping) == Fragments{{0, 300, 100}});
  CHECK(mapping->canonical_page_bytes == 400);
  CHECK(mapping->num_writers == 1);
  CHECK_FALSE(mapping->parallelism_agnostic);
}

TEST_CASE("geometry that does not divide is refused with field, value and what is allowed",
          "[device][mapping]") {
  CHECK(says(refusal(map_sharded_heads(page_of(6, PageOrder::nhd), 0, 4)),
             {"kv_heads: 6 is not allowed", "multiple or a divisor of the 4 ranks"}));
  CHECK(says(refusal(map_sharded_heads(page_of(4, PageOrder::nhd), 0, 6)),
             {"kv_heads: 4 is not allowed"}));
  CHECK(says(refusal(map_interleaved_tokens(page_of(1, PageOrder::nhd), 0, 2, 3)),
             {"interleave: 3 is not allowed", "divisor of the 4 tokens"}));
  CHECK(says(refusal(map_interleaved_tokens(page_of(1, PageOrder::nhd), 0, 2, 0)),
             {"interleave: 0"}));
  CHECK(says(refusal(map_sharded_heads(page_of(4, PageOrder::nhd), 4, 4)),
             {"head_rank: 4", "0 to 3"}));
  CHECK(says(refusal(map_sharded_heads(page_of(4, PageOrder::nhd), 0, 0)), {"head_ranks: 0"}));
  CHECK(says(refusal(map_interleaved_tokens(page_of(1, PageOrder::nhd), 2, 2, 1)),
             {"token_rank: 2", "0 to 1"}));
  CHECK(says(refusal(map_sharded_heads({0, 4, 10, PageOrder::nhd, false}, 0, 4)), {"tokens: 0"}));
  CHECK(says(refusal(map_sharded_heads({4, 0, 10, PageOrder::nhd, false}, 0, 4)), {"kv_heads: 0"}));
  CHECK(
      says(refusal(map_sharded_heads({4, 4, 0, PageOrder::nhd, false}, 0, 4)), {"head_bytes: 0"}));
  CHECK(says(
      refusal(map_sharded_heads({1U << 20, 1U << 16, 1ULL << 39, PageOrder::nhd, false}, 0, 1)),
      {"head_bytes", "canonical page of at most"}));
  CHECK(says(refusal(map_replicated_page(0, 0, 2)), {"page_bytes: 0"}));
  CHECK(says(refusal(map_replicated_page(8, 2, 2)), {"rank: 2", "0 to 1"}));
  CHECK(says(refusal(map_opaque_page(8, 0, 0)), {"ranks: 0"}));
  CHECK(says(refusal(map_opaque_page(~std::uint64_t{0}, 0, 1)), {"page_bytes"}));
}
