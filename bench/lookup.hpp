#pragma once

#include "kv_offload/bench/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

struct LookupBenchOptions {
  std::vector<std::uint64_t> keys = {10'000, 100'000,
                                     1'000'000};      ///< resident, of the facade's runs
  std::vector<std::uint32_t> batches = {1, 64, 512};  ///< keys of one lookup
  std::vector<std::uint32_t> threads = {1, 2, 4};     ///< callers
  std::vector<std::uint64_t> index_keys = {10'000, 1'000'000, 10'000'000};
  double seconds = 1;        ///< of each run
  std::uint32_t rounds = 3;  ///< medians of so many
  bool hold = true;          ///< lookups hold what they find, as serving processes do
  std::uint64_t seed = 1;
  std::optional<std::string> eviction;
  std::optional<std::string> markdown_file;
  OutputOptions output;
};

/// `lookup`: what asking for keys that are there costs: the index alone, a round trip between two threads
/// (the floor of any call), and the facade, by callers, batch and number of keys. Answers are checked.
/// @return 0; 1 if an answer was wrong or a call failed; 2 with one line on `err`
int run_lookup(const LookupBenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
