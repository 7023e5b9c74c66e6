#pragma once

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/actors/request_holds.hpp"
#include "kv_offload/messages/atomic_groups.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/primary/primary_cache.hpp"
#include "kv_offload/tiers/primary/reuse_tracker.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <absl/container/flat_hash_map.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace kv_offload {

struct PrimaryTierDeps {
  SharedEnvironment env;
  std::shared_ptr<PrimaryCache> cache;  ///< handed over: nobody else may touch it
  PrimaryView view;
  EngineMetricsActor metrics;
  ChunkId unread_chunks_max = 0;  ///< promotions reserved or landed and not yet read
  Duration unread_ttl{};          ///< hold of an unread promotion
  bool pin_unread = true;
  std::uint32_t store_threshold = 0;
  std::uint32_t max_tracker_size = 0;
  AtomicGroups
      atomic_groups;       ///< empty with several domains: a set's chunks may have several homes
  DomainId domain = 0;     ///< whose home it is
  std::size_t slices = 1;  ///< of the cache's slots, by domain
};

/// Owns entries and slots of the keys whose home it is, who waits for a key (single flight), what is
/// held for which request, and the events. Cooperative, or detached and pinned with several domains.
///
/// A key that is absent may have a *flight*: somebody claimed it for loading, or its slot is being
/// written. Whoever asks for a key with a flight joins it; nobody loads a key twice.
class PrimaryTierState {
 public:
  static inline const char* name = "kv_offload.primary_tier";
  explicit PrimaryTierState(PrimaryTierActor::pointer self) : self_(self) {}
  PrimaryTierActor::behavior_type make_behavior(PrimaryTierDeps deps);

  ActorTotals& actor_totals() { return totals_.actor; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }
  [[nodiscard]] DomainId domain() const { return deps_.domain; }

 private:
  struct Waiter {
    SchedulerStepActor step;
    OpId op = 0;
    std::uint32_t key_idx = 0;
    RequestHandle request;
    bool hold = false;
  };
  struct Flight {
    std::vector<Waiter> waiters;
  };
  struct UnreadExpiry {
    MonotonicTime at;
    RequestHandle request;
    ChunkId chunk = 0;
    std::uint32_t generation = 0;
  };
  struct WaitingGrant {
    SchedulerStepActor step;
    PrimaryGrant grant;
    MonotonicTime gains_at;  ///< half of its patience
    MonotonicTime patience_ends;
    bool gained = false;     ///< goes before all who have not, whatever their priority
  };
  /// A request that is told when its last probe's answer has changed.
  struct Watch {
    SchedulerStepActor step;
    OpId op = 0;
    std::vector<OffloadKey> keys;  ///< that were absent or on their way; the others are held for the request
  };
  using Resolutions = std::map<caf::strong_actor_ptr, KeysResolved>;

  // one per message
  void probe(const PrimaryProbe& m);
  void claim(const PrimaryClaim& m);
  void grant(const PrimaryGrant& m);
  void release_holds(const ReleaseHolds& m);
  void reserve_store(const ReserveStore& m);
  void publish_store(const PublishStore& m);
  void pin_cascades(const PinCascades& m);
  void pin_leading(const PinLeading& m);
  void unpin(const Unpin& m);
  void touch(const TouchKeys& m);
  void end_request(const EndRequest& m);
  void end_claims(const EndClaims& m);
  void pin_present(const PinPresent& m);
  void forget(const ForgetKeys& m);
  void reset(const ResetPrimary& m);
  void take_events(const TakeEvents& m);
  void transfers_ended(const TransfersEnded& m);
  void fence(const Fence& m);
  void stop(const StopActor& m);
  void tick(const Tick& m);

  // holds
  bool hold_for(RequestHandle request, ChunkId chunk, bool unread);
  bool hold_in(RequestHolds& held, RequestHandle request, ChunkId chunk, bool unread);
  bool drop_hold(RequestHandle request, ChunkId chunk);
  void unread_hold_ended(ChunkId chunk);
  void expire_unread(MonotonicTime now);

