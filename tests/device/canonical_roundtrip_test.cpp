// Rows written by ranks of one parallel layout and read by those of another, through real workers.
#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint32_t kLayers = 3, kBlocks = 12, kBlocksPerChunk = 4;
constexpr ChunkId kChunks = 8;

/// A model's pages, all ranks together, from which every rank's share is cut byte by byte.
struct Model {
  AttentionPage page;
  std::uint64_t canonical_bytes = 0;
  std::vector<std::vector<std::vector<std::byte>>> pages;  // [layer][block][byte]

  explicit Model(const AttentionPage& p) : page(p) {
    canonical_bytes =
        p.tokens * std::uint64_t{p.kv_heads} * p.head_bytes * (p.split_halves ? 2 : 1);
    std::uint64_t seed = 99;
    pages.resize(kLayers);
    for (auto& layer : pages)
      for (std::uint32_t b = 0; b < kBlocks; ++b) {
        auto& bytes = layer.emplace_back(canonical_bytes);
        for (std::byte& byte : bytes) {
          seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
          // Never poison, so that a byte that was not written shows.
          byte = static_cast<std::byte>(seed >> 56);
          if (byte == kPoison) byte = std::byte{1};
        }
      }
  }
  [[nodiscard]] std::uint32_t heads_of_rank(std::uint32_t world) const {
    return std::max(page.kv_heads / world, 1U);
  }
  /// The byte of the model that is byte `at` of this rank's page: dimension by dimension, in the
  /// page's own order.
  [[nodiscard]] std::byte byte_of_rank(std::uint32_t layer, std::uint32_t block, std::uint64_t at,
                                       std::uint32_t rank, std::uint32_t world) const {
    const std::uint64_t heads = heads_of_rank(world), half = page.tokens * heads * page.head_bytes;
    const std::uint64_t section = at / half, cell = at % half / page.head_bytes,
                        byte = at % page.head_bytes;
    const std::uint64_t token = page.order == PageOrder::nhd ? cell / heads : cell % page.tokens;
    const std::uint64_t head = (page.order == PageOrder::nhd ? cell % heads : cell / page.tokens) +
                               std::uint64_t{rank} * page.kv_heads / world / heads * heads;
    const std::uint64_t all_half = page.tokens * std::uint64_t{page.kv_heads} * page.head_bytes;
    const std::uint64_t index =
        page.order == PageOrder::nhd ? token * page.kv_heads + head : head * page.tokens + token;
    return pages[layer][block][section * all_half + index * page.head_bytes + byte];
  }
};

/// The worker of one rank, all layers on tensors of their own with a bit of padding behind each
/// page.
struct Rank {
  Rank(const Model& model, std::uint32_t r, std::uint32_t w, TestRows& rows) : rank(r), world(w) {
    page_bytes = model.page.tokens * std::uint64_t{model.heads_of_rank(world)} *
                 model.page.head_bytes * (model.page.split_halves ? 2 : 1);
    auto mapping = map_sharded_heads(model.page, rank, world);
    if (!mapping) FAIL(to_string(mapping.error()));
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      caches.tensor(page_bytes + 16, kBlocks);
      caches.ref(0, layer, page_bytes, *mapping);
    }
    worker = std::make_unique<TestWorker>(
        caches, WorkerPlace{rank, world, kBlocksPerChunk, ChunkLayout::canonical}, rows);
    worker->start();
  }
  std::byte* page(std::uint32_t layer, std::uint32_t block) {
    return caches.memory(layer).data() + block * (page_bytes + 16);
  }
  void fill(const Model& model) {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer)
      for (std::uint32_t block = 0; block < kBlocks; ++block)
        for (std::uint64_t at = 0; at < page_bytes; ++at)
          page(layer, block)[at] = model.byte_of_rank(layer, block, at, rank, world);
  }

  std::uint32_t rank, world;
  std::uint64_t page_bytes = 0;
  TestCaches caches;
  std::unique_ptr<TestWorker> worker;
};

