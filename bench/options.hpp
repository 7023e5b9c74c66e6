#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// What every subcommand that runs an engine lets its user choose about it.
struct EngineOptions {
  std::optional<std::string> config_file;
  std::vector<std::string> tiers;  ///< types of secondary tiers, appended to the configured ones
  std::optional<std::string> dir;  ///< unset: a temporary directory, removed at the end
  std::optional<std::uint64_t> primary_chunks;
  std::optional<std::uint64_t> chunk_bytes;
  std::optional<std::string> eviction;
  std::optional<std::string> admission;  ///< type of the admission policy, with its defaults
  std::optional<int> metrics_port;
};

struct OutputOptions {
  std::optional<std::string> json_file;
  bool quiet = false;  ///< neither table nor progress line
};

/// Exit statuses of the program.
enum ExitStatus : int { kHeld = 0, kCheckFailed = 1, kUsageError = 2 };

}  // namespace kv_offload::bench
