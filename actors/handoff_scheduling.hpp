#pragma once

#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace kv_offload {

/// Scheduling policy of CAF workers for chains of short handlers: a call of ours passes through three or four
/// actors, one after the other.
///
/// An actor that a handler sends to runs next on the same worker, without waking another one; what else it
/// sends to goes to the queue that all workers share. After kHandoffsMax in a row the shared queue has its
/// turn. A worker without work watches the queue for kSpin before it sleeps, one worker at a time, so that the
/// next call of a busy caller finds it awake.
///
/// The price: an actor that was sent to waits until its sender's turn ends. Handlers do not block, and a turn
/// ends after 64 messages.
class HandoffScheduling : public caf::policy::unprofiled {
 public:
  static constexpr std::uint32_t kHandoffsMax = 32;
  /// About two round trips of a caller that calls again at once. Ten turns a second of an idle engine cost
  /// 0.02 % of a core with it.
  static constexpr auto kSpin = std::chrono::microseconds(20);

  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<caf::resumable*> queue;
    std::atomic<std::size_t> queued{0};  // queue.size(), for who watches without the lock
    std::size_t sleeping = 0;
    bool is_watched = false;  // a worker spins
  };
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}

    caf::resumable* next = nullptr;
    std::uint32_t handoffs = 0;  // in a row
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    auto& shared = d(self);
    bool wakes = false;
    {
      const std::lock_guard lock(shared.mutex);
      shared.queue.push_back(job);
      shared.queued.store(shared.queue.size(), std::memory_order_release);
      wakes = shared.sleeping > 0 && shared.queue.size() > (shared.is_watched ? 1U : 0U);
    }
    if (wakes) shared.changed.notify_one();
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    if (d(self).next == nullptr)
      d(self).next = job;
    else
      central_enqueue(self->parent(), job);
  }
  /// It gave up the worker for others: to the end of the queue.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    auto& own = d(self);
    auto& shared = d(self->parent());
    if (own.next != nullptr) {
      caf::resumable* job = std::exchange(own.next, nullptr);
      if (own.handoffs++ < kHandoffsMax) return job;
      central_enqueue(self->parent(), job);
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

  template <class Worker>
  void before_shutdown(Worker* self) {
    if (d(self).next != nullptr) central_enqueue(self->parent(), std::exchange(d(self).next, nullptr));
  }
  template <class Worker, class F>
  void foreach_resumable(Worker*, F) {}
  template <class Coordinator, class F>
  void foreach_central_resumable(Coordinator* self, F f) {
    auto& shared = d(self);
    const std::lock_guard lock(shared.mutex);
    for (; !shared.queue.empty(); shared.queue.pop_front()) f(shared.queue.front());
  }

 private:
  static void watch(const std::atomic<std::size_t>& queued) {
    constexpr int kRoundsPerLook = 32;
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (std::chrono::steady_clock::now() < end)
      for (int i = 0; i < kRoundsPerLook; ++i) {
        if (queued.load(std::memory_order_acquire) > 0) return;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
      }
  }
};

}  // namespace kv_offload
