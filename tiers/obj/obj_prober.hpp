#pragma once

#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/tiers/obj/obj_core.hpp"
#include "kv_offload/tiers/obj/obj_keeper.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace kv_offload {

/// Answers which keys are in the store: from what was seen lately, from the manifest, and by HEAD requests, many at
/// once, one per key. Lane thread.
class ObjProber {
 public:
  ObjProber(ObjCore& core, ObjKeeper& keeper) : core_(core), keeper_(keeper) {}

  /// Room for another probe: the queue in front is the bound.
  [[nodiscard]] bool has_room() const { return waiting_.size() < core_.config.max_probes; }
  void take(LaneInbox::Probe probe);
  /// Sends what may be sent.
  void pump();
  [[nodiscard]] bool is_idle() const { return open_.empty(); }
  /// Everything unanswered is unknown, from now on.
  void give_up();
  /// Whether an answer makes the key's object one that a load can use.
  LookupResult verdict_of(const OffloadKey& key, const S3Reply& reply);

 private:
  struct Open {
    KeyList keys;
    std::vector<LookupResult> verdicts;
    std::size_t left = 0;
  };
  using Place = std::pair<ProbeId, std::size_t>;
  struct Asked {
    std::vector<Place> places;  // who wants to know
    S3Client::CallId call = 0;  // 0: not sent yet
  };

  [[nodiscard]] std::optional<bool> known(const OffloadKey& key);
  void answer(const OffloadKey& key, LookupResult verdict);
  void answered(std::map<ProbeId, Open>::iterator open);

  ObjCore& core_;
  ObjKeeper& keeper_;
  std::map<ProbeId, Open> open_;                     // bounded by the inbox and has_room
  absl::flat_hash_map<OffloadKey, Asked> asked_;     // keys of open_
  std::deque<OffloadKey> waiting_;
  std::size_t in_flight_ = 0;
};

}  // namespace kv_offload
