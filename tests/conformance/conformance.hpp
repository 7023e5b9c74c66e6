#pragma once

#include "kv_offload/tests/support/virtual_engine.hpp"

#include <string>
#include <vector>

namespace kv_offload::test {

/// An engine as the public reference behaves: nothing is held between a lookup and its load, landed
/// promotions are evictable at once, and device stores have no headroom.
inline VirtualEngine::Options reference_options(std::size_t tiers = 1, std::uint32_t chunks = 16) {
  VirtualEngine::Options options;
  options.chunks = chunks;
  options.tiers = tiers;
  options.pin_share = 1.0;
  options.primary = PrimaryConfig{0.0, 0.0, 1.0, false, PrimaryConfig::PinUnread::never};
  return options;
}

/// The same with tiers that answer from memory, as the reference's example tier does.
inline VirtualEngine::Options memory_tiers(std::size_t tiers = 1, std::uint32_t chunks = 16) {
  auto options = reference_options(tiers, chunks);
  options.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.in_memory = true; };
  return options;
}

/// One poll of several keys; answers at once.
inline LookupAnswer poll_all(VirtualEngine& e, RequestHandle r, const KeyList& list,
                             LookupScan scan = LookupScan::prefix) {
  auto answer = e.lookup(r, list, {.scan = scan, .wait = LookupWait::polled, .hold = false}).get();
  REQUIRE(answer);
  return *answer;
}

/// H hit, P pending, R retry, . miss.
inline std::string letters(const std::vector<LookupResult>& results) {
  std::string out;
  for (const auto r : results)
    out += r == LookupResult::hit ? 'H' : r == LookupResult::hit_pending ? 'P' : r == LookupResult::retry ? 'R' : '.';
  return out;
}

}  // namespace kv_offload::test
