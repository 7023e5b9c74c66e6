#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace kv_offload {

/// Where a host wants its callbacks to run: takes a task and runs it once, now or later, on any thread. It may
/// drop one instead (a full queue, a pool that has ended): that callback does not run, and nothing else happens.
using Executor = std::function<void(std::function<void()>)>;
/// Outlives the engine with whoever still has something to hand over. Null: no executor, the thread at hand.
using SharedExecutor = std::shared_ptr<const Executor>;

/// Hands `task` over. An executor that throws has dropped it; tasks themselves must not throw.
inline void hand_over(const SharedExecutor& executor, std::function<void()> task) {
  if (!executor) return task();
  try {
    (*executor)(std::move(task));
  } catch (...) {  // it is the host's, and what called us is an engine's thread
  }
}

}  // namespace kv_offload
