#include "kv_offload/tiers/device/copy_plan.hpp"

#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// Plans on memory that is never touched, so that addresses can be read as offsets.
struct Plans {
  explicit Plans(TestCaches c, WorkerPlace p, ChunkId num_chunks = 16)
      : caches(std::move(c)), place(p), rows(num_chunks, chunk_bytes_of(caches.caches, place)) {
    auto made =
        WorkerLayout::make(caches.caches, place, chunk_bytes_of(caches.caches, place), false);
    if (!made) FAIL(to_string(made.error()));
    planner = CopyPlanner(caches.caches, *made, rows.view());
  }
  struct Copy {
    std::uint64_t device = 0, row = 0, bytes = 0;  // device: in its tensor; row: from the first row
    bool operator==(const Copy&) const = default;
  };
  std::vector<Copy> copies(const CopyJob& job) {
    auto plan = planner.plan(job);
    if (!plan) FAIL(to_string(plan.error()));
    std::vector<Copy> all;
    std::uint64_t bytes = 0;
    for (const CopyFragment& f : plan->fragments) {
      all.push_back(
          {in_tensor(job.is_load ? f.to : f.from), in_rows(job.is_load ? f.from : f.to), f.bytes});
      bytes += f.bytes;
    }
    CHECK(plan->bytes == bytes);
    return all;
  }
  std::string refusal(const CopyJob& job) {
    auto plan = planner.plan(job);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == OffloadErrc::invalid_argument);
    return to_string(plan.error());
  }
  std::uint64_t in_tensor(const std::byte* p) {
    for (std::size_t t = 0; t < caches.caches.tensors.size(); ++t) {
      const auto& m = caches.memory(t);
      if (p >= m.data() && p < m.data() + m.size())
        return static_cast<std::uint64_t>(p - m.data()) + t * 1'000'000;
    }
    FAIL("no tensor has this address");
    return 0;
  }
  std::uint64_t in_rows(const std::byte* p) {
    REQUIRE(p >= rows.bytes.data());
    REQUIRE(p < rows.bytes.data() + rows.bytes.size());
    return static_cast<std::uint64_t>(p - rows.bytes.data());
  }

  TestCaches caches;
  WorkerPlace place;
  TestRows rows;
  CopyPlanner planner;
};

TestCaches one_tensor(std::uint64_t page = 100, std::uint64_t blocks = 32) {
  return std::move(TestCaches().tensor(page, blocks).ref(0, 0));
}
constexpr WorkerPlace kAlone{0, 1, 4, ChunkLayout::sharded};

}  // namespace

TEST_CASE("a whole chunk of blocks behind each other is one copy", "[device][plan]") {
  Plans plans(one_tensor(), kAlone);
  CHECK(plans.copies(store_job(1, {{8, 9, 10, 11}, {4}, {0}}, {2})) ==
        std::vector<Plans::Copy>{{800, 2 * 4096, 400}});
}

TEST_CASE("blocks apart are copied one by one into their places of the chunk", "[device][plan]") {
  Plans plans(one_tensor(), kAlone);
  CHECK(plans.copies(store_job(1, {{9, 8, 3}, {3}, {4}}, {1})) ==
        std::vector<Plans::Copy>{{900, 4096, 100}, {800, 4196, 100}, {300, 4296, 100}});
}

TEST_CASE("an unaligned first block begins inside its chunk and may need one more",
          "[device][plan]") {
  Plans plans(one_tensor(), kAlone);
  CHECK(plans.copies(store_job(1, {{0, 1, 2}, {3}, {7}}, {5, 3})) ==
        std::vector<Plans::Copy>{{0, 5 * 4096 + 300, 100}, {100, 3 * 4096, 200}});
  CHECK(
      says(plans.refusal(store_job(1, {{0, 1, 2}, {3}, {7}}, {5})), {"1 chunk_ids", "expected 2"}));
  CHECK(says(plans.refusal(store_job(1, {{0, 1, 2}, {3}, {8}}, {5, 3})),
             {"2 chunk_ids", "expected 1"}));
}

