#include "kv_offload/tiers/device/worker_layout.hpp"

#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

WorkerPlace place_of(ChunkLayout layout, std::uint32_t rank = 0, std::uint32_t world_size = 1,
                     std::uint32_t blocks_per_chunk = 1) {
  return {rank, world_size, blocks_per_chunk, layout};
}

/// Two tensors, 300 bytes a block.
KvCaches two_tensors() {
  KvCaches caches;
  caches.tensors = {{"k", nullptr, 100, 8, {}}, {"v", nullptr, 200, 8, {}}};
  caches.groups = {{{0, 100, {}, "layer.0"}, {1, 200, {}, "layer.1"}}};
  return caches;
}

std::string refusal(const KvCaches& caches, const WorkerPlace& place, std::uint64_t chunk_bytes,
                    bool collapsed = false) {
  const auto made = WorkerLayout::make(caches, place, chunk_bytes, collapsed);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == OffloadErrc::invalid_config);
  return to_string(made.error());
}

PageMapping whole_page(std::uint64_t bytes, bool portable = true) {
  return {bytes, {{0, 0, bytes, 1, 0, 0}}, 1, 0, portable};
}

}  // namespace

TEST_CASE("a sharded chunk is page bytes x blocks x ranks, slot behind slot", "[device][layout]") {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto layout =
        WorkerLayout::make(two_tensors(), place_of(ChunkLayout::sharded, rank, 4, 5), 6000, false);
    REQUIRE(layout);
    CHECK(layout->chunk_bytes == 6000);
    CHECK(layout->slot_bytes == 1500);  // not rounded to pages: only rows are
    CHECK(layout->slot_offset == rank * 1500);
    REQUIRE(layout->tensors.size() == 2);
    CHECK(layout->tensors[0].offset == rank * 1500);
    CHECK(layout->tensors[0].page_bytes == 100);
    CHECK(layout->tensors[1].offset == rank * 1500 + 500);
    CHECK(layout->tensors[1].page_bytes == 200);
    CHECK_FALSE(layout->all_layers_portable);
  }
}

TEST_CASE("a replicated chunk has no world factor and all ranks have slot 0", "[device][layout]") {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto layout = WorkerLayout::make(
        two_tensors(), place_of(ChunkLayout::replicated, rank, 4, 5), 1500, false);
    REQUIRE(layout);
    CHECK(layout->chunk_bytes == 1500);
    CHECK(layout->slot_offset == 0);
    CHECK(layout->tensors[1].offset == 500);
  }
}

TEST_CASE("a canonical page is the largest of its tensor's layers", "[device][layout]") {
  KvCaches caches = two_tensors();
  caches.groups[0][0].mapping = PageMapping{400, {{0, 100, 100, 1, 0, 0}}, 1, 0, true};
  caches.groups[0][1].mapping = whole_page(200);
  caches.groups.push_back(
      {{0, 50, PageMapping{800, {{0, 0, 50, 1, 0, 0}}, 1, 0, true}, "layer.2"}});
  const auto layout =
      WorkerLayout::make(caches, place_of(ChunkLayout::canonical, 1, 4, 3), 3000, false);
  REQUIRE(layout);
  CHECK(layout->chunk_bytes == 3 * (800 + 200));
  CHECK(layout->slot_bytes == 3000);
  CHECK(layout->slot_offset == 0);
  CHECK(layout->tensors[0].page_bytes == 800);
  CHECK(layout->tensors[1].offset == 2400);
  CHECK(layout->tensors[1].page_bytes == 200);
  CHECK(layout->all_layers_portable == true);
}

TEST_CASE("one opaque layer makes a canonical worker not portable", "[device][layout]") {
  KvCaches caches = two_tensors();
  caches.groups[0][0].mapping = whole_page(100);
  caches.groups[0][1].mapping = whole_page(200, false);
  const auto layout = WorkerLayout::make(caches, place_of(ChunkLayout::canonical), 300, false);
  REQUIRE(layout);
  CHECK(layout->all_layers_portable == false);
}

TEST_CASE("a device's index on the machine folds into the ranks of its replica",
          "[device][layout]") {
  CHECK(rank_of_device(0, 4) == 0);
  CHECK(rank_of_device(3, 4) == 3);
  CHECK(rank_of_device(4, 4) == 0);
  CHECK(rank_of_device(6, 4) == 2);
  CHECK(rank_of_device(7, 1) == 0);
  CHECK(rank_of_device(7, 0) == 0);
}

