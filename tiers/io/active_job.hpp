#pragma once

#include "kv_offload/messages/transfer_job.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace kv_offload {

/// A job whose first key was started: collects the fates of its keys into one JobResult. Keys may end
/// in any order; the reported failure is that of the first failed key in the job's order.
class ActiveJob {
 public:
  explicit ActiveJob(TransferJob job) : job_(std::move(job)) {
    result_.job_id = job_.job_id;
    result_.fates.assign(job_.keys.size(), KeyFate::failed);
  }

  [[nodiscard]] const TransferJob& job() const { return job_; }
  [[nodiscard]] bool has_unstarted() const { return started_ < job_.keys.size(); }
  /// Of job().keys; there is one while has_unstarted().
  [[nodiscard]] std::size_t next_unstarted() const { return started_; }
  [[nodiscard]] std::size_t start_next() { return started_++; }
  [[nodiscard]] bool is_over() const { return ended_ == job_.keys.size(); }

  /// @param io_time  from the start of the key's I/O to its last completion
  void key_ended(std::size_t key_idx, const KeyEnd& end, std::uint64_t row_bytes,
                 Duration io_time) {
    ++ended_;
    result_.fates[key_idx] = end.fate;
    result_.transfer_time += io_time;
    if (end.unverified) ++result_.unverified;
    if (end.fate == KeyFate::done) result_.transfer_bytes += row_bytes;
    if (end.fate != KeyFate::failed || key_idx >= first_failed_) return;
    first_failed_ = key_idx;
    result_.failure = end.failure;
    result_.error_number = end.error_number;
  }

  [[nodiscard]] JobResult take_result(MonotonicTime now) {
    result_.success = first_failed_ == kNone;
    result_.finished_at = now;
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  TransferJob job_;
  JobResult result_;
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  std::size_t first_failed_ = kNone;
};

/// The result of a job that never ran: every key failed for one reason.
inline JobResult result_of_unstarted(const TransferJob& job, TransferFailure why,
                                     MonotonicTime now) {
  JobResult result;
  result.job_id = job.job_id;
  result.fates.assign(job.keys.size(), KeyFate::failed);
  result.failure = why;
  result.finished_at = now;
  return result;
}

}  // namespace kv_offload
