#include "kv_offload/admission/breaker.hpp"

#include <algorithm>
#include <cmath>

namespace kv_offload {

double Breaker::error_rate() const {
  return size_ == 0 ? 0 : static_cast<double>(failures_) / static_cast<double>(size_);
}

void Breaker::on_result(bool success, MonotonicTime now) {
  if (is_open_) return;
  failed_.resize(options_.window);
  if (size_ == failed_.size()) {
    if (failed_[next_]) --failures_;
  } else {
    ++size_;
  }
  failed_[next_] = !success;
  if (!success) ++failures_;
  next_ = (next_ + 1) % failed_.size();
  if (size_ >= options_.min_completions && error_rate() >= options_.error_rate) open(now);
}

void Breaker::on_probe_result(std::uint64_t episode, bool success, MonotonicTime now) {
  if (!is_open_ || episode != openings_) return;
  if (!success) {
    ++failed_probes_;
    open(now);
  } else if (++probe_successes_ >= options_.close_after) {
    close();
  }
}

void Breaker::open(MonotonicTime now) {
  is_open_ = true;
  ++openings_;
  probe_successes_ = 0;
  opened_at_ = now;
  // The exponent is bounded so that the product stays finite.
  const double doubled = options_.open_s * std::exp2(std::min<std::uint32_t>(failed_probes_, 60));
  wait_ = from_seconds(std::min(std::max(options_.open_s, options_.max_open_s), doubled));
}

void Breaker::close() {
  is_open_ = false;
  failed_probes_ = 0;
  failed_.clear();
  next_ = size_ = failures_ = 0;
}

}  // namespace kv_offload