TEST_CASE("a chunk of another size is refused with what these buffers fill", "[device][layout]") {
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::sharded, 1, 4, 5), 6001),
             {"chunk_bytes: 6001 is not allowed", "expected 6000", "300 bytes a block x 5",
              "x 4 ranks", "does not divide by 4 ranks", "causes:", "remedy:"}));
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::replicated, 1, 4, 5), 6001),
             {"expected 1500", "6001 does not divide by 5 blocks"}));
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::sharded, 0, 2, 5), 6000),
             {"expected 3000", "x 2 ranks"}));
  KvCaches huge = two_tensors();
  huge.tensors[0].page_bytes = huge.tensors[0].num_blocks = std::uint64_t{1} << 31;
  CHECK(says(refusal(huge, place_of(ChunkLayout::sharded, 0, 1U << 16, 1U << 20), 1), {"16 EiB"}));
}

TEST_CASE("a place outside the replica is refused", "[device][layout]") {
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::sharded, 4, 4), 1200),
             {"rank: 4 is not allowed", "expected 0 to 3", "world_size"}));
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::sharded, 0, 0), 300),
             {"world_size: 0 is not allowed"}));
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::sharded, 0, 1, 0), 300),
             {"blocks_per_chunk: 0 is not allowed", "expected 1 to"}));
}

TEST_CASE("buffers that make no sense are refused with tensor and value", "[device][layout]") {
  const auto place = place_of(ChunkLayout::sharded);
  KvCaches caches;
  CHECK(says(refusal(caches, place, 300), {"no tensor is registered"}));
  caches = two_tensors();
  caches.groups.clear();
  CHECK(says(refusal(caches, place, 300), {"no cache group"}));
  caches = two_tensors();
  caches.tensors[1].page_bytes = 0;
  CHECK(says(refusal(caches, place, 300), {"tensor 1 \"v\"", "page_bytes 0"}));
  caches = two_tensors();
  caches.tensors[1].num_blocks = std::uint64_t{1} << 62;
  CHECK(says(refusal(caches, place, 300), {"tensor 1 \"v\"", "16 EiB"}));
  caches = two_tensors();
  caches.groups[0][1].tensor = 2;
  CHECK(says(refusal(caches, place, 300),
             {"layer \"layer.1\"", "group 0", "tensor 2", "expected 0 to 1"}));
  caches = two_tensors();
  caches.groups[0][0].page_bytes = 101;
  CHECK(says(refusal(caches, place, 300),
             {"layer \"layer.0\"", "tensor 0 \"k\"", "page_bytes 101", "1 to 100"}));
  caches.groups[0][0].page_bytes = 0;
  CHECK(says(refusal(caches, place, 300), {"page_bytes 0 is not allowed"}));
  caches = two_tensors();
  caches.groups[0][1] = {0, 100, {}, "layer.7"};
  CHECK(says(refusal(caches, place, 300), {"layer \"layer.7\"", "a second time"}));
}

TEST_CASE("a layer without a mapping is refused by the canonical layout with causes and remedy",
          "[device][layout]") {
  KvCaches caches = two_tensors();
  caches.groups[0][0].mapping = whole_page(100);
  CHECK(says(refusal(caches, place_of(ChunkLayout::canonical), 300),
             {"layer \"layer.1\"", "tensor 1 \"v\"", "causes:", "tensor-parallel group", "packed",
              "remedy:", "canonical_layout"}));
}

TEST_CASE("an opaque layer is refused under a collapsed namespace with causes and remedy",
          "[device][layout]") {
  KvCaches caches = two_tensors();
  caches.groups[0][0].mapping = whole_page(100);
  caches.groups[0][1].mapping = whole_page(200, false);
  const auto place = place_of(ChunkLayout::canonical);
  CHECK(says(refusal(caches, place, 300, true), {"layer \"layer.1\"", "tensor 1 \"v\"", "opaque",
                                                 "cause", "remedy:", "canonical_layout"}));
  caches.groups[0][1].mapping->parallelism_agnostic = true;
  CHECK(WorkerLayout::make(caches, place, 300, true));
}

TEST_CASE("sharded rows of several ranks are refused under a collapsed namespace",
          "[device][layout]") {
  CHECK(says(refusal(two_tensors(), place_of(ChunkLayout::sharded, 0, 2), 600, true),
             {"layout: sharded is not allowed", "remedy:"}));
  CHECK(WorkerLayout::make(two_tensors(), place_of(ChunkLayout::replicated, 1, 2), 300, true));
  CHECK(WorkerLayout::make(two_tensors(), place_of(ChunkLayout::sharded), 300, true));
}

