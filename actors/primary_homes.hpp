#pragma once

#include "kv_offload/messages/atomic_groups.hpp"
#include "kv_offload/messages/domain_map.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

#include <absl/container/flat_hash_map.h>
#include <caf/actor_control_block.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace kv_offload {

/// The primary tiers of all domains as one, for a scheduler_step actor: a message goes to the homes of its keys or
/// chunks, and their answers come back as one, in the call's own order. With one domain both pass through untouched.
///
/// What one primary tier does in one handler takes several here:
///   a store reserves everywhere or gives back what it got (evicted chunks stay evicted);
///   slots for promotions are asked for home by home, in ascending order, so that no two lookups wait for each other;
///   where one home is short, the others' slots behind that key are given back: what is granted stays one prefix.
///
/// Owned by its actor, on its thread. Open answers are bounded by the open calls; every home always answers.
class PrimaryHomes {
 public:
  PrimaryHomes() = default;
  PrimaryHomes(SchedulerStepActor::pointer self, DomainMap map, std::vector<PrimaryTierActor> homes,
               AtomicGroups atomic_groups);

  [[nodiscard]] std::size_t count() const { return homes_.size(); }
  void set_epoch(Epoch epoch) { epoch_ = epoch; }

  template <class Message>
  void send(Message message) {
    if (homes_.size() == 1) return self_->send(homes_.front(), std::move(message));
    spread(std::move(message));
  }

  /// Calls `handle` with the whole answer when `part` is its last; at once where nothing is divided. What a home said
  /// of the call's keys before the others had answered is said again after that, by `resolved`.
  template <class Answer, class Handle, class Resolved>
  void answered(const Answer& part, Handle&& handle, Resolved&& resolved) {
    if (homes_.size() == 1) return handle(part);
    const std::optional<Answer> whole = gather(part);
    if (!whole) return;
    handle(*whole);
    if (const auto early = take_early(whole->op); !early.entries.empty()) resolved(early);
  }
  /// To be told of every KeysResolved and LookupChanged: a home is not behind another in order, so they may come
  /// before the whole answer that they go beyond.
  void note(const KeysResolved& m);
  void note(const LookupChanged& m);

 private:
  /// For each home its keys, and where their answers stand in the whole.
  struct Split {
    std::vector<KeyIdxList> key_idx;
    std::vector<KeyIdxList> positions;
  };
  template <class Answer>
  struct Open {
    Answer whole;
    std::vector<KeyIdxList>
        positions;  ///< by home; empty where answers carry the call's own indices
    std::size_t waiting = 0;
  };
  template <class Answer>
  using OpenAnswers = absl::flat_hash_map<OpId, Open<Answer>>;
  struct OpenReservation {
    Open<StoreReserved> answers;
    std::vector<PublishStore> give_back;  ///< by home that reserved, should another have no room
    std::vector<DomainId> reserved;
    bool failed = false;
  };
  struct OpenPins {
    SharedKeys keys;
    std::vector<ChunkId> chunks;  ///< kNoChunk: not there
    std::vector<KeyIdxList> positions;
    std::size_t waiting = 0;
  };
  struct OpenGrant {
    PrimaryGrant asked;
    PrimaryGranted whole;
    Split split;
    std::size_t home = 0;   ///< that is being asked
    std::size_t limit = 0;  ///< keys before it can still be in the prefix
  };
  struct OpenEvents {
    std::vector<std::vector<OffloadingEvent>> by_home;
    std::size_t waiting = 0;
  };

  void spread(PrimaryProbe m);
  void spread(PrimaryClaim m);
  void spread(PrimaryGrant m);
  void spread(const ReleaseHolds& m);
  void spread(ReserveStore m);
  void spread(const PublishStore& m);
  void spread(PinPresent m);
  void spread(const PinCascades& m);
  void spread(PinLeading m);
  void spread(const Unpin& m);
  void spread(const TouchKeys& m);
  void spread(const EndRequest& m);
  void spread(const ResetPrimary& m);
  void spread(const TakeEvents& m);
  void spread(const ForgetKeys& m);

  std::optional<PrimaryProbed> gather(const PrimaryProbed& part);
  std::optional<PrimaryClaimed> gather(const PrimaryClaimed& part);
  std::optional<PrimaryGranted> gather(const PrimaryGranted& part);
  std::optional<StoreReserved> gather(const StoreReserved& part);
  std::optional<StorePublished> gather(const StorePublished& part);
  std::optional<PresentPinned> gather(const PresentPinned& part);
  std::optional<LeadingPinned> gather(const LeadingPinned& part);
  std::optional<PrimaryReset> gather(const PrimaryReset& part);
  std::optional<EventsTaken> gather(const EventsTaken& part);
  std::optional<KeysForgotten> gather(const KeysForgotten& part);

  /// Of `key_idx`, or of all keys from `from` on if it is empty.
  [[nodiscard]] Split split(const KeyList& keys, const KeyIdxList& key_idx,
                            std::size_t from = 0) const;
  [[nodiscard]] std::vector<KeyIdxList> split_chunks(const std::vector<ChunkId>& chunks) const;
  /// To each home that has something in `parts`, made by `make(home)`; to the first if none has. How many.
  template <class Make>
  std::size_t send_parts(const std::vector<KeyIdxList>& parts, Make make);
  template <class Message>
  std::size_t send_all(const Message& message);
  [[nodiscard]] std::size_t sender() const;
  [[nodiscard]] bool is_open(OpId op) const;
  KeysResolved take_early(OpId op);
  void end_claims(const SharedKeys& keys, const KeyIdxList& key_idx, ResolveFailure failure);
  bool ask_next_home(OpenGrant& open);
  PrimaryGranted granted_prefix(OpenGrant open);

  SchedulerStepActor::pointer self_ = nullptr;
  DomainMap map_;
  std::vector<PrimaryTierActor> homes_;
  absl::flat_hash_map<caf::actor_id, std::size_t> home_of_actor_;
  AtomicGroups atomic_groups_;
  Epoch epoch_ = 0;

  OpenAnswers<PrimaryProbed> probes_;
  OpenAnswers<PrimaryClaimed> claims_;
  OpenAnswers<StorePublished> publications_;
  OpenAnswers<PresentPinned> presents_;
  OpenAnswers<PrimaryReset> resets_;
  OpenAnswers<KeysForgotten> forgets_;
  absl::flat_hash_map<OpId, OpenReservation> reservations_;
  absl::flat_hash_map<OpId, OpenPins> pins_;
  absl::flat_hash_map<OpId, OpenGrant> grants_;
  absl::flat_hash_map<OpId, OpenEvents> events_;
  absl::flat_hash_map<OpId, KeysResolved> early_;  // of open answers
};

template <class Make>
std::size_t PrimaryHomes::send_parts(const std::vector<KeyIdxList>& parts, Make make) {
  std::size_t sent = 0;
  for (std::size_t h = 0; h < homes_.size(); ++h) {
    if (parts[h].empty()) continue;
    self_->send(homes_[h], make(h));
    ++sent;
  }
  if (sent > 0) return sent;
  self_->send(homes_.front(), make(0));
  return 1;
}

template <class Message>
std::size_t PrimaryHomes::send_all(const Message& message) {
  for (const auto& home : homes_) self_->send(home, message);
  return homes_.size();
}

}  // namespace kv_offload
