#pragma once

#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kv_offload {

/// One answer of admission, kept to explain it later.
struct AdmissionRecord {
  MonotonicTime at;
  TierIndex tier = 0;
  bool is_promotion = false;
  std::uint32_t chunks = 0;
  bool admitted = false;
  RefusalReason reason = RefusalReason::none;
  std::string_view refuser;  ///< valid as long as the ledger
};

/// The last kCapacity answers; older ones are overwritten. Never allocates after construction.
class DecisionLog {
 public:
  static constexpr std::size_t kCapacity = 256;  // a few requests of history at ~64 bytes each

  void add(const AdmissionRecord& record) {
    records_[num_added_ % kCapacity] = record;
    ++num_added_;
  }
  /// Oldest first.
  [[nodiscard]] std::vector<AdmissionRecord> recent() const {
    std::vector<AdmissionRecord> out;
    const std::uint64_t first = num_added_ > kCapacity ? num_added_ - kCapacity : 0;
    for (std::uint64_t i = first; i < num_added_; ++i) out.push_back(records_[i % kCapacity]);
    return out;
  }
  /// All answers so far, overwritten ones too.
  [[nodiscard]] std::uint64_t num_added() const { return num_added_; }

 private:
  std::array<AdmissionRecord, kCapacity> records_{};
  std::uint64_t num_added_ = 0;
};

}  // namespace kv_offload
