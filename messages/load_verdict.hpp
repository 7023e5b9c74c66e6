#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kv_offload {

/// What the claim of a slow tier on one request turned out to be worth. Each request gives one
/// verdict per tier that claimed something; a lookup that missed gives none, because a new prefix
/// says nothing about whether storing pays.
enum class LoadVerdict : std::uint8_t {
  hbm_satisfies_after_alloc,  ///< the device holds as much as the tier claims, after allocation
  unaligned_hbm_prefill,      ///< the device's prefix ends inside a chunk
  too_small,                  ///< what the tier adds is below the load floor
  aligned_large_hit,          ///< the tier paid off
  nothing_needed,             ///< the device held it all already when the lookup was answered
  lookup_skipped,             ///< never asked, because no answer could have cleared the load floor
};
inline constexpr std::size_t kNumLoadVerdicts = 6;

constexpr std::string_view to_string(LoadVerdict v) {
  constexpr std::array<std::string_view, kNumLoadVerdicts> kNames = {
      "hbm_satisfies_after_alloc", "unaligned_hbm_prefill", "too_small",
      "aligned_large_hit",         "nothing_needed",        "lookup_skipped"};
  const auto i = static_cast<std::size_t>(v);
  return i < kNames.size() ? kNames[i] : "unknown";
}
constexpr bool is_paid(LoadVerdict v) { return v == LoadVerdict::aligned_large_hit; }

/// Verdicts by name. As a total it is cumulative since its sender began; as a tally it is the
/// difference of two totals.
struct VerdictCounts {
  std::array<std::uint64_t, kNumLoadVerdicts> by_verdict{};

  void add(LoadVerdict v, std::uint64_t n = 1) { by_verdict[static_cast<std::size_t>(v)] += n; }
  [[nodiscard]] std::uint64_t of(LoadVerdict v) const {
    return by_verdict[static_cast<std::size_t>(v)];
  }
  [[nodiscard]] std::uint64_t samples() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : by_verdict) sum += n;
    return sum;
  }
  [[nodiscard]] std::uint64_t paid() const { return of(LoadVerdict::aligned_large_hit); }
  friend bool operator==(const VerdictCounts&, const VerdictCounts&) = default;
};

/// The chunk boundary at or below, and at or above. `chunk_tokens` at least 1.
constexpr std::uint64_t chunk_floor(std::uint64_t tokens, std::uint64_t chunk_tokens) {
  return tokens - tokens % chunk_tokens;
}
constexpr std::uint64_t chunk_ceil(std::uint64_t tokens, std::uint64_t chunk_tokens) {
  const std::uint64_t over = tokens % chunk_tokens;
  return over == 0 ? tokens : tokens + (chunk_tokens - over);
}

/// Tokens that a tier which claims the first `claimed` ones could load beyond the device's prefix:
/// whole chunks, so they count from the chunk boundary at or above it.
constexpr std::uint64_t loadable_tokens(std::uint64_t claimed, std::uint64_t on_device,
                                        std::uint64_t chunk_tokens) {
  const std::uint64_t from = chunk_ceil(on_device, chunk_tokens);
  return claimed > from ? claimed - from : 0;
}

/// Most tokens that any answer of a tier could load: the prompt's last token is always computed.
constexpr std::uint64_t load_bound(std::uint64_t prompt_tokens, std::uint64_t on_device) {
  return prompt_tokens > on_device ? prompt_tokens - on_device - 1 : 0;
}

/// The tokens behind one verdict.
struct LoadClaim {
  std::uint64_t claimed = 0;    ///< leading tokens of the prompt that the tier's answer reached to
  std::uint64_t on_device = 0;  ///< leading tokens on the device after allocation
};

/// The verdict, in the order in which the reasons are decided. `chunk_tokens` at least 1.
constexpr LoadVerdict judge_load(const LoadClaim& claim, std::uint64_t chunk_tokens,
                                 std::uint64_t min_load_tokens) {
  if (claim.claimed <= claim.on_device) return LoadVerdict::hbm_satisfies_after_alloc;
  if (claim.on_device % chunk_tokens != 0) return LoadVerdict::unaligned_hbm_prefill;
  if (loadable_tokens(claim.claimed, claim.on_device, chunk_tokens) < min_load_tokens)
    return LoadVerdict::too_small;
  return LoadVerdict::aligned_large_hit;
}

}  // namespace kv_offload
