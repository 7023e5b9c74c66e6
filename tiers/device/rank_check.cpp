// check_ranks: do the workers of one engine fit together? What they said of themselves came over a
// socket, so nothing of it is believed before it was looked at.
#include "kv_offload/tiers/device/page_runs.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace kv_offload {
namespace {

/// Turns after which writers repeat. Real ones are at most world_size; more is a mistake.
constexpr std::uint64_t kTurnsMax = 1U << 12;
/// Fragments of all ranks, times turns: what checking one layer may take (a second or so).
constexpr std::uint64_t kStepsMax = std::uint64_t{1} << 28;

using Ref = RankLayout::Ref;

OffloadError refuse(std::string text) { return {OffloadErrc::invalid_config, std::move(text)}; }

std::string layer_text(const Ref& ref) {
  return "layer \"" + ref.layer + "\" (group " + std::to_string(ref.group) + ", tensor " +
         std::to_string(ref.tensor) + ')';
}
std::string rank_text(std::uint32_t rank) { return "rank " + std::to_string(rank); }

/// A piece of the canonical page and who writes it when.
struct Share {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t rank = 0, num_writers = 1, writer = 0;
};

/// Every byte of the page by exactly one rank, whoever's turn it is.
std::optional<OffloadError> wrong_tiling(const Ref& ref, std::uint64_t page_bytes,
                                         std::vector<Share> shares) {
  std::uint64_t turns = 1;
  for (const Share& share : shares) {
    turns = std::lcm(turns, std::uint64_t{share.num_writers});
    if (turns > kTurnsMax || turns * shares.size() > kStepsMax)
      return refuse(layer_text(ref) + ": writers that repeat after " + std::to_string(turns) +
                    " blocks are not allowed; expected the same num_writers on ranks that hold the "
                    "same bytes");
  }
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.begin < b.begin; });
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    const std::string when = turns == 1 ? ""
                                        : " of blocks whose number is " + std::to_string(turn) +
                                              " mod " + std::to_string(turns);
    std::uint64_t at = 0;
    const Share* last = nullptr;
    for (const Share& share : shares) {
      if (turn % share.num_writers != share.writer) continue;
      if (share.begin > at)
        return refuse(layer_text(ref) + ": bytes " + std::to_string(at) + " to " +
                      std::to_string(share.begin) + " of the canonical page" + when +
                      " are written by no rank; before " + rank_text(share.rank));
      if (share.begin < at)
        return refuse(layer_text(ref) + ": bytes " + std::to_string(share.begin) + " to " +
                      std::to_string(std::min(at, share.end)) + " of the canonical page" + when +
                      " are written by rank " + std::to_string(last->rank) + " and by rank " +
                      std::to_string(share.rank) + "; expected each byte once");
      at = share.end;
      last = &share;
    }
    if (at != page_bytes)
      return refuse(layer_text(ref) + ": bytes " + std::to_string(at) + " to " +
                    std::to_string(page_bytes) + " of the canonical page" + when +
                    " are written by no rank");
  }
  return std::nullopt;
}

std::optional<OffloadError> wrong_set(const std::vector<RankLayout>& ranks) {
  if (ranks.empty()) return refuse("ranks: none has registered; expected all of them");
  const RankLayout& first = ranks.front();
  if (ranks.size() != first.place.world_size)
    return refuse("ranks: " + std::to_string(ranks.size()) +
                  " registered; expected world_size, which is " +
                  std::to_string(first.place.world_size));
  std::vector<bool> seen(ranks.size());
  for (const RankLayout& rank : ranks) {
    const std::string who = rank_text(rank.place.rank);
    const auto differs = [&](const std::string& field, const auto& value, const auto& other) {
      return refuse(who + ": " + field + " " + value + " is not allowed; expected " + other +
                    ", what " + rank_text(first.place.rank) + " says");
    };
    const auto text = [](std::uint64_t number) { return std::to_string(number); };
    if (rank.place.world_size != first.place.world_size)
      return differs("world_size", text(rank.place.world_size), text(first.place.world_size));
    if (rank.place.blocks_per_chunk != first.place.blocks_per_chunk)
      return differs("blocks_per_chunk", text(rank.place.blocks_per_chunk),
                     text(first.place.blocks_per_chunk));
    if (rank.place.layout != first.place.layout)
      return differs("layout", std::string(to_string(rank.place.layout)),
                     std::string(to_string(first.place.layout)));
    if (rank.chunk_bytes != first.chunk_bytes)
      return differs("chunk_bytes", text(rank.chunk_bytes), text(first.chunk_bytes));
    if (rank.place.rank >= seen.size())
      return refuse(who + " is not allowed; expected 0 to " + text(seen.size() - 1));
    if (seen[rank.place.rank]) return refuse(who + ": registered twice; expected each rank once");
    seen[rank.place.rank] = true;
    if (rank.page_bytes.size() != first.page_bytes.size())
      return differs("number of tensors", text(rank.page_bytes.size()),
                     text(first.page_bytes.size()));
    for (std::size_t t = 0; t < rank.page_bytes.size(); ++t)
      if (rank.page_bytes[t] != first.page_bytes[t])
        return differs("page_bytes of tensor " + text(t), text(rank.page_bytes[t]),
                       text(first.page_bytes[t]));
  }
  return std::nullopt;
}

