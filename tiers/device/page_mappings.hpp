#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/kv_layout.hpp"

#include <cstdint>

namespace kv_offload {

/// Which of its two dimensions an attention page is ordered by.
enum class PageOrder : std::uint8_t {
  nhd,  ///< token after token, in each its heads
  hnd,  ///< head after head, in each its tokens
};

/// The page of one block of an attention layer, as one rank has it.
struct AttentionPage {
  std::uint32_t tokens = 0;    ///< of a block, on one rank
  std::uint32_t kv_heads = 0;  ///< of the model, all ranks together; 1 for a latent
  /// Of one token in one head. Packed: K and V together. Split: K alone, and V is as large.
  std::uint64_t head_bytes = 0;
  PageOrder order = PageOrder::nhd;
  /// The page is a half with all of K and a half with all of V. False: packed, K and V of a head
  /// side by side.
  bool split_halves = false;
};

/// A rank among those that share the heads (tensor parallel) and those that share the tokens
/// (context parallel).
struct RankGrid {
  std::uint32_t head_ranks = 1, head_rank = 0;
  std::uint32_t token_ranks = 1, token_rank = 0;
  /// Tokens that stay together when they are dealt to the token ranks in turn: token t of a
  /// canonical page is on rank (t ÷ interleave) mod token_ranks.
  std::uint32_t interleave = 1;
};

/// The general case. The canonical page holds all heads of tokens × token_ranks tokens in the order
/// of the rank's own. With fewer heads than head_ranks each head is on head_ranks ÷ kv_heads ranks
/// beside each other, which take turns in writing it. Errors (all names: field, value, what is
/// allowed): heads that do not divide among the ranks or ranks among the heads, tokens that do not
/// divide by the interleave, a rank out of range, zeros.
KV_OFFLOAD_EXPORT Expected<PageMapping> map_attention_page(const AttentionPage& page, const RankGrid& grid);

/// Tensor parallel: the heads are dealt to `world_size` ranks.
KV_OFFLOAD_EXPORT Expected<PageMapping> map_sharded_heads(const AttentionPage& page, std::uint32_t rank,
                                        std::uint32_t world_size);

/// Decode or prefill context parallel: the tokens are dealt to `ranks` ranks, `interleave` at a
/// time; each has all heads of its own.
KV_OFFLOAD_EXPORT Expected<PageMapping> map_interleaved_tokens(const AttentionPage& page, std::uint32_t rank,
                                             std::uint32_t ranks, std::uint32_t interleave);

/// The same bytes on every rank (the latent of MLA): they take turns in writing whole pages.
KV_OFFLOAD_EXPORT Expected<PageMapping> map_replicated_page(std::uint64_t page_bytes, std::uint32_t rank,
                                          std::uint32_t world_size);

/// Bytes that nobody else understands (the state of a mixer, a quantised page with scales of the
/// rank): kept whole, rank behind rank. Not portable.
KV_OFFLOAD_EXPORT Expected<PageMapping> map_opaque_page(std::uint64_t page_bytes, std::uint32_t rank,
                                      std::uint32_t world_size);

}  // namespace kv_offload
