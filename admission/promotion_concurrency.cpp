#include "kv_offload/admission/promotion_concurrency.hpp"

namespace kv_offload {

RefusalReason PromotionConcurrency::should_admit(const JobMetadata& job,
                                                 MonotonicTime /*now*/) const {
  if (!job.is_promotion || in_flight_.chunks() < max_inflight_promotions_)
    return RefusalReason::none;
  return RefusalReason::promotion_concurrency;
}

void PromotionConcurrency::on_admitted(const JobMetadata& job, MonotonicTime now) {
  if (job.is_promotion) in_flight_.admit(job.ticket, job.num_chunks, now);
}

void PromotionConcurrency::on_refused(const JobMetadata& /*job*/,
                                      const AdmissionPolicy* /*refuser*/, MonotonicTime /*now*/) {}

void PromotionConcurrency::on_completed(const JobMetadata& job, const CompletedTransfer& /*result*/,
                                        MonotonicTime /*now*/) {
  if (job.is_promotion) in_flight_.end(job.ticket, job.num_chunks);
}

void PromotionConcurrency::on_withdrawn(const JobMetadata& job, MonotonicTime /*now*/) {
  if (job.is_promotion) in_flight_.end(job.ticket, job.num_chunks);
}

void PromotionConcurrency::reset() { in_flight_.clear(); }

std::int64_t PromotionConcurrency::in_flight_chunks() const {
  return static_cast<std::int64_t>(in_flight_.chunks());
}

}  // namespace kv_offload
