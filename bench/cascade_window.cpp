#include "kv_offload/bench/cascade_window.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload::bench {

bool CascadeWindow::acquire(std::uint64_t chunks, Duration patience) {
  std::unique_lock lock(shared_->mutex);
  const bool fits = shared_->changed.wait_for(
      lock, patience, [&] { return shared_->open == 0 || shared_->open + chunks <= chunks_max_; });
  shared_->open += chunks;
  return fits;
}

void CascadeWindow::release(std::uint64_t chunks) {
  const std::lock_guard lock(shared_->mutex);
  shared_->open -= chunks;
  shared_->changed.notify_all();
}

void CascadeWindow::follow(Pending<StoreOutcome> completion, std::uint64_t chunks) {
  const auto started = std::chrono::steady_clock::now();
  std::move(completion).then([shared = shared_, chunks, started](Expected<StoreOutcome> outcome) {
    const std::lock_guard lock(shared->mutex);
    shared->open -= chunks;
    shared->totals.latency.record(std::chrono::steady_clock::now() - started);
    if (outcome) {
      shared->totals.stored += outcome->chunks_stored;
      shared->totals.failed += outcome->chunks_failed;
      shared->totals.jobs_refused += outcome->cascades_refused;
    } else if (shared->totals.errors++ == 0) {
      shared->totals.first_error = to_string(outcome.error());
    }
    shared->changed.notify_all();
  });
}

bool CascadeWindow::wait_others(std::uint64_t chunks, Duration patience) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, patience, [&] { return shared_->open <= chunks; });
}

CascadeWindow::Totals CascadeWindow::totals() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->totals;
}

std::uint64_t cascade_chunks_max(const EngineConfig& config) {
  std::uint64_t chunks = 0;
  for (std::size_t t = 0; t < config.secondary_tiers.size(); ++t) {
    const std::uint64_t share = config.share_chunks(config.pin_share(t));
    chunks = t == 0 ? share : std::min(chunks, share);
  }
  return chunks;
}

}  // namespace kv_offload::bench
