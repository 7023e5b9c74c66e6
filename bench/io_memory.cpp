#include "kv_offload/bench/io_memory.hpp"

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Reads every byte once with as many independent sums as keep the loads of a core busy.
std::uint64_t read_pass(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 16> sums{};
  for (std::size_t at = 0; at + sizeof sums <= bytes.size(); at += sizeof sums) {
    std::array<std::uint64_t, 16> words;
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += words[i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t s : sums) sum += s;
  return sum;
}

}  // namespace

std::vector<IoMemoryFigure> measure_io_memory(std::uint64_t chunk_bytes, std::uint64_t set_bytes,
                                              int round) {
  static std::unique_ptr<Region> region;  // touched once
  const auto chunks = static_cast<ChunkId>(set_bytes / chunk_bytes);
  if (!region || region->view().payload_bytes != chunk_bytes ||
      region->view().num_chunks != 2 * chunks) {
    RegionOptions options;
    options.num_chunks = 2 * chunks;
    options.chunk_bytes = chunk_bytes;
    auto made = Region::create(options);
    if (!made) return {};
    region = std::move(*made);
    std::memset(region->view().base, 0x5a, region->bytes());
  }
  const PrimaryView view = region->view();
  const ChunkDigester digester("kv-offload-bench");
  volatile std::uint64_t kept = 0;  // so that no pass is optimised away
  const OffloadKey key = io_key(1);
  using Pass = std::function<void(ChunkId)>;
  const std::array<std::pair<const char*, Pass>, 4> passes = {{
      {"read", [&](ChunkId c) { kept = kept + read_pass(view.payload(c)); }},
      {"digest",
       [&](ChunkId c) {
         kept =
             kept + std::to_integer<std::uint64_t>(digester.digest(key, view.payload(c)).value[0]);
       }},
      {"copy",
       [&](ChunkId c) {
         std::memcpy(view.payload(chunks + c).data(), view.payload(c).data(), chunk_bytes);
       }},
      {"copy and digest",
       [&](ChunkId c) {
         kept =
             kept +
             std::to_integer<std::uint64_t>(
                 digester.copy_and_digest(key, view.payload(c), view.payload(chunks + c)).value[0]);
       }},
  }};
  std::vector<IoMemoryFigure> figures(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const std::size_t which = (i + static_cast<std::size_t>(round)) % passes.size();
    const auto start = Clock::now();
    for (ChunkId c = 0; c < chunks; ++c) passes[which].second(c);
    const double seconds = to_seconds(Clock::now() - start);
    figures[which] = {passes[which].first, static_cast<double>(chunks * chunk_bytes) / seconds /
                                               (std::uint64_t{1} << 30)};
  }
  return figures;
}

}  // namespace kv_offload::bench
