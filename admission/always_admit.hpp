#pragma once

#include "kv_offload/admission/admission_policy.hpp"

namespace kv_offload {

/// Refuses nothing and remembers nothing: the default when no policy is configured.
class AlwaysAdmit final : public AdmissionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "always_admit"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& /*job*/,
                                           MonotonicTime /*now*/) const override {
    return RefusalReason::none;
  }
  void on_admitted(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
  void on_refused(const JobMetadata& /*job*/, const AdmissionPolicy* /*refuser*/,
                  MonotonicTime /*now*/) override {}
  void on_completed(const JobMetadata& /*job*/, const CompletedTransfer& /*result*/,
                    MonotonicTime /*now*/) override {}
  void on_withdrawn(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
  void reset() override {}
};

}  // namespace kv_offload
