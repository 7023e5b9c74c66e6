#pragma once

#include "kv_offload/messages/executor.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

namespace kv_offload {

/// How often a slot looks before it parks: a pause instruction takes 35 to 140 cycles on x86 servers, 25 of
/// them about a microsecond.
constexpr std::uint32_t spin_rounds(std::uint32_t microseconds) { return microseconds * 25; }

template <class T>
class Reply;

/// Parks the caller until `state` is not `value`, and wakes who parked. Both run in the library: libstdc++ counts the
/// waiters in a table of each shared object that hides its symbols, so a wait compiled into the host is one that
/// a notify compiled into the library does not see.
KV_OFFLOAD_EXPORT void park_while(const std::atomic<std::uint32_t>& state, std::uint32_t value);
KV_OFFLOAD_EXPORT void wake_parked(std::atomic<std::uint32_t>& state);
/// Looks so often whether `state` is still `value`. Beyond 20 us of it only as many callers do as leave a processor to the
/// engine, and they let others run every few microseconds; the rest return at once.
KV_OFFLOAD_EXPORT void spin_while(const std::atomic<std::uint32_t>& state, std::uint32_t value,
                                  std::uint32_t rounds);

/// One answer on its way from an actor to a caller: written once, read once, by spinning and then
/// parking, or handed to a callback. One allocation per call; no actor is created for it.
template <class T>
class CompletionSlot {
 public:
  /// `credit`, if given, is incremented once when the answer arrives, before the caller can see it. `executor`, if
  /// given, runs the callbacks of call_back.
  explicit CompletionSlot(std::uint32_t spin_rounds,
                          std::shared_ptr<std::atomic<std::int64_t>> credit = nullptr,
                          SharedExecutor executor = nullptr)
      : spin_rounds_(spin_rounds), credit_(std::move(credit)), executor_(std::move(executor)) {}

  /// First call wins; later ones are ignored and answer false.
  bool deliver(Expected<T> value) {
    if (claimed_.exchange(true, std::memory_order_acq_rel)) return false;
    value_.emplace(std::move(value));
    if (credit_) credit_->fetch_add(1, std::memory_order_acq_rel);
    const auto before = state_.exchange(kReady, std::memory_order_acq_rel);
    if (before == kCallback) {
      callback_(std::move(*value_));
      callback_ = nullptr;
    } else {
      wake_parked(state_);
    }
    return true;
  }
  /// As on_ready, by way of the executor: for functions of the host.
  void call_back(std::function<void(Expected<T>)> callback) {
    if (!executor_) return on_ready(std::move(callback));
    on_ready([executor = executor_, callback = std::move(callback)](Expected<T> value) mutable {
      struct Task {
        std::function<void(Expected<T>)> callback;
        Expected<T> value;
      };
      auto task = std::make_shared<Task>(Task{std::move(callback), std::move(value)});
      hand_over(executor, [task] { task->callback(std::move(task->value)); });
    });
  }
  /// Runs `callback` on the thread that has the answer, which is this one if it is there already.
  void on_ready(std::function<void(Expected<T>)> callback) {
    callback_ = std::move(callback);
    std::uint32_t expected = kEmpty;
    if (!state_.compare_exchange_strong(expected, kCallback, std::memory_order_acq_rel))
      std::exchange(callback_, nullptr)(std::move(*value_));
  }
  [[nodiscard]] bool ready() const { return state_.load(std::memory_order_acquire) == kReady; }
  Expected<T> take() {
    spin_while(state_, kEmpty, spin_rounds_);
    while (!ready()) park_while(state_, kEmpty);
    return std::move(*value_);
  }

 private:
  friend class Reply<T>;
  static constexpr std::uint32_t kEmpty = 0, kReady = 1, kCallback = 2;

  std::atomic<std::uint32_t> state_{kEmpty};
  std::atomic<bool> claimed_{false};
  std::atomic<std::uint32_t> replies_{0};  // Reply handles alive; the last one answers if nobody did
  std::uint32_t spin_rounds_;
  std::shared_ptr<std::atomic<std::int64_t>> credit_;
  SharedExecutor executor_;
  std::optional<Expected<T>> value_;
  std::function<void(Expected<T>)> callback_;
};

/// The engine's end of a call; copyable, because actor messages are. Whoever drops the last copy
/// without an answer answers `engine_failed`: a caller is never left waiting.
template <class T>
class Reply {
 public:
  Reply() = default;
  explicit Reply(std::shared_ptr<CompletionSlot<T>> slot) : slot_(std::move(slot)) { retain(); }
  Reply(const Reply& other) : slot_(other.slot_) { retain(); }
  Reply(Reply&& other) noexcept : slot_(std::move(other.slot_)) { other.slot_.reset(); }
  Reply& operator=(Reply other) noexcept {
    slot_.swap(other.slot_);
    return *this;
  }
  ~Reply() { release(); }

  void deliver(Expected<T> value) const {
    if (slot_) slot_->deliver(std::move(value));
  }
  void fail(OffloadErrc code, std::string detail) const {
    if (slot_) slot_->deliver(OffloadError{code, std::move(detail)});
  }

 private:
  void retain() const {
    if (slot_) slot_->replies_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (slot_ && slot_->replies_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      slot_->deliver(OffloadError{OffloadErrc::engine_failed, "the engine ended before it answered this call"});
  }
  std::shared_ptr<CompletionSlot<T>> slot_;
};

/// The caller's end of a call. Use exactly one of get(), then() and future(); dropping it is fine
/// where the answer does not matter.
template <class T>
class Pending {
 public:
  explicit Pending(std::shared_ptr<CompletionSlot<T>> slot) : slot_(std::move(slot)) {}

  /// Waits: spins for the configured time, then parks. Never waits for ever: every call ends by its
  /// answer, its deadline or the end of the engine.
  Expected<T> get() && { return slot_->take(); }
  /// Runs `callback` once: handed to `EngineConfig::executor`, or without one on an engine thread, or at once if the
  /// answer is there. It must not throw, and on an engine thread it must not block. An executor that drops it loses it:
  /// the answer is gone, and whoever counts on it has to notice.
  void then(std::function<void(Expected<T>)> callback) && { slot_->call_back(std::move(callback)); }
  [[nodiscard]] std::future<Expected<T>> future() && {
    auto promise = std::make_shared<std::promise<Expected<T>>>();
    auto future = promise->get_future();
    slot_->on_ready([promise](Expected<T> value) { promise->set_value(std::move(value)); });
    return future;
  }
  [[nodiscard]] bool ready() const { return slot_->ready(); }
  /// For the engine's own use: what is to be answered.
  std::shared_ptr<CompletionSlot<T>> slot() && { return std::move(slot_); }

 private:
  std::shared_ptr<CompletionSlot<T>> slot_;
};

}  // namespace kv_offload