TEST_CASE("runs that leave a page or overlap are refused with layer, run and bytes",
          "[device][layout]") {
  const auto with_runs = [](std::vector<PageRun> runs, std::uint32_t num_writers = 1,
                            std::uint32_t writer = 0) {
    KvCaches caches = two_tensors();
    caches.groups[0][0].mapping = PageMapping{400, std::move(runs), num_writers, writer, true};
    caches.groups[0][1].mapping = whole_page(200);
    return refusal(caches, place_of(ChunkLayout::canonical), 600);
  };
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  CHECK(says(with_runs({}), {"layer \"layer.0\"", "no runs"}));
  CHECK(says(with_runs({{0, 0, 0, 1, 0, 0}}), {"run 0", "fragment_bytes 0"}));
  CHECK(says(with_runs({{0, 0, 10, 0, 0, 0}}), {"run 0", "count 0"}));
  CHECK(says(with_runs({{0, 0, 10, 1, 0, 0}, {91, 20, 10, 1, 0, 0}}),
             {"run 1", "local_offset 91", "100 bytes"}));
  CHECK(says(with_runs({{0, 0, 10, 11, 10, 20}}),
             {"run 0", "11 fragments of 10 bytes", "rank's page"}));
  CHECK(says(with_runs({{0, 391, 10, 1, 0, 0}}), {"canonical_offset 391", "400 bytes"}));
  CHECK(says(with_runs({{0, 0, 10, 2, kAll, 20}}), {"run 0", "rank's page"}));
  CHECK(says(with_runs({{kAll, 0, 10, 1, 0, 0}}), {"run 0", "rank's page"}));
  CHECK(says(with_runs({{0, 0, 10, kAll, 10, 20}}), {"run 0", "count"}));
  CHECK(says(with_runs({{0, 0, 10, 2, 5, 20}}),
             {"bytes from 5 of the rank's page", "two fragments"}));
  CHECK(says(with_runs({{0, 0, 10, 2, 10, 5}}), {"bytes from 5 of the canonical page"}));
  CHECK(says(with_runs({{0, 0, 10, 1, 0, 0}, {10, 9, 10, 1, 0, 0}}),
             {"bytes from 9 of the canonical page"}));
  CHECK(says(with_runs({{0, 0, 10, 1, 0, 0}}, 0), {"num_writers 0"}));
  CHECK(says(with_runs({{0, 0, 10, 1, 0, 0}}, 2, 2), {"writer 2", "num_writers, which is 2"}));
}

TEST_CASE("bytes of a page that no run has are refused, wherever they lie", "[device][layout]") {
  KvCaches caches;
  caches.tensors = {{"k", nullptr, 100, 8, {}}};
  caches.groups = {{{0, 100, {}, "layer.0"}}};
  const auto refused = [&](std::vector<PageRun> runs) {
    caches.groups[0][0].mapping = PageMapping{100, std::move(runs), 1, 0, true};
    return refusal(caches, place_of(ChunkLayout::canonical), 100);
  };
  CHECK(refused({{0, 0, 60, 1, 0, 0}}).find("bytes from 60 of the rank's page are in no run") != std::string::npos);
  CHECK(refused({{10, 10, 90, 1, 0, 0}}).find("bytes from 0 of") != std::string::npos);
  CHECK(refused({{0, 0, 20, 2, 50, 50}, {70, 70, 30, 1, 0, 0}}).find("bytes from 20 of") != std::string::npos);
  caches.groups[0][0].page_bytes = 60;  // the rest is the tensor's padding
  caches.groups[0][0].mapping = PageMapping{60, {{0, 0, 60, 1, 0, 0}}, 1, 0, true};
  CHECK(WorkerLayout::make(caches, place_of(ChunkLayout::canonical), 60, false));
}

TEST_CASE("a layout describes itself with all that the other ranks must share",
          "[device][layout]") {
  KvCaches caches = two_tensors();
  caches.groups[0][0].mapping = whole_page(100);
  caches.groups[0][1].mapping = whole_page(200);
  auto layout = WorkerLayout::make(caches, place_of(ChunkLayout::canonical, 0, 1, 2), 600, false);
  REQUIRE(layout);
  const RankLayout rank = describe_layout(caches, *layout);
  CHECK(rank.chunk_bytes == 600);
  CHECK(rank.place.blocks_per_chunk == 2);
  CHECK(rank.page_bytes == std::vector<std::uint64_t>{100, 200});
  REQUIRE(rank.refs.size() == 2);
  CHECK(rank.refs[1].layer == "layer.1");
  CHECK(rank.refs[1].tensor == 1);
  CHECK(rank.refs[1].page_bytes == 200);
  CHECK(rank.refs[1].mapping == whole_page(200));
}
