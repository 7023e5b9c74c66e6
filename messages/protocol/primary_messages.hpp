#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/messages/transfer_job.hpp"

namespace kv_offload {

/// Names one open call inside its scheduler_step; comes back with every answer.
using OpId = std::uint64_t;
/// Indices into the shared key list of a call.
using KeyIdxList = std::vector<std::uint32_t>;

// -- scheduler_step → primary_tier and back ---------------------------------------------------------

/// Messages that name keys by `key_idx` say in it which of `keys` they are about; where it may be empty, that means all.
/// With several domains each home gets the message with its own keys, and the answers become one (PrimaryHomes).

/// Which of the call's keys are here? With `hold`, hits are held for the request. With `join`, keys
/// being written are joined: their end comes as KeysResolved, and if they arrive they are held.
/// `stop_at_miss`: nothing behind the first miss can matter to the call.
struct PrimaryProbe {
  static constexpr std::string_view kName = "PrimaryProbe";
  OpId op = 0;
  RequestHandle request;
  SharedKeys keys;
  bool hold = false;
  bool join = false;
  bool stop_at_miss = false;
  std::uint32_t from = 0;  ///< keys before it are not asked about: the device has them
  bool watch = false;      ///< tell LookupChanged when the answer would be another one
  bool prefix = false;     ///< with `watch`: keys behind the first miss do not matter
  KeyIdxList key_idx = {};  ///< empty: all from `from` on
};
struct PrimaryProbed {
  static constexpr std::string_view kName = "PrimaryProbed";
  OpId op = 0;
  std::vector<LookupResult>
      states;  ///< co-indexed with the keys asked about: hit, hit_pending or miss; shorter with stop_at_miss
  std::uint32_t unheld = 0;
  Duration handler_time{};
  bool watched = false;  ///< LookupChanged will come, once, if anything changes
};
/// What the probe `op` of the request was told is no longer so: a key came, is on its way, or lost its hold. Sent
/// before anything else that tells of the change.
struct LookupChanged {
  static constexpr std::string_view kName = "LookupChanged";
  RequestHandle request;
  OpId op = 0;
};

/// Announces the wish to load `key_idx` from tiers, before admission: from here on others join.
struct PrimaryClaim {
  static constexpr std::string_view kName = "PrimaryClaim";
  OpId op = 0;
  RequestHandle request;
  SharedKeys keys;
  KeyIdxList key_idx;
  bool hold = false;
  bool join = false;
};
enum class ClaimState : std::uint8_t {
  claimed,  ///< this call loads the key
  joined,   ///< somebody else is loading or storing it
  present,  ///< it has arrived meanwhile (and is held, if the share allows)
};
struct PrimaryClaimed {
  static constexpr std::string_view kName = "PrimaryClaimed";
  OpId op = 0;
  std::vector<ClaimState> states;  ///< co-indexed with key_idx
};

/// Reserves slots for the longest prefix of `admitted` that fits; ends the claims of `dropped`.
struct PrimaryGrant {
  static constexpr std::string_view kName = "PrimaryGrant";
  OpId op = 0;
  RequestHandle request;
  SharedKeys keys;
  KeyIdxList admitted;
  KeyIdxList dropped;
  bool hold = false;
  bool join = false;
  MonotonicTime deadline;  ///< of the whole call; with `join`, when waiting for slots ends at the latest
  Duration patience{};     ///< with `join`: after this long in line it takes what there is
  std::int32_t priority = 0;  ///< of its request; higher ones stand further in front
};
enum class GrantState : std::uint8_t { granted, joined, present, no_space };
struct PrimaryGranted {
  static constexpr std::string_view kName = "PrimaryGranted";
  OpId op = 0;
  std::vector<GrantState> states;    ///< co-indexed with `admitted`
  std::vector<ChunkId> chunk_ids;    ///< co-indexed; kNoChunk unless granted
  std::vector<std::uint32_t> generations;
  bool waits = false;  ///< nothing yet: the call is in line for slots, and the real answer follows
};

/// Ends the request's holds on these keys (they lie beyond what the call could use).
struct ReleaseHolds {
  static constexpr std::string_view kName = "ReleaseHolds";
  RequestHandle request;
  SharedKeys keys;
  KeyIdxList key_idx;
};

struct ReserveStore {
  static constexpr std::string_view kName = "ReserveStore";
  OpId op = 0;
  RequestHandle request;
  SharedKeys keys;
  KeyIdxList key_idx = {};  ///< empty: all
};
struct StoreReserved {
  static constexpr std::string_view kName = "StoreReserved";
  OpId op = 0;
  bool ok = false;
  KeyIdxList key_idx;
  std::vector<ChunkId> chunk_ids;
  std::vector<std::uint32_t> generations;
  std::uint32_t evicted = 0;
};

/// Pins what is ready of `key_idx`, once each, and with `join` announces the end of what is being written
/// as KeysResolved. For cascades of chunks that are there already; nobody's holds change.
struct PinPresent {
  static constexpr std::string_view kName = "PinPresent";
  OpId op = 0;
  SharedKeys keys;
  KeyIdxList key_idx;
  bool join = false;
};
struct PresentPinned {
  static constexpr std::string_view kName = "PresentPinned";
  OpId op = 0;
  KeyIdxList pinned;
  std::vector<ChunkId> chunk_ids;          ///< co-indexed with pinned
  std::vector<std::uint32_t> generations;  ///< co-indexed with pinned
  KeyIdxList writing;                      ///< joined, if asked for
  KeyIdxList absent;
};

/// Ends a store lease. `hold`: keep one pin per published chunk until PinCascades.
struct PublishStore {
  static constexpr std::string_view kName = "PublishStore";
  OpId op = 0;
  std::vector<ChunkId> chunk_ids;
  std::vector<std::uint32_t> generations;
  bool success = true;
  bool hold = false;
  Epoch epoch = 0;
};
struct StorePublished {
  static constexpr std::string_view kName = "StorePublished";
  OpId op = 0;
  std::uint32_t published = 0;  ///< 0 after a failed store or a reset in between
  KeyIdxList forgotten;         ///< positions in chunk_ids that were forgotten while being written
};
/// The publication hold becomes `pins_per_chunk` pins (0: it is dropped).
struct PinCascades {
  static constexpr std::string_view kName = "PinCascades";
  std::vector<ChunkId> chunk_ids;
  std::uint32_t pins_per_chunk = 0;
  Epoch epoch = 0;
};

struct PinLeading {
  static constexpr std::string_view kName = "PinLeading";
  OpId op = 0;
  RequestHandle request;
  SharedKeys keys;
  KeyIdxList key_idx = {};  ///< empty: all
};
struct LeadingPinned {
  static constexpr std::string_view kName = "LeadingPinned";
  OpId op = 0;
  std::vector<ChunkId> chunk_ids;
};
struct Unpin {
  static constexpr std::string_view kName = "Unpin";
  std::vector<ChunkId> chunk_ids;
  Epoch epoch = 0;
};
struct TouchKeys {
  static constexpr std::string_view kName = "TouchKeys";
  SharedKeys keys;
  KeyIdxList key_idx;  ///< empty: all
};
/// Drops every hold and wait of the request.
struct EndRequest {
  static constexpr std::string_view kName = "EndRequest";
  RequestHandle request;
};

/// Why a joined key did not arrive.
enum class ResolveFailure : std::uint8_t {
  none, tier_failed, refused, no_space, store_failed, forgotten,
  unclaimed,  ///< whoever was to load it ended before it had a slot: the next may
};
/// Ends claims that no PrimaryGrant will come for. Unanswered.
struct EndClaims {
  static constexpr std::string_view kName = "EndClaims";
  SharedKeys keys;
  KeyIdxList key_idx;
  ResolveFailure failure = ResolveFailure::unclaimed;  ///< what those hear who joined them
};

/// Primary → scheduler_step: keys that open calls waited for.
struct KeysResolved {
  static constexpr std::string_view kName = "KeysResolved";
  struct Entry {
    OpId op = 0;
    std::uint32_t key_idx = 0;
    ResolveFailure failure = ResolveFailure::none;
    TierIndex tier = 0;  ///< that failed
  };
  std::vector<Entry> entries;
};

/// `busy_chunks`: slots that unfinished jobs may still touch; they are quarantined and skipped.
struct ResetPrimary {
  static constexpr std::string_view kName = "ResetPrimary";
  OpId op = 0;
  Epoch epoch = 0;
  std::vector<ChunkId> busy_chunks;
};
struct PrimaryReset {
  static constexpr std::string_view kName = "PrimaryReset";
  OpId op = 0;
};

// -- job_tracker → primary_tier ----------------------------------------------------------------------

/// One job's Outcome, its Quiesced, or both at once.
struct TransferEnd {
  JobId job;
  TierIndex tier = 0;
  bool is_promotion = false;
  bool outcome = false;
  bool quiesced = false;
  bool abandoned = false;  ///< never quiesced: slots stay quarantined until the engine ends
  Epoch epoch = 0;
  std::vector<ChunkId> chunk_ids;
  std::vector<KeyFate> fates;  ///< with outcome; co-indexed; empty: all failed
  bool never_began =
      false;  ///< slots granted and given back: whoever waits for their keys may load them
};
struct TransfersEnded {
  static constexpr std::string_view kName = "TransfersEnded";
  std::vector<TransferEnd> ends;
};

}  // namespace kv_offload
