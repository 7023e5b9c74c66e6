#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kv_offload/messages/worker_order.hpp"

namespace kv_offload {

/// Workers' hub → scheduler_step: ends of one order. Nearly always both at once.
struct WorkerReport {
  static constexpr std::string_view kName = "WorkerReport";
  std::uint64_t order = 0;
  std::optional<OrderOutcome> outcome;
  bool quiesced = false;  ///< no process can touch the order's rows any more
};

}  // namespace kv_offload