  // grants: a lookup gets slots for its whole prefix or waits, in the order of goes_before
  static bool goes_before(const WaitingGrant& a, const WaitingGrant& b);
  void move_up(MonotonicTime now);
  [[nodiscard]] std::size_t room_for_promotions() const;
  [[nodiscard]] std::size_t slots_wanted(const PrimaryGrant& m) const;
  void answer_grant(const SchedulerStepActor& step, const PrimaryGrant& m, std::size_t room,
                    ResolveFailure failure);
  void serve_waiting_grants();
  void end_waiting_grants(const std::function<bool(const PrimaryGrant&)>& ends);

  // watches
  bool watch(const PrimaryProbe& m, const PrimaryProbed& answer, std::span<const OffloadKey> keys);
  void unwatch(RequestHandle request);
  void lookup_changed(RequestHandle request);
  void key_changed(const OffloadKey& key) {
    if (!watched_.empty()) tell_watchers(key);
  }
  void tell_watchers(const OffloadKey& key);

  // flights
  void join(const OffloadKey& key, Waiter waiter);
  void resolve_flight(const OffloadKey& key, ChunkId landed, bool promotion, ResolveFailure failure,
                      TierIndex tier, Resolutions& out);
  void tell(Resolutions& resolutions);

  /// Keys of the call that were looked up often enough; the others are counted.
  [[nodiscard]] KeyIdxList worth_storing(std::span<const OffloadKey> keys);
  /// Those of the call's keys that a message is about, one after the other; valid until the next message.
  std::span<const OffloadKey> keys_of(const KeyList& keys, const KeyIdxList& key_idx,
                                      std::size_t from = 0);
  /// The slice that lies near the request's device.
  [[nodiscard]] std::size_t near(RequestHandle request) const {
    return request.domain % deps_.slices;
  }
  bool forget_key(const OffloadKey& key, Resolutions& resolutions);

  // ends of jobs
  void promotion_outcome(const TransferEnd& end, Resolutions& resolutions);
  void promotion_quiesced(const TransferEnd& end);
  void cascade_quiesced(const TransferEnd& end);
  void stale_end(const TransferEnd& end);

  [[nodiscard]] SchedulerStepActor sender() const;
  void publish_totals();

  PrimaryTierActor::pointer self_;
  PrimaryTierDeps deps_;
  PrimaryTotals totals_;
  Epoch epoch_ = 0;
  absl::flat_hash_map<OffloadKey, Flight> flights_;               // bounded by keys of open calls
  absl::flat_hash_map<RequestHandle, RequestHolds> holds_;        // bounded by the hold shares
  absl::flat_hash_map<RequestHandle, std::uint32_t> waits_;       // waiters per request
  absl::flat_hash_map<ChunkId, std::uint32_t> unread_holders_;    // landed promotions held unread
  std::deque<UnreadExpiry> unread_expiries_;                      // in order of time: one constant ttl
  absl::flat_hash_map<ChunkId, std::uint32_t> outcome_pins_;      // published before Quiesced
  ReuseTracker reuse_{0, 0};
  std::deque<WaitingGrant> waiting_grants_;                       // bounded by open lookups; in order of service
  absl::flat_hash_map<RequestHandle, Watch> watches_;             // bounded by live requests
  absl::flat_hash_map<OffloadKey, std::vector<RequestHandle>> watched_;
  std::size_t watched_keys_ = 0;                                  // of all watches; bounded by the number of slots
  std::uint64_t promotions_reserved_ = 0;                         // slots being filled by promotions
  std::vector<PrimaryCache::Found> found_;                        // scratch of one probe
  KeyList keys_;                                                  // scratch of one message
};

PrimaryTierActor::behavior_type primary_tier_actor(
    PrimaryTierActor::stateful_pointer<PrimaryTierState> self, PrimaryTierDeps deps);

}  // namespace kv_offload