std::vector<std::unique_ptr<Rank>> ranks_of(const Model& model, std::uint32_t world,
                                            TestRows& rows) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t r = 0; r < world; ++r)
    ranks.push_back(std::make_unique<Rank>(model, r, world, rows));
  return ranks;
}

/// Blocks 1 to 10 in an order of their own, from the second block of a chunk on.
BlockList some_blocks() { return {{5, 6, 7, 1, 10, 9, 2, 3, 4, 8}, {10}, {1}}; }
const std::vector<ChunkId> kSomeChunks{6, 1, 3};

void store_all(std::vector<std::unique_ptr<Rank>>& ranks) {
  for (auto& rank : ranks)
    CHECK(rank->worker->run(store_job(1, some_blocks(), kSomeChunks)).success);
}

void check_cross_layout(const AttentionPage& page, std::uint32_t from,
                        const std::vector<std::uint32_t>& into) {
  const Model model(page);
  TestRows rows(kChunks, kLayers * kBlocksPerChunk * model.canonical_bytes);
  {
    auto writers = ranks_of(model, from, rows);
    for (auto& rank : writers) rank->fill(model);
    store_all(writers);
  }
  const BlockList blocks = some_blocks();
  for (const std::uint32_t world : into) {
    CAPTURE(from, world);
    auto readers = ranks_of(model, world, rows);
    for (auto& rank : readers) {
      CHECK(rank->worker->run(load_job(2, blocks, kSomeChunks)).success);
      std::uint64_t wrong = 0, touched = 0;
      for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
        for (const std::uint32_t block : blocks.block_ids) {
          for (std::uint64_t at = 0; at < rank->page_bytes; ++at)
            if (rank->page(layer, block)[at] !=
                model.byte_of_rank(layer, block, at, rank->rank, world))
              ++wrong;
          for (std::uint64_t at = rank->page_bytes; at < rank->page_bytes + 16; ++at)
            if (rank->page(layer, block)[at] != kPoison) ++touched;
        }
        for (const std::uint32_t block : {0U, 11U})
          for (std::uint64_t at = 0; at < rank->page_bytes + 16; ++at)
            if (rank->page(layer, block)[at] != kPoison) ++touched;
      }
      CHECK(wrong == 0);
      CHECK(touched == 0);
    }
  }
}

}  // namespace

TEST_CASE("what ranks of TP 2 store, ranks of TP 4, TP 1 and TP 2 load byte for byte",
          "[device][canonical]") {
  for (const auto order : {PageOrder::nhd, PageOrder::hnd})
    for (const bool split : {false, true})
      check_cross_layout({4, 4, 24, order, split}, 2, {4, 1, 2});
}

TEST_CASE("heads that several ranks hold cross parallel layouts, too", "[device][canonical]") {
  for (const auto order : {PageOrder::nhd, PageOrder::hnd})
    for (const bool split : {false, true}) {
      check_cross_layout({4, 2, 24, order, split}, 8, {1, 2, 4});
      check_cross_layout({4, 2, 24, order, split}, 1, {8});
    }
}

TEST_CASE("the ranks together fill the canonical page and nothing else of the row",
          "[device][canonical]") {
  const Model model({4, 4, 24, PageOrder::nhd, true});
  TestRows rows(kChunks, kLayers * kBlocksPerChunk * model.canonical_bytes);
  auto ranks = ranks_of(model, 4, rows);
  for (auto& rank : ranks) rank->fill(model);
  store_all(ranks);
  const BlockList blocks = some_blocks();
  std::vector<std::byte> expected(rows.bytes.size(), kPoison);
  const std::uint64_t row_bytes = rows.view().row_bytes;
  for (std::uint32_t i = 0; i < blocks.block_ids.size(); ++i)
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::uint32_t at = i + 1;
      const auto& page = model.pages[layer][blocks.block_ids[i]];
      std::copy(page.begin(), page.end(),
                expected.begin() +
                    static_cast<std::ptrdiff_t>(kSomeChunks[at / kBlocksPerChunk] * row_bytes +
                                                (layer * kBlocksPerChunk + at % kBlocksPerChunk) *
                                                    model.canonical_bytes));
    }
  CHECK(rows.bytes == expected);
}

