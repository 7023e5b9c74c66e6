#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kv_offload/messages/protocol/primary_messages.hpp"

namespace kv_offload {

/// scheduler_step → secondary_tier: one window of keys.
struct TierProbe {
  static constexpr std::string_view kName = "TierProbe";
  OpId op = 0;
  std::uint32_t round = 0;  ///< of the call; a late answer of an earlier round is ignored
  SharedKeys keys;
  KeyIdxList key_idx;
};
enum class TierVerdict : std::uint8_t { miss, hit, retry, probes_full, tier_down };
struct TierProbed {
  static constexpr std::string_view kName = "TierProbed";
  OpId op = 0;
  std::uint32_t round = 0;
  TierIndex tier = 0;
  std::vector<TierVerdict> verdicts;  ///< co-indexed with key_idx
  Duration handler_time{};            ///< spent in the actor
  Duration probe_time{};              ///< from the probe's arrival to the verdict
};
/// lane → its secondary_tier: answer of one probe.
struct LaneProbed {
  static constexpr std::string_view kName = "LaneProbed";
  std::uint64_t probe = 0;
  std::vector<LookupResult> verdicts;
};
struct LaneDied {
  static constexpr std::string_view kName = "LaneDied";
  std::string why;
};
struct ChangeRevision {
  static constexpr std::string_view kName = "ChangeRevision";
  OpId op = 0;
  std::string revision;
};
struct RevisionChanged {
  static constexpr std::string_view kName = "RevisionChanged";
  OpId op = 0;
  TierIndex tier = 0;
  std::string error;  ///< empty: done
};

}  // namespace kv_offload
