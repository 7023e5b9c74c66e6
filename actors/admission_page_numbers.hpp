#pragma once

#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/messages/engine_stats.hpp"

#include <string>
#include <vector>

namespace kv_offload {

/// What to say about a refusal besides its name: the refuser's numbers at `now`, in one line; empty
/// if it shows none.
/// @param tier_label  metric label of the record's tier
[[nodiscard]] std::string refusal_numbers(const AdmissionLedger& ledger,
                                          const AdmissionRecord& record,
                                          const std::string& tier_label, MonotonicTime now);

/// The settings of the measuring gates that count events.
[[nodiscard]] std::vector<GateCadence> gate_cadences(const AdmissionLedger& ledger);

}  // namespace kv_offload
