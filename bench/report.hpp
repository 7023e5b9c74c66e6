#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/latency.hpp"
#include "kv_offload/messages/engine_stats.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

using Json = nlohmann::ordered_json;

/// What a run found and moved in one tier, as every report shows it.
struct TierReport {
  std::string label;
  std::uint64_t hit_chunks = 0;                        ///< leading chunks found there
  std::uint64_t read_bytes = 0, written_bytes = 0;     ///< primary: to and from the device
  std::uint64_t refused = 0, dropped = 0, failed = 0;  ///< chunks, cascades and promotions
  std::uint64_t joined = 0;  ///< promotions that another request's load served
  std::uint64_t stored = 0, already_present = 0, loaded = 0;
  std::uint64_t corrupt = 0;  ///< failed verification
  bool disabled = false;
  Json reasons = Json::object();  ///< refused, dropped and failed by reason, where not zero
};

/// One per tier, [0] the primary; `hit_chunks` co-indexed.
std::vector<TierReport> tier_reports(const EngineStats& stats,
                                     const std::vector<std::uint64_t>& hit_chunks);

/// `version`, `machine`, `wall_seconds`: what every subcommand's document starts with.
Json document_head(double wall_seconds);
Json to_json(const std::vector<TierReport>& tiers);
Json to_json(const std::vector<PromiseCheck>& promises);
Json to_json(const LatencyRecorder& latency);
Json actors_json(const EngineStats& stats);

void print_tiers(std::ostream& out, const std::vector<TierReport>& tiers,
                 std::uint64_t chunk_references, double wall_seconds);
/// One line per promise, "held" or "BROKEN" and why.
void print_promises(std::ostream& out, const std::vector<PromiseCheck>& promises);
bool all_held(const std::vector<PromiseCheck>& promises);
/// "16 KiB chunks, primary 9,140 chunks (143 MiB, lru), 1:fs"
std::string describe(const EngineConfig& config);

std::uint64_t peak_rss_bytes();
std::string version();

/// Early, so that an hour's run does not end at a path that cannot be written.
/// @param option  that named the file
std::optional<std::string> check_writable(const std::optional<std::string>& file,
                                          const std::string& option = "--json");
/// Error text if it cannot be written.
std::optional<std::string> write_json(const std::optional<std::string>& file, const Json& document);

}  // namespace kv_offload::bench
