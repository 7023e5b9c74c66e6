#include "kv_offload/tiers/device/page_mappings.hpp"

#include "kv_offload/tiers/device/page_runs.hpp"

#include <optional>
#include <string>

namespace kv_offload {
namespace {

constexpr std::uint32_t kTokensMax = 1U << 20;  // of a block
constexpr std::uint32_t kHeadsMax = 1U << 16;
constexpr std::uint32_t kRanksMax = 1U << 16;
constexpr std::uint64_t kBytesMax = std::uint64_t{1}
                                    << 40;  // of a page; products of the above stay within 64 bits

OffloadError refuse(const std::string& field, std::uint64_t value, const std::string& expected) {
  return {OffloadErrc::invalid_config,
          field + ": " + std::to_string(value) + " is not allowed; expected " + expected};
}
std::string up_to(std::uint64_t most) { return "1 to " + std::to_string(most); }

std::optional<OffloadError> wrong_rank(const std::string& name, std::uint32_t rank,
                                       std::uint32_t ranks) {
  if (ranks == 0 || ranks > kRanksMax) return refuse(name + "s", ranks, up_to(kRanksMax));
  if (rank >= ranks) return refuse(name, rank, "0 to " + std::to_string(ranks - 1));
  return std::nullopt;
}

std::optional<OffloadError> wrong(const AttentionPage& page, const RankGrid& grid) {
  if (page.tokens == 0 || page.tokens > kTokensMax)
    return refuse("tokens", page.tokens, up_to(kTokensMax));
  if (page.kv_heads == 0 || page.kv_heads > kHeadsMax)
    return refuse("kv_heads", page.kv_heads, up_to(kHeadsMax));
  if (page.head_bytes == 0 || page.head_bytes > kBytesMax)
    return refuse("head_bytes", page.head_bytes, up_to(kBytesMax));
  if (auto bad = wrong_rank("head_rank", grid.head_rank, grid.head_ranks)) return bad;
  if (auto bad = wrong_rank("token_rank", grid.token_rank, grid.token_ranks)) return bad;
  if (grid.interleave == 0 || page.tokens % grid.interleave != 0)
    return refuse("interleave", grid.interleave,
                  "a divisor of the " + std::to_string(page.tokens) + " tokens of a rank's block");
  if (page.kv_heads % grid.head_ranks != 0 && grid.head_ranks % page.kv_heads != 0)
    return refuse("kv_heads", page.kv_heads,
                  "a multiple or a divisor of the " + std::to_string(grid.head_ranks) +
                      " ranks that share them (head_ranks)");
  std::uint64_t bytes = 2;
  for (const std::uint64_t factor : {std::uint64_t{page.tokens}, std::uint64_t{grid.token_ranks},
                                     std::uint64_t{page.kv_heads}, page.head_bytes})
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > 2 * kBytesMax)
      return refuse("head_bytes", page.head_bytes,
                    "a canonical page of at most " + std::to_string(kBytesMax) + " bytes");
  return std::nullopt;
}

}  // namespace

Expected<PageMapping> map_attention_page(const AttentionPage& page, const RankGrid& grid) {
  if (auto bad = wrong(page, grid)) return *std::move(bad);
  const bool replicated = grid.head_ranks > page.kv_heads;
  const std::uint32_t copies = replicated ? grid.head_ranks / page.kv_heads : 1;
  const std::uint64_t heads = replicated ? 1 : page.kv_heads / grid.head_ranks;  // of this rank
  const std::uint64_t first_head = grid.head_rank / copies * heads;

  // Both pages as [sections][rows][cells]: a row is what lies together, a cell one token of one
  // head.
  const bool nhd = page.order == PageOrder::nhd;
  const std::uint64_t tokens = page.tokens, all_tokens = tokens * grid.token_ranks;
  const std::uint64_t step = grid.interleave, turns = tokens / step;
  const std::uint64_t cell = page.head_bytes;
  const std::uint64_t local_half = tokens * heads * cell;
  const std::uint64_t canonical_half = all_tokens * page.kv_heads * cell;
  const std::uint64_t sections = page.split_halves ? 2 : 1;

  PageMapping mapping;
  mapping.canonical_page_bytes = sections * canonical_half;
  mapping.num_writers = copies;
  mapping.writer = grid.head_rank % copies;
  const std::uint64_t first_token = grid.token_rank * step;
  for (std::uint64_t s = 0; s < sections; ++s) {
    const std::uint64_t local = s * local_half, canonical = s * canonical_half;
    if (nhd && heads == page.kv_heads) {  // whole tokens: `step` of them lie together
      const std::uint64_t token = heads * cell;
      mapping.runs.push_back({local, canonical + first_token * token, step * token, turns,
                              step * token, grid.token_ranks * step * token});
    } else if (nhd) {  // in each token, this rank's heads
      for (std::uint64_t i = 0; i < step; ++i)
        mapping.runs.push_back({local + i * heads * cell,
                                canonical + ((first_token + i) * page.kv_heads + first_head) * cell,
                                heads * cell, turns, step * heads * cell,
                                grid.token_ranks * step * page.kv_heads * cell});
    } else if (grid.token_ranks == 1) {  // whole heads lie together
      mapping.runs.push_back(
          {local, canonical + first_head * tokens * cell, heads * tokens * cell, 1, 0, 0});
    } else {  // in each head, this rank's tokens
      for (std::uint64_t h = 0; h < heads; ++h)
        mapping.runs.push_back({local + h * tokens * cell,
                                canonical + ((first_head + h) * all_tokens + first_token) * cell,
                                step * cell, turns, step * cell, grid.token_ranks * step * cell});
    }
  }
  if (const auto why = wrong_in_mapping(mapping, sections * local_half))
    return {OffloadErrc::invalid_config, "attention page: " + *why};
  return mapping;
}

Expected<PageMapping> map_sharded_heads(const AttentionPage& page, std::uint32_t rank,
                                        std::uint32_t world_size) {
  // No token is dealt out, so any interleave is the same; the whole block makes one run of it.
  return map_attention_page(page, {world_size, rank, 1, 0, 1});
}

Expected<PageMapping> map_interleaved_tokens(const AttentionPage& page, std::uint32_t rank,
                                             std::uint32_t ranks, std::uint32_t interleave) {
  return map_attention_page(page, {1, 0, ranks, rank, interleave});
}

Expected<PageMapping> map_replicated_page(std::uint64_t page_bytes, std::uint32_t rank,
                                          std::uint32_t world_size) {
  if (page_bytes == 0 || page_bytes > kBytesMax)
    return refuse("page_bytes", page_bytes, up_to(kBytesMax));
  if (auto bad = wrong_rank("rank", rank, world_size)) return *std::move(bad);
  return PageMapping{page_bytes, {{0, 0, page_bytes, 1, 0, 0}}, world_size, rank, true};
}

Expected<PageMapping> map_opaque_page(std::uint64_t page_bytes, std::uint32_t rank,
                                      std::uint32_t world_size) {
  if (page_bytes == 0 || page_bytes > kBytesMax / kRanksMax)
    return refuse("page_bytes", page_bytes, up_to(kBytesMax / kRanksMax));
  if (auto bad = wrong_rank("rank", rank, world_size)) return *std::move(bad);
  return PageMapping{
      page_bytes * world_size, {{0, rank * page_bytes, page_bytes, 1, 0, 0}}, 1, 0, false};
}

}  // namespace kv_offload
