#pragma once

#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/compute_sample.hpp"
#include "kv_offload/messages/load_verdict.hpp"
#include "kv_offload/messages/protocol/primary_messages.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace kv_offload {

/// One store call, one decision per tier, all in one handler.
struct AdmitCascades {
  static constexpr std::string_view kName = "AdmitCascades";
  OpId op = 0;
  SharedRequest request;
  SharedKeys keys;
  std::vector<TierIndex> tiers;  ///< to be asked, in this order
  std::uint64_t chunk_bytes = 0;
};
struct CascadeVerdict {
  AdmissionTicket ticket = 0;
  RefusalReason refused = RefusalReason::none;
};
struct CascadesDecided {
  static constexpr std::string_view kName = "CascadesDecided";
  OpId op = 0;
  std::vector<CascadeVerdict> tiers;  ///< co-indexed with the question's
};

/// Tier hits of one lookup in prefix order; decided chunk by chunk, up to the first refusal.
struct AdmitPromotions {
  static constexpr std::string_view kName = "AdmitPromotions";
  OpId op = 0;
  SharedRequest request;
  SharedKeys keys;
  KeyIdxList key_idx;
  std::vector<TierIndex> tiers;  ///< co-indexed with key_idx
  std::uint64_t chunk_bytes = 0;
};
struct PromotionsDecided {
  static constexpr std::string_view kName = "PromotionsDecided";
  OpId op = 0;
  std::vector<AdmissionTicket> tickets;  ///< of the admitted prefix; one per chunk, shared per tier
  RefusalReason refused = RefusalReason::none;
  std::uint64_t pressure_epoch = 0;
};

/// Admitted, but never submitted.
struct Withdraw {
  static constexpr std::string_view kName = "Withdraw";
  struct Entry {
    AdmissionTicket ticket = 0;
    std::uint32_t chunks = 0;
  };
  std::vector<Entry> entries;
};

/// job_tracker → admission_controller, at Quiesced (or Abandoned).
struct AdmissionCompleted {
  static constexpr std::string_view kName = "AdmissionCompleted";
  struct Entry {
    AdmissionTicket ticket = 0;
    std::uint32_t chunks = 0;
    CompletedTransfer transfer;
  };
  std::vector<Entry> entries;
  std::vector<TicketShare> overdue;  ///< given up by their deadline; their end still comes
};
// -- the worth of lookups -----------------------------------------------------------------------------

/// Is each of these tiers worth asking about this prompt? Once per request, beside its first PrimaryProbe.
struct GateLookup {
  static constexpr std::string_view kName = "GateLookup";
  OpId op = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t device_tokens = 0;
  std::vector<TierIndex> tiers;
  SharedKeys keys;
  std::uint32_t first_key = 0;  ///< of the keys: the first that the device lacks
};
struct LookupGated {
  static constexpr std::string_view kName = "LookupGated";
  OpId op = 0;
  std::vector<bool> skip;  ///< co-indexed with the question's tiers
  std::vector<std::uint32_t> asked_until;  ///< the same: keys from here on are not worth asking for
};
/// How a request's first lookup of each tier ended. `gated`: a GateLookup was asked about it before.
struct LookupsAnswered {
  static constexpr std::string_view kName = "LookupsAnswered";
  struct Entry {
    TierIndex tier = 0;
    bool gated = false;
    bool answered = true;             ///< false: given up
    std::uint64_t prompt_tokens = 0;
    std::uint64_t hit_tokens = 0;     ///< leading tokens that the tier reaches to; 0: a miss
    std::uint64_t device_tokens = 0;
    Duration took{};                  ///< the whole lookup; 0 if the tier was not asked
    Duration probing{};               ///< of it, waiting for this tier's word
    std::uint32_t served_chunks = 0;  ///< leading hits that came from this tier
    SharedKeys keys;                  ///< with gated: of the lookup
    std::uint32_t first_key = 0;      ///< of them: the first that the device lacks
    std::uint32_t served_until = 0;   ///< behind the last that the tier served
    std::uint32_t asked_from = 0;     ///< the first beyond the device that it was asked for
    std::uint32_t asked_until = 0;    ///< behind the last; 0: none
  };
  std::vector<Entry> entries;
  /// What the request wanted beyond the device; once per request.
  struct Wanted {
    std::uint32_t primary = 0;          ///< chunks found in the primary tier
    std::vector<std::uint32_t> served;  ///< by tier: chunks found there
    SharedKeys keys;                    ///< null: nothing
    std::uint32_t unserved_from = 0;    ///< keys from here on were found nowhere
    bool prefix = true;
  } wanted;
};
/// What the tiers' claims turned out to be worth: cumulative totals of one scheduler_step, per tier.
struct VerdictsGiven {
  static constexpr std::string_view kName = "VerdictsGiven";
  DomainId domain = 0;
  std::vector<VerdictCounts> tiers;
};
/// A prompt was computed: what that took, and what the tiers moved meanwhile.
struct DeviceComputed {
  static constexpr std::string_view kName = "DeviceComputed";
  ComputeSample sample;
};
/// Chunks not offered to a tier because a skipped lookup left unproven that it lacks them.
struct BelowFloor {
  static constexpr std::string_view kName = "BelowFloor";
  TierIndex tier = 0;
  std::uint32_t chunks = 0;
  bool whole_job = false;  ///< nothing of the store call is left for the tier
};

struct ResetAdmission {
  static constexpr std::string_view kName = "ResetAdmission";
};

}  // namespace kv_offload