TEST_CASE("groups have blocks, first blocks and chunks of their own, and may be empty",
          "[device][plan]") {
  TestCaches caches;
  caches.tensor(100, 16).tensor(60, 8);
  caches.ref(0, 0).ref(1, 0).ref(1, 1, 50).ref(2, 1);
  Plans plans(std::move(caches), {0, 1, 2, ChunkLayout::sharded});
  // A chunk: 2 x 100 of tensor 0, then 2 x 60 of tensor 1.
  CHECK(plans.copies(store_job(1, {{4, 5, 6, 7, 1}, {2, 0, 3}, {0, 9, 1}}, {3, 8, 9})) ==
        std::vector<Plans::Copy>{{400, 3 * 4096, 200},
                                 {1'000'000 + 6 * 60, 8 * 4096 + 260, 60},
                                 {1'000'000 + 7 * 60, 9 * 4096 + 200, 60},
                                 {1'000'000 + 1 * 60, 9 * 4096 + 260, 60}});
  CHECK(plans.copies(store_job(1, {{4, 5}, {0, 2, 0}, {0, 0, 0}}, {3})) ==
        std::vector<Plans::Copy>{{400, 3 * 4096, 200},
                                 {1'000'000 + 240, 3 * 4096 + 200, 50},
                                 {1'000'000 + 300, 3 * 4096 + 260, 50}});
  CHECK(plans.copies(store_job(1, {{}, {0, 0, 0}, {0, 0, 0}}, {})).empty());
  CHECK(plans.planner.tensors_of(store_job(1, {{4, 5}, {2, 0, 0}, {0, 0, 0}}, {3})) ==
        std::vector<std::uint32_t>{0});
  CHECK(plans.planner.tensors_of(store_job(1, {{4, 5}, {0, 2, 0}, {0, 0, 0}}, {3})) ==
        std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("sharded ranks copy into their slots", "[device][plan]") {
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    Plans plans(one_tensor(), {rank, 3, 4, ChunkLayout::sharded});
    CHECK(plans.copies(store_job(1, {{0, 1, 2, 3}, {4}, {0}}, {1})) ==
          std::vector<Plans::Copy>{{0, 4096 + rank * 400, 400}});
  }
}

TEST_CASE("of replicated ranks the first stores and all load", "[device][plan]") {
  const auto store = store_job(1, {{0, 1, 2, 3}, {4}, {0}}, {1});
  const auto load = load_job(1, {{0, 1, 2, 3}, {4}, {0}}, {1});
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    Plans plans(one_tensor(), {rank, 3, 4, ChunkLayout::replicated});
    const std::vector<Plans::Copy> all{{0, 4096, 400}};
    CHECK(plans.copies(store) == (rank == 0 ? all : std::vector<Plans::Copy>{}));
    CHECK(plans.copies(load) == all);
    CHECK(says(plans.refusal(store_job(1, {{99}, {1}, {0}}, {1})),
               {"block id 99"}));  // checked all the same
  }
}

TEST_CASE("a load mirrors the store: from and to change places", "[device][plan]") {
  TestCaches caches;
  caches.tensor(80, 8).ref(0, 0, 0, *map_sharded_heads({4, 4, 10, PageOrder::nhd, false}, 1, 2));
  Plans plans(std::move(caches), {1, 2, 2, ChunkLayout::canonical});
  const BlockList blocks{{3, 1, 2}, {3}, {1}};
  auto stored = plans.planner.plan(store_job(1, blocks, {4, 2}));
  auto loaded = plans.planner.plan(load_job(1, blocks, {4, 2}));
  REQUIRE(stored);
  REQUIRE(loaded);
  REQUIRE(stored->fragments.size() == 12);
  REQUIRE(loaded->fragments.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(stored->fragments[i].from == loaded->fragments[i].to);
    CHECK(stored->fragments[i].to == loaded->fragments[i].from);
    CHECK(stored->fragments[i].bytes == loaded->fragments[i].bytes);
  }
}

TEST_CASE("strided runs become copies at base plus offset of every block", "[device][plan]") {
  TestCaches caches;
  caches.tensor(80, 8).ref(0, 0, 0, *map_sharded_heads({4, 4, 10, PageOrder::nhd, false}, 1, 2));
  Plans plans(std::move(caches), {1, 2, 2, ChunkLayout::canonical});  // canonical page: 160 bytes
  CHECK(plans.copies(store_job(1, {{5}, {1}, {1}}, {3})) ==
        std::vector<Plans::Copy>{{400, 3 * 4096 + 160 + 20, 20},
                                 {420, 3 * 4096 + 160 + 60, 20},
                                 {440, 3 * 4096 + 160 + 100, 20},
                                 {460, 3 * 4096 + 160 + 140, 20}});
}

TEST_CASE("exactly one writer per block, whose turn it is by the block's number",
          "[device][plan]") {
  constexpr std::uint32_t kWorld = 3, kBlocksPerChunk = 4;
  for (ChunkId chunk = 0; chunk < 6; ++chunk)
    for (std::uint32_t block = 0; block < kBlocksPerChunk; ++block) {
      std::uint32_t writers = 0;
      for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
        TestCaches caches;
        caches.tensor(80, 8).ref(0, 0, 0, *map_replicated_page(80, rank, kWorld));
        Plans plans(std::move(caches), {rank, kWorld, kBlocksPerChunk, ChunkLayout::canonical});
        const BlockList blocks{{5}, {1}, {block}};
        const bool writes = !plans.copies(store_job(1, blocks, {chunk})).empty();
        CHECK(writes == ((chunk * kBlocksPerChunk + block) % kWorld == rank));
        writers += writes ? 1 : 0;
        CHECK(plans.copies(load_job(1, blocks, {chunk})).size() == 1);
      }
      CHECK(writers == 1);
    }
}

