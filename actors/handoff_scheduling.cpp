#include "kv_offload/actors/handoff_scheduling.hpp"

namespace kv_offload {

namespace {

/// Until there is a job, or kSpin is over.
void watch(const std::atomic<std::size_t>& queued) {
  constexpr int kRoundsPerLook = 32;
  const auto end = std::chrono::steady_clock::now() + HandoffScheduling::kSpin;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < kRoundsPerLook; ++i) {
      if (queued.load(std::memory_order_acquire) > 0) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
}

}  // namespace

/// Wakes a worker unless the one that watches will take the job.
void HandoffScheduling::push(coordinator_data& shared, caf::resumable* job) {
  bool wakes = false;
  {
    const std::lock_guard lock(shared.mutex);
    shared.queue.push_back(job);
    shared.queued.store(shared.queue.size(), std::memory_order_release);
    wakes = shared.sleeping > 0 && shared.queue.size() > (shared.is_watched ? 1U : 0U);
  }
  if (wakes) shared.changed.notify_one();
}

caf::resumable* HandoffScheduling::take(worker_data& own, coordinator_data& shared) {
  if (own.next != nullptr) {
    caf::resumable* job = std::exchange(own.next, nullptr);
    if (own.handoffs++ < kHandoffsMax) return job;
    push(shared, job);
  }
  own.handoffs = 0;
  std::unique_lock lock(shared.mutex);
  if (shared.queue.empty() && !shared.is_watched) {
    shared.is_watched = true;
    lock.unlock();
    watch(shared.queued);
    lock.lock();
    shared.is_watched = false;
  }
  ++shared.sleeping;
  shared.changed.wait(lock, [&] { return !shared.queue.empty(); });
  --shared.sleeping;
  caf::resumable* job = shared.queue.front();
  shared.queue.pop_front();
  shared.queued.store(shared.queue.size(), std::memory_order_release);
  return job;
}

}  // namespace kv_offload
