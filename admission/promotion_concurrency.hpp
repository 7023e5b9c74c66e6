#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/in_flight_tickets.hpp"

namespace kv_offload {

/// Caps the chunks that are on their way from secondary tiers into the primary tier. A promotion is
/// admitted while fewer than `max_inflight_promotions` chunks are in flight: the cap-th is admitted
/// and the next refused. Cascades pass.
class PromotionConcurrency final : public AdmissionPolicy {
 public:
  static constexpr std::uint32_t kDefaultMaxInflight = 512;

  explicit PromotionConcurrency(std::uint32_t max_inflight_promotions = kDefaultMaxInflight)
      : max_inflight_promotions_(max_inflight_promotions) {}

  [[nodiscard]] std::string_view name() const override { return "promotion_concurrency"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;

  [[nodiscard]] std::int64_t in_flight_chunks() const override;
  [[nodiscard]] std::uint32_t max_inflight_promotions() const { return max_inflight_promotions_; }

 private:
  std::uint32_t max_inflight_promotions_;
  InFlightTickets in_flight_;
};

}  // namespace kv_offload
