#pragma once

#include "kv_offload/actors/c_api/c_api_engine.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <cstdint>
#include <memory>

/// What the host holds of a worker.
struct kvo_worker {
  std::unique_ptr<kv_offload::WorkerProcess> process;
  std::shared_ptr<kv_offload::c_api::HostGate> gate;
  std::uint32_t born_in = 0;  ///< fork_generation() of its process
};
