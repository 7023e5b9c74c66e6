#pragma once

#include "kv_offload/actors/probe_windows.hpp"
#include "kv_offload/messages/atomic_groups.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/pending.hpp"
#include "kv_offload/messages/prefix_growth.hpp"
#include "kv_offload/messages/protocol/primary_messages.hpp"
#include "kv_offload/messages/request.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kv_offload {

/// One open lookup and what is known of each of its keys. Plain state: the scheduler_step actor moves
/// it along as answers arrive, this class says what comes next.
///
///     unknown ─ primary ─► hit | pending | unknown ─ tiers ─► tier_hit | miss | retry | gave_up
///     tier_hit ─ claim, admission, grant ─► loading | pending | landed | refused | no_space
///     loading, pending ─► landed | unknown (the tier failed: ask the next one) | miss
///
/// The first `on_device` keys are the device's own: neither held nor loaded. The last of them is asked of
/// the tiers beside its follower, because whether a tier has what the device had anyway is a verdict; if it
/// has no follower the caller is answered first.
class LookupOp {
 public:
  enum class Phase : std::uint8_t { primary, probing, claiming, admitting, granting, queued, waiting };
  enum class Key : std::uint8_t {
    unknown, hit, pending, tier_hit, loading, landed, miss, retry, gave_up, refused, no_space, on_device
  };
  /// A tier's word on a key, as the metrics count it; 3 + GiveUpReason for the rest.
  static constexpr std::uint8_t kNotAsked = 0, kHit = 1, kMiss = 2, kGaveUp = 3;

  /// A growing lookup loads its first chunks of each tier in jobs of their own, as large as a new tier's probe windows:
  /// a job has one end, so without them the prefix would grow once per tier.
  static constexpr std::size_t kFirstJobs[] = {8, 32, 128};

  LookupOp(OpId op, SharedRequest request, SharedKeys keys, LookupOptions options, std::size_t num_tiers,
           std::uint32_t on_device, Reply<LookupAnswer> reply);

  [[nodiscard]] std::size_t size() const { return state.size(); }
  [[nodiscard]] bool prefix() const { return options.scan == LookupScan::prefix; }
  [[nodiscard]] bool waits_for_landing() const { return options.wait == LookupWait::landed; }
  [[nodiscard]] bool polled() const { return options.wait == LookupWait::polled; }

  [[nodiscard]] bool is_on_device(std::size_t key_idx) const { return key_idx < on_device; }
  /// The device's last key follows its successor from tier to tier, and costs it no time.
  void follow_with_device_key();

  static bool resolved_hit(Key k) { return k == Key::hit || k == Key::landed; }
  static bool on_its_way(Key k) { return k == Key::pending || k == Key::loading; }
  static bool not_found(Key k) {
    return k == Key::miss || k == Key::gave_up || k == Key::refused || k == Key::no_space || k == Key::retry;
  }
  /// The scan ends here: nothing behind it can matter to a prefix. Pollers ask on behind a retry, so that
  /// one step starts every probe.
  [[nodiscard]] bool ends_scan(Key k) const { return prefix() && not_found(k) && !(polled() && k == Key::retry); }

  /// Keys that the reference's scan would reach: up to and including the first that ends the prefix.
  [[nodiscard]] std::size_t reach() const;
  /// The next window of keys that one tier is to be asked for; empty: all known within reach.
  [[nodiscard]] KeyIdxList next_window() const;
  /// Keys found in tiers and not yet claimed, within reach, in order.
  [[nodiscard]] KeyIdxList tier_hits() const;
  /// Keys still being loaded or stored, within reach.
  [[nodiscard]] std::size_t in_flight() const;
  void set_verdict(std::uint32_t key_idx, std::size_t tier_and_primary, std::uint8_t verdict) {
    verdicts[key_idx * (num_tiers + 1) + tier_and_primary] = verdict;
  }
  [[nodiscard]] std::uint8_t verdict(std::size_t key_idx, std::size_t tier_and_primary) const {
    return verdicts[key_idx * (num_tiers + 1) + tier_and_primary];
  }
  [[nodiscard]] LookupAnswer answer(const AtomicGroups& atomic_groups) const;
  /// Leading keys that are readable now, if they are more than the last time; else none.
  std::optional<std::uint32_t> grown(const AtomicGroups& atomic_groups);

  OpId op;
  SharedRequest request;
  SharedKeys keys;
  LookupOptions options;
  std::size_t num_tiers;
  std::uint32_t on_device;
  Reply<LookupAnswer> reply;
  std::shared_ptr<PrefixGrowth> growth;  ///< null: nobody asks

  Phase phase = Phase::primary;
  bool awaits_gate = false;               ///< which tiers may be skipped is being asked
  bool primary_told = false;
  std::vector<TierIndex> gate_tiers;      ///< asked about
  std::vector<bool> skipped;              ///< by tier; empty: none
  std::vector<std::uint32_t>
      asked_until;  ///< by tier: from this key on it is not asked; empty: no such bound
  std::vector<LookupResult> primary_states;  ///< until the gate has answered, too
  MonotonicTime started;
  bool replied = false;   ///< the caller has its answer; what runs on is for the verdict only
  bool answered = false;  ///< aborted: the rest of the flow runs silently, then drops its holds
  MonotonicTime deadline;
  Duration patience{};    ///< for slots: half of the time that the whole call has

  std::vector<Key> state;
  std::vector<TierIndex> next_tier;    ///< to ask, while unknown
  std::vector<std::uint8_t> found_in;  ///< 0 primary, 1+t tier t
  std::vector<bool> retry_seen;
  std::vector<std::uint8_t> verdicts;  ///< per key: primary, tier 0, tier 1, …

  // the running probe
  std::uint32_t round = 0;
  std::uint32_t window = 1;
  std::optional<TierIndex> learns_of;  ///< the tier whose window it began with
  std::size_t found = 0;               ///< keys of that tier within reach
  TierIndex probe_tier = 0;
  KeyIdxList probe_idx;
  std::vector<float> key_async_s;  ///< polled: per key and tier, seconds from probe to verdict
  MonotonicTime probe_deadline;
  /// Seconds per key that the primary's handler took, and per tier of its latest window.
  double primary_s = 0;
  struct TierTimes {
    double sync_s = 0;   ///< per key, in the tier's actor
    double async_s = 0;  ///< from probe to verdict
    Duration probing{};  ///< of all its windows
  };
  std::vector<TierTimes> tier_times;

  // whether its answer may be kept, see LookupMemo
  SharedKeys asked_keys;            ///< of the caller, if it repeats: not salted, not capped
  bool watched = false;             ///< the primary tier tells when its part has changed
  bool may_change = false;          ///< a tier's miss may turn without the engine's doing
  std::uint64_t turn = 0, memo_epoch = 0;

  // the running claim
  KeyIdxList claimed;
  std::vector<AdmissionTicket> tickets;  ///< of the admitted prefix of `claimed`

  std::uint32_t capped = 0;  ///< keys of the call that were left out
  std::uint32_t unheld = 0, promoted = 0, truncated = 0, num_refused = 0;

 private:
  std::uint32_t landed_front_ = 0;  // leading keys that are there; only grows, each key is passed once
  std::uint32_t grown_to_ = 0;      // told last
};

}  // namespace kv_offload
