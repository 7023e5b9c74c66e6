#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/tier_traits.hpp"

namespace kv_offload {

/// What the serving engine announces before any other call of a request.
struct NewRequest {
  std::string req_id;               ///< unique among live requests
  std::uint64_t prompt_tokens = 0;  ///< length of the prompt; feeds the admission gates
  TierFilter load_tiers = {};            ///< secondary tiers this request may load from
};

/// Shared, immutable view of a request for policies and tiers. Same object on every call.
struct RequestContext {
  RequestHandle handle;
  NewRequest request;
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

/// Grant of prepare_load: the leading keys that were still present, pinned until complete_load.
struct LoadPlan {
  LeaseId lease;
  std::vector<ChunkId> chunk_ids;  ///< co-indexed with the first chunk_ids.size() keys of the call
};

/// End of a scheduler step in a step-driven embedder.
struct ScheduleEnd {
  std::vector<RequestHandle> new_requests;        ///< first scheduled in this step
  std::vector<RequestHandle> preempted_requests;
};

}  // namespace kv_offload
