#pragma once

#include "kv_offload/messages/admission.hpp"

#include <array>
#include <cstdint>

namespace kv_offload {

/// A cascade is one job. Promotions of one batch and one tier are one job: they share a ticket.
struct JobCount {
  std::uint64_t jobs = 0;
  std::uint64_t chunks = 0;
  friend bool operator==(const JobCount&, const JobCount&) = default;
};

/// Cumulative since the ledger began, `in_flight` excepted. Holds at every moment, in both units:
/// offered = admitted + sum of refused, admitted = completed + withdrawn + erased + in_flight.
struct AdmissionTotals {
  JobCount offered;  ///< asked; chunks behind the first refused one of a batch are not asked
  JobCount admitted;
  JobCount completed;  ///< a job counts here if any of its chunks completed
  JobCount withdrawn;
  JobCount erased;  ///< were in flight at a reset
  JobCount in_flight;
  /// By RefusalReason. A batch's job is refused only if none of its chunks was admitted.
  std::array<JobCount, kNumRefusalReasons> refused;

  [[nodiscard]] JobCount refused_total() const {
    JobCount sum;
    for (const JobCount& count : refused) {
      sum.jobs += count.jobs;
      sum.chunks += count.chunks;
    }
    return sum;
  }
};

struct TierAdmissionTotals {
  AdmissionTotals cascades;
  AdmissionTotals promotions;
};

}  // namespace kv_offload
