#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/tier_traits.hpp"

namespace kv_offload {

/// What was wrong with a request's kv_transfer_params; such a field is treated as absent.
enum class TransferParamFault : std::uint8_t { not_an_object, kv_load_tiers, max_offload_tokens, max_load_tokens };
inline constexpr std::size_t kNumTransferParamFaults = 4;
constexpr std::string_view to_string(TransferParamFault f) {
  constexpr std::string_view kNames[] = {"not_an_object", "kv_load_tiers", "max_offload_tokens", "max_load_tokens"};
  return kNames[static_cast<std::size_t>(f)];
}

/// What the serving engine announces before any other call of a request.
struct NewRequest {
  /// Unique among the live requests of a domain: another one of this name there is an error. What another domain has is
  /// not looked at (each owns its requests, and asking the others would cost every request a hop): who names the domain
  /// itself gives no name twice.
  std::string req_id;
  std::uint64_t prompt_tokens = 0;  ///< length of the prompt; feeds the admission gates
  TierFilter load_tiers = {};       ///< secondary tiers this request may load from
  /// Chunks of different tenants never meet: each tenant's keys are salted with its name. Requests without
  /// a tenant share one space, in which a key is what the caller says.
  std::string tenant = {};
  std::optional<std::uint64_t> max_offload_tokens = {};  ///< prompt tokens stored at most
  /// Prompt tokens that lookups report at most, counted from the end of the device's own chunks; where a
  /// lookup's keys lie is in its first_token and device_tokens.
  std::optional<std::uint64_t> max_load_tokens = {};
  /// The serving engine's JSON object, as it came. Its kv_load_tiers, max_offload_tokens and
  /// max_load_tokens win over the fields above; tiers find their own routing in it.
  std::string kv_transfer_params = {};
  std::vector<TransferParamFault> param_faults = {};  ///< filled by the facade
  /// Higher goes first where requests stand in line for slots, and where loads are submitted together. Equal ones
  /// by arrival. Nobody waits behind higher ones for more than a quarter of its lookup's time.
  std::int32_t priority = 0;
  /// The domain that serves the request and near whose memory its chunks are stored: that of its device. Unset: the
  /// domain of the processor that new_request is called on.
  std::optional<DomainId> domain = {};
};

/// Which chunks of a request its caller is to offer to prepare_store.
enum class OffloadPolicy : std::uint8_t {
  chunk_level,    ///< those newly computed
  request_level,  ///< every chunk, prefix hits too: a tier wants the request whole
};

/// Answer of new_request; stands for its handle wherever one is needed.
struct OpenedRequest {
  RequestHandle handle;
  OffloadPolicy policy = OffloadPolicy::chunk_level;
  operator RequestHandle() const { return handle; }  // NOLINT: the handle is what every call takes
};

/// Shared, immutable view of a request for policies and tiers. Same object on every call.
struct RequestContext {
  RequestHandle handle;
  NewRequest request;
  /// The tier on whose behalf the request was made: it is neither asked nor told. Unset: the caller's own.
  std::optional<TierIndex> excluded_tier = {};
};
using SharedRequest = std::shared_ptr<const RequestContext>;

/// What one request moved, answered by request_finished.
struct RequestSummary {
  std::uint64_t looked_up_chunks = 0;
  std::uint64_t hit_chunks = 0;
  std::uint64_t promoted_chunks = 0;
  std::uint64_t promoted_bytes = 0;
  std::uint64_t stored_chunks = 0;    ///< device → primary
  std::uint64_t loaded_chunks = 0;    ///< primary → device
  std::uint64_t cascaded_chunks = 0;  ///< admitted to secondary tiers, each tier counted
  std::uint64_t refused_chunks = 0;   ///< refused by admission, each tier counted
};

/// Grant of prepare_store. The caller copies into `chunk_ids` and then calls complete_store.
struct StorePlan {
  LeaseId lease;                             ///< valid even if nothing is to be stored
  std::vector<std::uint32_t> key_idx;        ///< which keys of the call to store, in call order
  std::vector<ChunkId> chunk_ids;            ///< co-indexed with key_idx
  std::uint32_t evicted = 0;                 ///< chunks that made room
  std::uint32_t capped = 0;                  ///< keys left out: max_offload_tokens or offload_prompt_only
};

struct StoreOptions {
  /// Where the first key's chunk begins in the request, in tokens; the others follow without a gap (so the
  /// keys are of one cache group). Unknown: max_offload_tokens limits how much the request stores, wherever it lies.
  std::optional<std::uint64_t> first_token = {};
};

/// What complete_store did. Cascade counts are final only if the call waited for them.
struct StoreOutcome {
  std::uint32_t published = 0;
  std::uint32_t cascades_admitted = 0;  ///< jobs, one per admitted tier
  std::uint32_t cascades_refused = 0;
  std::uint32_t chunks_stored = 0;      ///< in secondary tiers, each tier counted
  std::uint32_t chunks_failed = 0;
};

struct CompleteStoreOptions {
  bool success = true;          ///< false drops the reserved slots
  bool wait_cascades = false;   ///< answer only when every admitted cascade has ended
};

/// How the engine's workers copy for a lease.
struct CopyOptions {
  bool wait_cascades = false;  ///< store_blocks: as in CompleteStoreOptions
  /// The caller tells the workers itself, by a job of this id (below 2^63, never used before); the engine waits for
  /// all of them to report it (WorkerProcess::submit, or decline), which they may do before this call.
  std::optional<std::uint64_t> told_job = {};
};

/// Grant of prepare_load: the leading keys that were still present, pinned until complete_load.
struct LoadPlan {
  LeaseId lease;
  std::vector<ChunkId> chunk_ids;  ///< co-indexed with the first chunk_ids.size() keys of the call
};

/// What became of a tier's wish to store for somebody else: the job that its `submit` gets next, if any.
struct StoreJobPlan {
  std::optional<JobId> job;             ///< none: refused by admission, or nothing was present
  std::vector<std::uint32_t> key_idx;   ///< keys of the call that the job stores, in call order
};

/// What forget removed. Chunks in use go when their last use ends; they are found by nobody meanwhile.
struct ForgetSummary {
  std::uint64_t primary_chunks = 0;
  std::uint64_t tier_chunks = 0;            ///< all secondary tiers together
  std::vector<std::string> not_forgotten;   ///< labels of tiers that could not, each with its reason
};

/// End of a scheduler step in a step-driven embedder.
struct ScheduleEnd {
  std::vector<RequestHandle> new_requests;        ///< first scheduled in this step
  std::vector<RequestHandle> preempted_requests;
};

}  // namespace kv_offload
