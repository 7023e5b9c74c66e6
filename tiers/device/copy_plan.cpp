#include "kv_offload/tiers/device/copy_plan.hpp"

#include <algorithm>
#include <string>

namespace kv_offload {
namespace {

OffloadError refuse(std::string text) { return {OffloadErrc::invalid_argument, std::move(text)}; }

std::string number(std::uint64_t value) { return std::to_string(value); }

/// Appends a copy, or lengthens the last one if it goes on where that ends.
void add(CopyPlan& plan, const std::byte* from, std::byte* to, std::uint64_t bytes) {
  plan.bytes += bytes;
  if (!plan.fragments.empty()) {
    CopyFragment& last = plan.fragments.back();
    if (last.from + last.bytes == from && last.to + last.bytes == to) {
      last.bytes += bytes;
      return;
    }
  }
  plan.fragments.push_back({from, to, bytes});
}

}  // namespace

CopyPlanner::CopyPlanner(const KvCaches& caches, const WorkerLayout& layout,
                         const PrimaryView& rows)
    : rows_(rows),
      blocks_per_chunk_(layout.place.blocks_per_chunk),
      stores_nothing_(layout.place.layout == ChunkLayout::replicated && layout.place.rank != 0) {
  for (const KvTensor& tensor : caches.tensors) tensor_names_.push_back(tensor.name);
  for (const auto& group : caches.groups) {
    auto& shares = groups_.emplace_back();
    for (const KvRef& ref : group) {
      const KvTensor& tensor = caches.tensors[ref.tensor];
      Share share{ref.tensor,
                  tensor.data,
                  tensor.page_bytes,
                  tensor.num_blocks,
                  layout.tensors[ref.tensor].offset,
                  layout.tensors[ref.tensor].page_bytes};
      if (layout.place.layout == ChunkLayout::canonical) {
        share.fragments = unroll_runs(*ref.mapping);
        share.num_writers = ref.mapping->num_writers;
        share.writer = ref.mapping->writer;
      } else {
        share.fragments = {{0, 0, ref.page_bytes}};
      }
      shares.push_back(std::move(share));
    }
  }
}

std::uint64_t CopyPlanner::rows_of(const BlockList& blocks, std::size_t group) const {
  const std::uint64_t count = blocks.group_sizes[group];
  if (count == 0) return 0;
  return (blocks.first_blocks[group] % blocks_per_chunk_ + count + blocks_per_chunk_ - 1) /
         blocks_per_chunk_;
}

Expected<Ok> CopyPlanner::check(const CopyJob& job) const {
  const BlockList& blocks = job.blocks;
  const std::string who = "copy job " + number(job.id) + ": ";
  if (blocks.group_sizes.size() != groups_.size())
    return refuse(who + number(blocks.group_sizes.size()) +
                  " group_sizes are not allowed; expected " + number(groups_.size()) +
                  ", one per cache group");
  if (blocks.first_blocks.size() != groups_.size())
    return refuse(who + number(blocks.first_blocks.size()) +
                  " first_blocks are not allowed; expected " + number(groups_.size()) +
                  ", one per cache group");
  std::uint64_t blocks_named = 0, rows = 0, fragments = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    blocks_named += blocks.group_sizes[g];
    rows += rows_of(blocks, g);
    for (const Share& share : groups_[g])
      fragments += blocks.group_sizes[g] * share.fragments.size();
  }
  if (blocks_named != blocks.block_ids.size())
    return refuse(who + number(blocks.block_ids.size()) + " block_ids are not allowed; expected " +
                  number(blocks_named) + ", the sum of group_sizes");
  if (rows != job.chunk_ids.size())
    return refuse(who + number(job.chunk_ids.size()) + " chunk_ids are not allowed; expected " +
                  number(rows) + ", what group_sizes and first_blocks fill with " +
                  number(blocks_per_chunk_) + " blocks per chunk");
  if (fragments > kFragmentsMax)
    return refuse(who + number(fragments) + " fragments are not allowed; expected at most " +
                  number(kFragmentsMax) + "; split the job");
  for (const ChunkId chunk : job.chunk_ids)
    if (chunk >= rows_.num_chunks)
      return refuse(who + "chunk id " + number(chunk) + " is not allowed; expected 0 to " +
                    number(rows_.num_chunks - 1) + ", the rows of the primary tier");
  std::size_t at = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Share* smallest = nullptr;
    for (const Share& share : groups_[g])
      if (smallest == nullptr || share.num_blocks < smallest->num_blocks) smallest = &share;
    for (std::uint32_t i = 0; i < blocks.group_sizes[g]; ++i, ++at)
      if (smallest != nullptr && blocks.block_ids[at] >= smallest->num_blocks)
        return refuse(who + "block id " + number(blocks.block_ids[at]) + " of group " + number(g) +
                      " is not allowed; expected below " + number(smallest->num_blocks) +
                      ", the blocks of tensor " + number(smallest->tensor) + " \"" +
                      tensor_names_[smallest->tensor] + '"');
  }
  return Ok{};
}

void CopyPlanner::add_group(const CopyJob& job, std::size_t group, std::size_t first_block,
                            std::size_t first_chunk, CopyPlan& plan) const {
  const std::uint32_t count = job.blocks.group_sizes[group];
  const std::uint32_t skipped = job.blocks.first_blocks[group] % blocks_per_chunk_;
  for (const Share& share : groups_[group]) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t at = std::uint64_t{skipped} + i;
      const ChunkId chunk = job.chunk_ids[first_chunk + at / blocks_per_chunk_];
      const std::uint64_t in_chunk = at % blocks_per_chunk_;
      if (!job.is_load && share.num_writers > 1 &&
          (std::uint64_t{chunk} * blocks_per_chunk_ + in_chunk) % share.num_writers != share.writer)
        continue;
      std::byte* const page =
          share.device + job.blocks.block_ids[first_block + i] * share.device_page_bytes;
      std::byte* const row = rows_.base + std::uint64_t{chunk} * rows_.row_bytes +
                             share.row_offset + in_chunk * share.row_page_bytes;
      for (const PageFragment& f : share.fragments) {
        if (job.is_load)
          add(plan, row + f.row_offset, page + f.local_offset, f.bytes);
        else
          add(plan, page + f.local_offset, row + f.row_offset, f.bytes);
      }
    }
  }
}

Expected<CopyPlan> CopyPlanner::plan(const CopyJob& job) const {
  if (auto checked = check(job); !checked) return checked.error();
  CopyPlan plan;
  if (!job.is_load && stores_nothing_) return plan;
  std::size_t block = 0, chunk = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    add_group(job, g, block, chunk, plan);
    block += job.blocks.group_sizes[g];
    chunk += rows_of(job.blocks, g);
  }
  return plan;
}

std::vector<std::uint32_t> CopyPlanner::tensors_of(const CopyJob& job) const {
  std::vector<std::uint32_t> tensors;
  if (!job.is_load && stores_nothing_) return tensors;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (job.blocks.group_sizes[g] > 0)
      for (const Share& share : groups_[g]) tensors.push_back(share.tensor);
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

}  // namespace kv_offload
