#pragma once

#include <atomic>

namespace kv_offload {

/// Test builds (KV_OFFLOAD_TEST_FAULTS) can break one of the engine's promises on purpose, so that the
/// checkers prove they notice. Each number has exactly one place in the code that asks for it; in any
/// other build the question is a constant false and the place compiles to nothing.
///
///  1 verified bytes · 2 accounting identity · 3 every admitted job ends once · 4 every pin ends
///  5 a refused job costs nothing · 6 no slot reuse under I/O · 7 removed before stored
///  8 no waiting for strangers
#ifdef KV_OFFLOAD_TEST_FAULTS
inline std::atomic<int>& broken_promise_switch() {
  static std::atomic<int> promise{0};
  return promise;
}
inline bool promise_broken(int promise) {
  return broken_promise_switch().load(std::memory_order_relaxed) == promise;
}
inline constexpr bool kCanBreakPromises = true;
#else
constexpr bool promise_broken(int) { return false; }
inline constexpr bool kCanBreakPromises = false;
#endif

}  // namespace kv_offload
