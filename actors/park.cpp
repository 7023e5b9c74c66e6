#include "kv_offload/messages/pending.hpp"

namespace kv_offload {

void park_while(const std::atomic<std::uint32_t>& state, std::uint32_t value) {
  state.wait(value, std::memory_order_acquire);
}
void wake_parked(std::atomic<std::uint32_t>& state) { state.notify_all(); }

}  // namespace kv_offload
