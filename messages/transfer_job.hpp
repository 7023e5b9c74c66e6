#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/request.hpp"

namespace kv_offload {

/// Admission's own sequence: names what was admitted together for one tier. Travels with the job and
/// comes back at completion or withdrawal.
using AdmissionTicket = std::uint64_t;

/// Chunks of a job that were admitted under one ticket.
struct TicketShare {
  AdmissionTicket ticket = 0;
  std::uint32_t chunks = 0;
};

/// One transfer between the primary tier and one secondary tier.
struct TransferJob {
  JobId job_id;
  bool is_promotion = false;       ///< true: secondary → primary (load); false: cascade (store)
  TierIndex tier = 0;
  Epoch epoch = 0;
  std::vector<TicketShare> tickets;         ///< together as many chunks as there are keys
  KeyList keys;
  std::vector<ChunkId> chunk_ids;           ///< slots, co-indexed with keys; pinned or reserved for the job
  std::vector<std::uint32_t> generations;   ///< slot generations at the time of the pin, co-indexed
  std::uint64_t chunk_bytes = 0;            ///< row length incl. padding
  MonotonicTime submit_time;
  MonotonicTime deadline;                   ///< Outcome is given at the latest here, by the tracker
  SharedRequest request;                    ///< may be null for work of no request
  [[nodiscard]] std::uint64_t bytes() const { return chunk_bytes * keys.size(); }
};

/// Why a key of a job did not arrive.
enum class TransferFailure : std::uint8_t {
  none,
  io_error,         ///< errno of the device or file system
  not_found,        ///< the tier no longer has it
  corrupt,          ///< digest mismatch or short file: quarantined, never served
  foreign,          ///< a file without our digest, refused by configuration
  no_space,
  cancelled,        ///< taken from the queue before it ran (drain, shutdown)
  deadline,
  lane_dead,        ///< the tier's I/O thread is gone
  stale_slot,       ///< the slot's generation changed under the job
};
inline constexpr std::size_t kNumTransferFailures = 10;

constexpr std::string_view to_string(TransferFailure f) {
  switch (f) {
    case TransferFailure::none: return "none";
    case TransferFailure::io_error: return "io_error";
    case TransferFailure::not_found: return "not_found";
    case TransferFailure::corrupt: return "corrupt";
    case TransferFailure::foreign: return "foreign";
    case TransferFailure::no_space: return "no_space";
    case TransferFailure::cancelled: return "cancelled";
    case TransferFailure::deadline: return "deadline";
    case TransferFailure::lane_dead: return "lane_dead";
    case TransferFailure::stale_slot: return "stale_slot";
  }
  return "unknown";
}

/// Fate of one key of a job, co-indexed with TransferJob::keys.
enum class KeyFate : std::uint8_t {
  failed,
  done,             ///< stored, or loaded and verified
  already_present,  ///< stores only: the tier had it, no byte moved
};

/// First end of a job (Outcome). Each registered job has exactly one.
struct JobResult {
  JobId job_id;
  bool success = false;              ///< every key done or already present
  std::vector<KeyFate> fates;        ///< co-indexed with the job's keys; empty: all failed
  TransferFailure failure = TransferFailure::none;  ///< of the first failed key
  int error_number = 0;              ///< errno of the first failed key, 0 if none
  std::uint64_t transfer_bytes = 0;  ///< really moved (already_present moves none)
  Duration transfer_time{};          ///< sum of I/O time, without queueing
  MonotonicTime finished_at;         ///< stamped by the lane
  std::uint32_t unverified = 0;      ///< chunks accepted without our digest (foreign_files: accept)
};

}  // namespace kv_offload
