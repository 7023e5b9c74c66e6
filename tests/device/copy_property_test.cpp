// Random layouts and jobs against a copy byte by byte that shares no code with the plan.
#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tests/support/property.hpp"
#include "kv_offload/tiers/device/copy_plan.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

std::uint32_t draw(std::uint32_t least, std::uint32_t most) {
  return *rc::gen::inRange(least, most + 1);
}

PageMapping draw_mapping(std::uint32_t rank, std::uint32_t world, std::uint64_t& page_bytes) {
  const auto order = draw(0, 1) == 0 ? PageOrder::nhd : PageOrder::hnd;
  const bool split = draw(0, 1) == 1;
  const std::uint32_t tokens = 2 * draw(1, 2);
  const std::uint64_t head_bytes = draw(1, 9);
  switch (draw(0, 3)) {
    case 0: {
      const std::uint32_t heads =
          world % 2 == 0 && draw(0, 1) == 1 ? world / 2 : world * draw(1, 2);
      page_bytes = tokens * std::max(heads / world, 1U) * head_bytes * (split ? 2 : 1);
      return *map_sharded_heads({tokens, heads, head_bytes, order, split}, rank, world);
    }
    case 1: {
      const std::uint32_t heads = draw(1, 3);
      page_bytes = tokens * heads * head_bytes * (split ? 2 : 1);
      return *map_interleaved_tokens({tokens, heads, head_bytes, order, split}, rank, world,
                                     draw(1, 2));
    }
    case 2: page_bytes = draw(1, 64); return *map_replicated_page(page_bytes, rank, world);
    default: page_bytes = draw(1, 64); return *map_opaque_page(page_bytes, rank, world);
  }
}

TestCaches draw_caches(const WorkerPlace& place) {
  TestCaches caches;
  const std::uint32_t groups = draw(1, 3);
  for (std::uint32_t g = 0; g < groups; ++g)
    for (std::uint32_t r = draw(1, 2); r > 0; --r) {
      std::uint64_t page = draw(1, 64);
      std::optional<PageMapping> mapping;
      if (place.layout == ChunkLayout::canonical)
        mapping = draw_mapping(place.rank, place.world_size, page);
      const auto tensor = static_cast<std::uint32_t>(caches.caches.tensors.size());
      caches.tensor(page + draw(0, 1) * draw(0, 9), draw(8, 12));
      caches.ref(g, tensor, page, mapping);
    }
  return caches;
}

CopyJob draw_job(const WorkerPlace& place, std::size_t groups, ChunkId num_chunks) {
  CopyJob job;
  job.is_load = draw(0, 1) == 1;
  std::vector<ChunkId> free(num_chunks);  // rows of a job are its own
  for (ChunkId c = 0; c < num_chunks; ++c) free[c] = c;
  for (std::size_t g = 0; g < groups; ++g) {
    std::vector<std::uint32_t> blocks{0, 1, 2, 3, 4, 5, 6, 7};  // a load's target is its own
    const std::uint32_t count = draw(0, 7), first = draw(0, 9);
    job.blocks.group_sizes.push_back(count);
    job.blocks.first_blocks.push_back(first);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t at =
          draw(0, 1) == 1 ? 0 : draw(0, static_cast<std::uint32_t>(blocks.size()) - 1);
      job.blocks.block_ids.push_back(blocks[at]);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (count == 0) continue;
    for (std::uint32_t rows =
             (first % place.blocks_per_chunk + count - 1) / place.blocks_per_chunk + 1;
         rows > 0; --rows) {
      const std::size_t at = draw(0, static_cast<std::uint32_t>(free.size()) - 1);
      job.chunk_ids.push_back(free[at]);
      free.erase(free.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return job;
}

}  // namespace

TEST_CASE("any job of any layout copies exactly the bytes that a copy byte by byte does",
          "[device][plan]") {
  check_property("plan == naive copy", 10, [] {
    WorkerPlace place;
    place.world_size = draw(1, 4);
    place.rank = draw(0, place.world_size - 1);
    place.blocks_per_chunk = draw(1, 4);
    place.layout = static_cast<ChunkLayout>(draw(0, 2));
    TestCaches caches = draw_caches(place);
    const std::uint64_t chunk_bytes = chunk_bytes_of(caches.caches, place);
    TestRows rows(32, chunk_bytes, chunk_bytes + draw(0, 7));
    const auto layout = WorkerLayout::make(caches.caches, place, chunk_bytes, false);
    RC_ASSERT(layout.has_value());
    const CopyJob job = draw_job(place, caches.caches.groups.size(), 32);
    if (job.is_load)
      for (std::size_t i = 0; i < rows.bytes.size(); ++i)
        rows.bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    else
      caches.fill(draw(0, 1U << 30));

    const auto plan = CopyPlanner(caches.caches, *layout, rows.view()).plan(job);
    RC_ASSERT(plan.has_value());
    const auto rows_before = rows.bytes;
    std::vector<std::vector<std::byte>> tensors_before, tensors_after;
    for (std::size_t t = 0; t < caches.caches.tensors.size(); ++t)
      tensors_before.push_back(caches.memory(t));
    for (const CopyFragment& f : plan->fragments) std::memcpy(f.to, f.from, f.bytes);
    const auto rows_after = rows.bytes;
    for (std::size_t t = 0; t < tensors_before.size(); ++t)
      tensors_after.push_back(caches.memory(t));

    rows.bytes = rows_before;
    for (std::size_t t = 0; t < tensors_before.size(); ++t)
      std::copy(tensors_before[t].begin(), tensors_before[t].end(), caches.memory(t).begin());
    copy_naively(caches.caches, place, rows.view(), job);
    RC_ASSERT(rows.bytes == rows_after);
    for (std::size_t t = 0; t < tensors_before.size(); ++t)
      RC_ASSERT(caches.memory(t) == tensors_after[t]);
    // Never twice the same byte of the target, so no order of copies matters.
    std::vector<std::pair<const std::byte*, std::uint64_t>> targets;
    for (const CopyFragment& f : plan->fragments) targets.emplace_back(f.to, f.bytes);
    std::sort(targets.begin(), targets.end());
    for (std::size_t i = 1; i < targets.size(); ++i)
      RC_ASSERT(targets[i - 1].first + targets[i - 1].second <= targets[i].first);
  });
}
