#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/protocol/primary_messages.hpp"

namespace kv_offload {

/// One store call, one decision per tier, all in one handler.
struct AdmitCascades {
  static constexpr std::string_view kName = "AdmitCascades";
  OpId op = 0;
  SharedRequest request;
  SharedKeys keys;
  std::uint64_t chunk_bytes = 0;
};
struct CascadeVerdict {
  AdmissionTicket ticket = 0;
  RefusalReason refused = RefusalReason::none;
};
struct CascadesDecided {
  static constexpr std::string_view kName = "CascadesDecided";
  OpId op = 0;
  std::vector<CascadeVerdict> tiers;  ///< one per secondary tier
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
};
struct ResetAdmission {
  static constexpr std::string_view kName = "ResetAdmission";
};

}  // namespace kv_offload