TEST_CASE("every rank writes exactly its fragments: all other bytes stay poison",
          "[device][canonical]") {
  const Model model({4, 2, 24, PageOrder::nhd, true});
  for (const std::uint32_t world : {1U, 2U, 4U}) {
    for (std::uint32_t r = 0; r < world; ++r) {
      CAPTURE(world, r);
      TestRows rows(kChunks, kLayers * kBlocksPerChunk * model.canonical_bytes);
      TestRows expected(kChunks, kLayers * kBlocksPerChunk * model.canonical_bytes);
      Rank rank(model, r, world, rows);
      rank.fill(model);
      const CopyJob job = store_job(1, some_blocks(), kSomeChunks);
      const CopyResult result = rank.worker->run(job);
      CHECK(result.success);
      copy_naively(rank.caches.caches, {r, world, kBlocksPerChunk, ChunkLayout::canonical},
                   expected.view(), job);
      CHECK(rows.bytes == expected.bytes);
      const auto written = static_cast<std::uint64_t>(std::count_if(
          rows.bytes.begin(), rows.bytes.end(), [](std::byte b) { return b != kPoison; }));
      CHECK(result.bytes == written);  // the model's bytes are never poison
      // Two heads: at TP 4 each is on two ranks, which write 5 of the 10 blocks each.
      CHECK(written == kLayers * 10 * model.canonical_bytes / world);
    }
  }
}

TEST_CASE("latents on every rank, tokens dealt out and opaque pages come back as they were",
          "[device][canonical]") {
  constexpr std::uint32_t kWorld = 4;
  const auto mapping_of = [](std::uint32_t layer, std::uint32_t rank) {
    switch (layer) {
      case 0: return *map_replicated_page(96, rank, kWorld);
      case 1: return *map_interleaved_tokens({4, 1, 24, PageOrder::nhd, false}, rank, kWorld, 2);
      default: return *map_opaque_page(96, rank, kWorld);
    }
  };
  TestRows rows(kChunks, kBlocksPerChunk * (96 + 4 * 96 + 4 * 96));
  std::vector<std::unique_ptr<TestCaches>> caches;
  for (std::uint32_t r = 0; r < kWorld; ++r) {
    auto& own = caches.emplace_back(std::make_unique<TestCaches>());
    for (std::uint32_t layer = 0; layer < 3; ++layer)
      own->tensor(96, kBlocks).ref(0, layer, 96, mapping_of(layer, r));
    own->fill(r + 1);
    own->memory(0) = caches.front()->memory(0);  // a latent is the same everywhere
    own->caches.tensors[0].data = own->memory(0).data();
  }
  std::vector<RankLayout> layouts;
  for (std::uint32_t r = 0; r < kWorld; ++r) {
    TestWorker worker(*caches[r], {r, kWorld, kBlocksPerChunk, ChunkLayout::canonical}, rows);
    worker.start();
    CHECK(worker.worker->all_layers_portable() == false);
    CHECK(worker.run(store_job(1, some_blocks(), kSomeChunks)).success);
    auto layout = WorkerLayout::make(caches[r]->caches, worker.options.place,
                                     rows.view().payload_bytes, false);
    REQUIRE(layout);
    layouts.push_back(describe_layout(caches[r]->caches, *layout));
  }
  CHECK(check_ranks(layouts));
  for (std::uint32_t r = 0; r < kWorld; ++r) {
    TestCaches back;
    for (std::uint32_t layer = 0; layer < 3; ++layer)
      back.tensor(96, kBlocks).ref(0, layer, 96, mapping_of(layer, r));
    TestWorker worker(back, {r, kWorld, kBlocksPerChunk, ChunkLayout::canonical}, rows);
    worker.start();
    CHECK(worker.run(load_job(1, some_blocks(), kSomeChunks)).success);
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
      std::vector<std::byte> expected(back.memory(layer).size(), kPoison);
      for (const std::uint32_t block : some_blocks().block_ids)
        std::copy_n(caches[r]->memory(layer).begin() + block * 96, 96,
                    expected.begin() + block * 96);
      CHECK(back.memory(layer) == expected);
    }
  }
}