/// Where all ranks work on one page they must mean the same layer by the same place.
std::optional<OffloadError> wrong_layers(const std::vector<RankLayout>& ranks) {
  using Place = std::pair<std::uint32_t, std::uint32_t>;  // group, tensor
  std::map<Place, const Ref*> expected;
  for (const Ref& ref : ranks.front().refs)
    if (!expected.emplace(Place{ref.group, ref.tensor}, &ref).second)
      return refuse(rank_text(ranks.front().place.rank) + ": " + layer_text(ref) +
                    " is there twice; expected once");
  const bool canonical = ranks.front().place.layout == ChunkLayout::canonical;
  std::map<Place, std::vector<Share>> shares;
  for (const RankLayout& rank : ranks) {
    if (rank.refs.size() != expected.size())
      return refuse(rank_text(rank.place.rank) + ": " + std::to_string(rank.refs.size()) +
                    " layers are not allowed; expected " + std::to_string(expected.size()) +
                    ", what " + rank_text(ranks.front().place.rank) + " says");
    std::map<Place, const Ref*> own;
    for (const Ref& ref : rank.refs) {
      const std::string who = rank_text(rank.place.rank) + ": " + layer_text(ref);
      const auto same = expected.find({ref.group, ref.tensor});
      if (same == expected.end())
        return refuse(who + " is unknown to " + rank_text(ranks.front().place.rank) +
                      "; expected the same layers on all ranks");
      if (!own.emplace(Place{ref.group, ref.tensor}, &ref).second)
        return refuse(who + " is there twice");
      if (ref.layer != same->second->layer)
        return refuse(who + ": " + rank_text(ranks.front().place.rank) + " has layer \"" +
                      same->second->layer +
                      "\" in its place; expected the same layers in the same order on all ranks");
      if (!canonical) {
        if (ref.page_bytes != same->second->page_bytes)
          return refuse(who + ": page_bytes " + std::to_string(ref.page_bytes) +
                        " is not allowed; expected " + std::to_string(same->second->page_bytes) +
                        ": replicated ranks hold the same bytes");
        continue;
      }
      if (!ref.mapping) return refuse(who + ": has no mapping; the canonical layout needs one");
      if (const auto why = wrong_in_mapping(*ref.mapping, ref.page_bytes))
        return refuse(who + ": mapping: " + *why);
      const std::uint64_t page = ref.mapping->canonical_page_bytes;
      if (same->second->mapping && same->second->mapping->canonical_page_bytes != page)
        return refuse(who + ": canonical_page_bytes " + std::to_string(page) +
                      " is not allowed; expected " +
                      std::to_string(same->second->mapping->canonical_page_bytes) + ", what " +
                      rank_text(ranks.front().place.rank) + " says");
      if (ref.tensor >= rank.page_bytes.size() || page > rank.page_bytes[ref.tensor])
        return refuse(who + ": canonical_page_bytes " + std::to_string(page) +
                      " is more than the tensor's page in the row");
      for (const PageFragment& f : unroll_runs(*ref.mapping))
        shares[{ref.group, ref.tensor}].push_back({f.row_offset, f.row_offset + f.bytes,
                                                   rank.place.rank, ref.mapping->num_writers,
                                                   ref.mapping->writer});
    }
  }
  for (auto& [place, pieces] : shares) {
    const Ref& ref = *expected.at(place);
    if (auto wrong = wrong_tiling(ref, ref.mapping->canonical_page_bytes, std::move(pieces)))
      return wrong;
  }
  return std::nullopt;
}

}  // namespace

Expected<Ok> check_ranks(const std::vector<RankLayout>& ranks) {
  if (auto wrong = wrong_set(ranks)) return *std::move(wrong);
  // Sharded ranks have a slot each: pipeline stages hold other layers in pages of the same size.
  if (ranks.front().place.layout == ChunkLayout::sharded) return Ok{};
  if (auto wrong = wrong_layers(ranks)) return *std::move(wrong);
  return Ok{};
}

}  // namespace kv_offload
