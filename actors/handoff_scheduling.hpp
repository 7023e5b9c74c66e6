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
  /// About two round trips of a caller that calls again at once.
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
    push(d(self), job);
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    push(d(self->parent()), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    if (d(self).next == nullptr)
      d(self).next = job;
    else
      push(d(self->parent()), job);
  }
  /// It gave up the worker for others: to the end of the queue.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    push(d(self->parent()), job);
  }
  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    return take(d(self), d(self->parent()));
  }
  template <class Worker>
  void before_shutdown(Worker* self) {
    if (d(self).next != nullptr) push(d(self->parent()), std::exchange(d(self).next, nullptr));
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
  static void push(coordinator_data& shared, caf::resumable* job);
  static caf::resumable* take(worker_data& own, coordinator_data& shared);
};

}  // namespace kv_offload
