#include "kv_offload/tiers/device/worker_layout.hpp"

#include "kv_offload/tiers/device/page_runs.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace kv_offload {
namespace {

constexpr std::uint32_t kRanksMax = 1U << 16;           // what a region's record is made for
constexpr std::uint32_t kBlocksPerChunkMax = 1U << 20;  // as in the configuration
constexpr std::uint64_t kTooMuch = std::numeric_limits<std::uint64_t>::max();

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kTooMuch : product;
}
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kTooMuch : sum;
}

OffloadError refuse(std::string text) { return {OffloadErrc::invalid_config, std::move(text)}; }

std::string tensor_text(const KvCaches& caches, std::size_t tensor) {
  return "tensor " + std::to_string(tensor) + " \"" + caches.tensors[tensor].name + '"';
}

/// A layer and everything that it is found by.
std::string layer_text(const KvCaches& caches, std::size_t group, const KvRef& ref) {
  return "layer \"" + ref.layer + "\" (group " + std::to_string(group) + ", " +
         (ref.tensor < caches.tensors.size() ? tensor_text(caches, ref.tensor)
                                             : "tensor " + std::to_string(ref.tensor)) +
         ')';
}

std::optional<OffloadError> wrong_place(const WorkerPlace& place) {
  if (place.world_size == 0 || place.world_size > kRanksMax)
    return refuse("world_size: " + std::to_string(place.world_size) +
                  " is not allowed; expected 1 to " + std::to_string(kRanksMax) +
                  " workers that share a region");
  if (place.rank >= place.world_size)
    return refuse(
        "rank: " + std::to_string(place.rank) + " is not allowed; expected 0 to " +
        std::to_string(place.world_size - 1) +
        " (below world_size); a device's index on the machine becomes a rank by its remainder");
  if (place.blocks_per_chunk == 0 || place.blocks_per_chunk > kBlocksPerChunkMax)
    return refuse("blocks_per_chunk: " + std::to_string(place.blocks_per_chunk) +
                  " is not allowed; expected 1 to " + std::to_string(kBlocksPerChunkMax));
  return std::nullopt;
}

std::optional<OffloadError> wrong_tensors(const KvCaches& caches) {
  if (caches.tensors.empty())
    return refuse(
        "kv caches: no tensor is registered; expected at least one buffer to copy from and to");
  if (caches.groups.empty())
    return refuse(
        "kv caches: there is no cache group; expected at least one with the layers that it "
        "offloads");
  for (std::size_t t = 0; t < caches.tensors.size(); ++t) {
    const KvTensor& tensor = caches.tensors[t];
    if (tensor.page_bytes == 0)
      return refuse(tensor_text(caches, t) +
                    ": page_bytes 0 is not allowed; expected the bytes of one block");
    if (times(tensor.page_bytes, tensor.num_blocks) == kTooMuch)
      return refuse(tensor_text(caches, t) + ": " + std::to_string(tensor.num_blocks) +
                    " blocks of " + std::to_string(tensor.page_bytes) +
                    " bytes are not allowed; expected less than 16 EiB");
  }
  return std::nullopt;
}

std::optional<OffloadError> wrong_ref(const KvCaches& caches, std::size_t group, const KvRef& ref,
                                      ChunkLayout layout) {
  const std::string who = layer_text(caches, group, ref);
  if (ref.tensor >= caches.tensors.size())
    return refuse(who + ": there is no such tensor; expected 0 to " +
                  std::to_string(caches.tensors.size() - 1));
  const std::uint64_t page = caches.tensors[ref.tensor].page_bytes;
  if (ref.page_bytes == 0 || ref.page_bytes > page)
    return refuse(who + ": page_bytes " + std::to_string(ref.page_bytes) +
                  " is not allowed; expected 1 to " + std::to_string(page) +
                  ", the page of its tensor");
  if (layout != ChunkLayout::canonical) return std::nullopt;
  if (!ref.mapping)
    return refuse(
        who +
        ": the canonical layout needs a mapping and this page has none; causes: the workers are "
        "not exactly "
        "the tensor-parallel group, or the buffers are packed or span several layers; remedy: turn "
        "canonical_layout off, or register every layer with its mapping");
  if (const auto why = wrong_in_mapping(*ref.mapping, ref.page_bytes))
    return refuse(who + ": mapping: " + *why);
  if (const auto why = left_out_by(*ref.mapping, ref.page_bytes))
    return refuse(who + ": mapping: " + *why);
  return std::nullopt;
}

std::optional<OffloadError> wrong_refs(const KvCaches& caches, ChunkLayout layout) {
  for (std::size_t g = 0; g < caches.groups.size(); ++g) {
    std::set<std::uint32_t> tensors;
    for (const KvRef& ref : caches.groups[g]) {
      if (auto wrong = wrong_ref(caches, g, ref, layout)) return wrong;
      if (!tensors.insert(ref.tensor).second)
        return refuse(
            layer_text(caches, g, ref) +
            ": this group names the tensor a second time; expected each tensor once per group");
    }
  }
  return std::nullopt;
}

