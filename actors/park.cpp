#include "kv_offload/messages/pending.hpp"

#include <thread>

namespace kv_offload {
namespace {

constexpr std::uint32_t kAnybody = spin_rounds(20);        // as long as spin_us's default
constexpr std::uint32_t kRoundsPerYield = spin_rounds(4);  // the system call takes a quarter of one

/// Callers that spin longer than that, of all engines. One processor is left to who has to answer them.
std::atomic<std::uint32_t> spinning_long{0};
std::uint32_t spinning_long_max() {
  static const std::uint32_t processors = std::thread::hardware_concurrency();
  return processors > 0 ? processors - 1 : 0;
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void park_while(const std::atomic<std::uint32_t>& state, std::uint32_t value) {
  state.wait(value, std::memory_order_acquire);
}
void wake_parked(std::atomic<std::uint32_t>& state) { state.notify_all(); }

void spin_while(const std::atomic<std::uint32_t>& state, std::uint32_t value,
                std::uint32_t rounds) {
  const auto waits = [&] { return state.load(std::memory_order_acquire) == value; };
  std::uint32_t round = 0;
  for (; round < rounds && round < kAnybody && waits(); ++round) pause();
  if (round == rounds || !waits()) return;
  if (spinning_long.fetch_add(1, std::memory_order_relaxed) < spinning_long_max())
    for (; round < rounds && waits(); ++round) {
      pause();
      if (round % kRoundsPerYield == 0) std::this_thread::yield();
    }
  spinning_long.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace kv_offload
