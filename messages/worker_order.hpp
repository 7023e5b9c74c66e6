#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

namespace kv_offload {

/// One transfer by all ranks: the same device blocks and the same rows on each.
struct WorkerOrder {
  std::uint64_t id = 0;           ///< unique for the life of the hub
  bool is_load = false;
  BlockList blocks = {};
  std::vector<ChunkId> chunk_ids = {};
  MonotonicTime deadline = {};    ///< of the outcome
  /// The embedder has told the workers itself (they submit a job with this id); the hub only counts reports,
  /// which may come before the order.
  bool told_by_embedder = false;
};

/// How an order came out: known at the latest at its deadline, while slow copies may still run.
struct OrderOutcome {
  std::uint64_t id = 0;
  bool success = false;           ///< every rank has reported success
  OffloadErrc errc = OffloadErrc::io_error;  ///< if not: deadline, io_error (a rank failed or died), shutting_down
  std::string error = {};         ///< one line: which rank, and why
  std::uint64_t bytes = 0;        ///< of all ranks
  Duration time{};                ///< the slowest rank's
};

/// What the engine knows of its workers. Totals since its start.
struct WorkerHubStats {
  struct Rank {
    bool joined = false;
    std::int64_t pid = 0;
    std::uint64_t joins = 0, deaths = 0;
    std::uint64_t stored_bytes = 0, loaded_bytes = 0, failed_jobs = 0;
    std::uint64_t region_bytes = 0, registered_bytes = 0;  ///< as the rank says of its device
  };
  std::vector<Rank> ranks;
  std::uint64_t orders = 0, outcomes = 0, quiesced = 0, failed = 0, deadlines = 0;
  std::uint64_t strange_frames = 0;  ///< connections ended for what they said
};

}  // namespace kv_offload
