#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "kv_offload/messages/executor.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/pending.hpp"

namespace kv_offload {

/// Tells a caller how its prefix grows while its lookup is open. The callback runs once at a time, with larger and
/// larger numbers, and not at all once the lookup's answer was handed out. At most one call of it is on its way to an
/// executor: what grows meanwhile is told by that one, so a slow host costs no queue.
///
///     idle ─ report ─► posted ─ executor ─► running ─► idle     finish: any ─► closed
class PrefixGrowth : public std::enable_shared_from_this<PrefixGrowth> {
 public:
  /// Gets the number of leading keys that are readable. Must not block, must not throw.
  using OnGrowth = std::function<void(std::uint32_t)>;

  explicit PrefixGrowth(OnGrowth on_growth, SharedExecutor executor = nullptr)
      : on_growth_(std::move(on_growth)), executor_(std::move(executor)) {}

  /// scheduler_step's thread alone; `readable` never shrinks.
  void report(std::uint32_t readable) {
    latest_ = readable;
    auto seen = State::idle;
    if (state_.compare_exchange_strong(seen, State::posted)) post();  // else whoever runs looks again
  }
  /// Ends it: runs `deliver` when no callback runs any more and none will. That is now, or at the end of the one that
  /// runs. At most once.
  void finish(std::function<void()> deliver) {
    deliver_ = std::move(deliver);
    if (state_.exchange(State::closed) != State::running) std::exchange(deliver_, nullptr)();
  }

 private:
  enum class State : std::uint8_t { idle, posted, running, closed };
  /// What the executor gets. Dropped instead of run, it makes room for the next.
  struct Task {
    explicit Task(std::shared_ptr<PrefixGrowth> owner) : growth(std::move(owner)) {}
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
      auto seen = State::posted;
      if (!ran) growth->state_.compare_exchange_strong(seen, State::idle);
    }
    std::shared_ptr<PrefixGrowth> growth;
    bool ran = false;
  };

  void post() {
    auto task = std::make_shared<Task>(shared_from_this());
    hand_over(executor_, [task = std::move(task)] {
      task->ran = true;
      task->growth->run();
    });
  }
  void run() {
    auto seen = State::posted;
    if (!state_.compare_exchange_strong(seen, State::running)) return;  // the answer came first
    for (;;) {
      const auto now = latest_.load();
      if (now > told_) on_growth_(now);
      told_ = now;
      seen = State::running;
      if (!state_.compare_exchange_strong(seen, State::idle)) return std::exchange(deliver_, nullptr)();
      seen = State::idle;
      if (latest_.load() == now || !state_.compare_exchange_strong(seen, State::running)) return;
    }
  }

  const OnGrowth on_growth_;
  const SharedExecutor executor_;
  std::atomic<State> state_{State::idle};
  std::atomic<std::uint32_t> latest_{0};
  std::uint32_t told_ = 0;          // whoever is `running`
  std::function<void()> deliver_;   // of finish, or of whoever was running then
};

/// What `inner` is answered goes on to `outer`, behind the last callback of `growth`.
inline void answer_behind(const std::shared_ptr<PrefixGrowth>& growth, CompletionSlot<LookupAnswer>& inner,
                          std::shared_ptr<CompletionSlot<LookupAnswer>> outer) {
  inner.on_ready([growth, outer = std::move(outer)](Expected<LookupAnswer> answer) {
    auto kept = std::make_shared<Expected<LookupAnswer>>(std::move(answer));
    growth->finish([outer, kept] { outer->deliver(std::move(*kept)); });
  });
}

}  // namespace kv_offload
