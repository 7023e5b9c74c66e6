#include "kv_offload/actors/fork_generation.hpp"

#include <atomic>
#include <pthread.h>

namespace kv_offload {
namespace {

std::atomic<std::uint32_t> forks{0};

}  // namespace

std::uint32_t fork_generation() {
  // Once per process; the C library forgets the handler if this library is unloaded.
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace kv_offload
