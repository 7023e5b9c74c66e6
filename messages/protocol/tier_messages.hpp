#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kv_offload/messages/protocol/primary_messages.hpp"
#include "kv_offload/messages/request.hpp"

namespace kv_offload {

/// scheduler_step → secondary_tier: one window of keys.
struct TierProbe {
  static constexpr std::string_view kName = "TierProbe";
  OpId op = 0;
  std::uint32_t round = 0;  ///< of the call; a late answer of an earlier round is ignored
  SharedKeys keys;
  KeyIdxList key_idx;
  /// Answer at once from memory; what is not known there is probed meanwhile and answers `pending`. The
  /// verdicts are kept until this request is closed.
  bool polled = false;
  RequestHandle request;
};
/// `retry`: the tier could not tell; `pending`: it will.
enum class TierVerdict : std::uint8_t { miss, hit, retry, pending, probes_full, tier_down };
struct TierProbed {
  static constexpr std::string_view kName = "TierProbed";
  OpId op = 0;
  std::uint32_t round = 0;
  TierIndex tier = 0;
  std::vector<TierVerdict> verdicts;  ///< co-indexed with key_idx
  Duration handler_time{};            ///< spent in the actor
  Duration probe_time{};              ///< from the probe's arrival to the verdict; zero: from memory
  std::vector<Duration> probe_times;  ///< polled: per key, zero where no probe was needed
  bool may_change = false;  ///< polled: a miss is of the tier's own memory, and may turn without the engine's doing
};
/// scheduler_step → secondary_tier, for tiers that ask for it: a request begins …
struct OpenRequest {
  static constexpr std::string_view kName = "OpenRequest";
  OpId op = 0;
  SharedRequest request;
};
struct RequestOpened {
  static constexpr std::string_view kName = "RequestOpened";
  OpId op = 0;
  TierIndex tier = 0;
  OffloadPolicy policy = OffloadPolicy::chunk_level;
};
/// … and has ended: all its stores are submitted. Also drops the verdicts kept for it.
struct CloseRequest {
  static constexpr std::string_view kName = "CloseRequest";
  SharedRequest request;
};
/// lane → its secondary_tier: answer of one probe.
struct LaneProbed {
  static constexpr std::string_view kName = "LaneProbed";
  std::uint64_t probe = 0;
  std::vector<LookupResult> verdicts;
};
/// lane → its secondary_tier: answer of one forget.
struct LaneForgot {
  static constexpr std::string_view kName = "LaneForgot";
  std::uint64_t forget = 0;
  std::uint64_t chunks = 0;
  std::string error;
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