/// A namespace that engines of other parallel layouts use takes only bytes that mean the same to
/// them.
std::optional<OffloadError> wrong_under_collapsed_namespace(const KvCaches& caches,
                                                            const WorkerPlace& place) {
  if (place.layout == ChunkLayout::sharded && place.world_size > 1)
    return refuse(
        "layout: sharded is not allowed; expected canonical or replicated: the namespace on the "
        "tiers is "
        "shared by engines of other parallel layouts, and these rows are of use to " +
        std::to_string(place.world_size) +
        " workers laid out so alone; remedy: turn canonical_layout on, or parallelism_agnostic "
        "off");
  if (place.layout != ChunkLayout::canonical) return std::nullopt;
  for (std::size_t g = 0; g < caches.groups.size(); ++g)
    for (const KvRef& ref : caches.groups[g])
      if (!ref.mapping->parallelism_agnostic)
        return refuse(layer_text(caches, g, ref) +
                      ": its bytes are opaque, and the namespace on the tiers is shared by engines "
                      "of other parallel "
                      "layouts; cause: this layer could not be mapped so that they read the same "
                      "everywhere; remedy: "
                      "turn canonical_layout off, or parallelism_agnostic of the namespace");
  return std::nullopt;
}

std::optional<OffloadError> wrong_chunk_bytes(const WorkerLayout& layout,
                                              std::uint64_t chunk_bytes) {
  const WorkerPlace& place = layout.place;
  if (layout.chunk_bytes == kTooMuch)
    return refuse("kv caches: a chunk of " + std::to_string(place.blocks_per_chunk) +
                  " blocks (blocks_per_chunk) would take 16 EiB or more");
  if (layout.chunk_bytes == chunk_bytes) return std::nullopt;
  std::uint64_t block = 0;
  for (const auto& tensor : layout.tensors) block += tensor.page_bytes;
  std::string text = "chunk_bytes: " + std::to_string(chunk_bytes) + " is not allowed; expected " +
                     std::to_string(layout.chunk_bytes) + ", what this worker's " +
                     std::to_string(layout.tensors.size()) +
                     " tensors fill: " + std::to_string(block) + " bytes a block x " +
                     std::to_string(place.blocks_per_chunk) + " (blocks_per_chunk)";
  if (place.layout == ChunkLayout::sharded)
    text += " x " + std::to_string(place.world_size) + " ranks (world_size)";
  text += ", layout " + std::string(to_string(place.layout));
  if (place.layout == ChunkLayout::sharded && chunk_bytes % place.world_size != 0)
    text += "; " + std::to_string(chunk_bytes) + " does not divide by " +
            std::to_string(place.world_size) + " ranks";
  else if (chunk_bytes % place.blocks_per_chunk != 0)
    text += "; " + std::to_string(chunk_bytes) + " does not divide by " +
            std::to_string(place.blocks_per_chunk) + " blocks";
  return refuse(
      text +
      "; causes: engine and worker disagree on the model, blocks_per_chunk, world_size or layout; "
      "remedy: set them alike, or leave chunk_bytes out where it is derived");
}

}  // namespace

Expected<WorkerLayout> WorkerLayout::make(const KvCaches& caches, const WorkerPlace& place,
                                          std::optional<std::uint64_t> chunk_bytes, bool namespace_collapsed) {
  if (auto wrong = wrong_place(place)) return *std::move(wrong);
  if (auto wrong = wrong_tensors(caches)) return *std::move(wrong);
  if (auto wrong = wrong_refs(caches, place.layout)) return *std::move(wrong);
  if (namespace_collapsed)
    if (auto wrong = wrong_under_collapsed_namespace(caches, place)) return *std::move(wrong);

  WorkerLayout layout{place, 0, 0, 0, {}, {}};
  layout.tensors.resize(caches.tensors.size());
  const bool canonical = place.layout == ChunkLayout::canonical;
  if (canonical) layout.all_layers_portable = true;
  for (std::size_t t = 0; t < caches.tensors.size(); ++t)
    if (!canonical) layout.tensors[t].page_bytes = caches.tensors[t].page_bytes;
  if (canonical)
    for (const auto& group : caches.groups)
      for (const KvRef& ref : group) {
        std::uint64_t& page = layout.tensors[ref.tensor].page_bytes;
        page = std::max(page, ref.mapping->canonical_page_bytes);
        if (!ref.mapping->parallelism_agnostic) layout.all_layers_portable = false;
      }
  for (auto& tensor : layout.tensors) {
    tensor.offset = layout.slot_bytes;
    layout.slot_bytes = plus(layout.slot_bytes, times(tensor.page_bytes, place.blocks_per_chunk));
  }
  layout.chunk_bytes = layout.slot_bytes;
  if (place.layout == ChunkLayout::sharded) {
    layout.chunk_bytes = times(layout.slot_bytes, place.world_size);
    layout.slot_offset = times(layout.slot_bytes, place.rank);
  }
  if (auto wrong = wrong_chunk_bytes(layout, chunk_bytes.value_or(layout.chunk_bytes))) return *std::move(wrong);
  for (auto& tensor : layout.tensors) tensor.offset += layout.slot_offset;
  return layout;
}

RankLayout describe_layout(const KvCaches& caches, const WorkerLayout& layout) {
  RankLayout rank{layout.place, layout.chunk_bytes, {}, {}};
  for (const auto& tensor : layout.tensors) rank.page_bytes.push_back(tensor.page_bytes);
  for (std::size_t g = 0; g < caches.groups.size(); ++g)
    for (const KvRef& ref : caches.groups[g])
      rank.refs.push_back(
          {static_cast<std::uint32_t>(g), ref.tensor, ref.layer, ref.page_bytes,
           layout.place.layout == ChunkLayout::canonical ? ref.mapping : std::nullopt});
  return rank;
}

}  // namespace kv_offload