TEST_CASE("a rotation spreads 10,000 blocks evenly over its writers", "[device][plan]") {
  constexpr std::uint32_t kBlocks = 10'000, kBlocksPerChunk = 5;
  for (const std::uint32_t world : {2U, 3U, 4U, 8U}) {
    std::uint64_t total = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      TestCaches caches;
      caches.tensor(1, kBlocks).ref(0, 0, 0, *map_replicated_page(1, rank, world));
      Plans plans(std::move(caches), {rank, world, kBlocksPerChunk, ChunkLayout::canonical},
                  kBlocks / kBlocksPerChunk);
      CopyJob job = store_job(1, {{}, {kBlocks}, {0}}, {});
      for (std::uint32_t b = 0; b < kBlocks; ++b) job.blocks.block_ids.push_back(b);
      for (ChunkId c = 0; c < kBlocks / kBlocksPerChunk; ++c) job.chunk_ids.push_back(c);
      auto plan = plans.planner.plan(job);
      REQUIRE(plan);
      const std::uint64_t written = plan->bytes;  // a byte a block
      CHECK(written >= kBlocks / world);
      CHECK(written <= kBlocks / world + 1);
      total += written;
    }
    CHECK(total == kBlocks);
  }
}

TEST_CASE("a job that makes no sense is refused whole, with field, value and what is allowed",
          "[device][plan]") {
  TestCaches caches;
  caches.tensor(100, 16).tensor(60, 8).ref(0, 0).ref(0, 1).ref(1, 0);
  Plans plans(std::move(caches), {0, 1, 2, ChunkLayout::sharded});
  const BlockList good{{0, 1, 2}, {2, 1}, {0, 0}};
  CHECK(plans.planner.check(store_job(7, good, {0, 1})));
  CHECK(says(plans.refusal(store_job(7, {{0, 1, 2}, {3}, {0, 0}}, {0, 1})),
             {"copy job 7", "1 group_sizes", "expected 2"}));
  CHECK(says(plans.refusal(store_job(7, {{0, 1, 2}, {2, 1, 0}, {0, 0, 0}}, {0, 1})),
             {"3 group_sizes"}));
  CHECK(says(plans.refusal(store_job(7, {{0, 1, 2}, {2, 1}, {0}}, {0, 1})),
             {"1 first_blocks", "expected 2"}));
  CHECK(says(plans.refusal(store_job(7, {{0, 1}, {2, 1}, {0, 0}}, {0, 1})),
             {"2 block_ids", "expected 3"}));
  CHECK(says(plans.refusal(store_job(7, {{0, 1, 2, 3}, {2, 1}, {0, 0}}, {0, 1})),
             {"4 block_ids", "expected 3"}));
  CHECK(says(plans.refusal(store_job(7, good, {0})),
             {"1 chunk_ids", "expected 2", "2 blocks per chunk"}));
  CHECK(says(plans.refusal(store_job(7, good, {0, 16})), {"chunk id 16", "0 to 15"}));
  CHECK(says(plans.refusal(store_job(7, {{0, 8, 2}, {2, 1}, {0, 0}}, {0, 1})),
             {"block id 8 of group 0", "below 8", "tensor 1 \"kv1\""}));
  CHECK(says(plans.refusal(store_job(7, {{0, 1, 16}, {2, 1}, {0, 0}}, {0, 1})),
             {"block id 16 of group 1", "below 16", "tensor 0 \"kv0\""}));
  CHECK(plans.planner.check(store_job(7, {{0, 1, 15}, {2, 1}, {0, 0}}, {0, 1})));
  constexpr std::uint32_t kHuge = ~std::uint32_t{0};
  CHECK(says(plans.refusal(store_job(7, {{0}, {kHuge, kHuge}, {kHuge, kHuge}}, {0})),
             {"1 block_ids"}));
}

TEST_CASE("a job of too many fragments is refused before any of them is made", "[device][plan]") {
  TestCaches caches;
  caches.tensor(1 << 16, 1)
      .ref(0, 0, 0, PageMapping{2 << 16, {{0, 0, 1, 1 << 16, 1, 2}}, 1, 0, true});
  Plans plans(std::move(caches), {0, 1, 1, ChunkLayout::canonical}, 257);
  CopyJob job = load_job(1, {{}, {257}, {0}}, {});
  job.blocks.block_ids.assign(257, 0);
  for (ChunkId c = 0; c < 257; ++c) job.chunk_ids.push_back(c);
  CHECK(says(plans.refusal(job), {"16842752 fragments", "at most 16777216", "split"}));
}
