#pragma once

#include <functional>

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/request.hpp"

namespace kv_offload {

/// What a tier may ask of the engine on behalf of somebody else (a peer that wants chunks). Every request
/// made here leaves the asking tier out: it is neither looked up nor stored to. For each remote request:
///
///     new_request → lookup (repeat) / create_store_job (repeat, may interleave) → request_finished (always)
///
/// A revocable address: once the tier is stopped or disabled every call answers `expired`, and is counted.
/// Callable from any thread; never blocks. Each callback runs once, on an engine thread or inside the call,
/// and must not block.
class ParentManager {
 public:
  template <class T>
  using Callback = std::function<void(Expected<T>)>;

  virtual ~ParentManager() = default;
  virtual void new_request(NewRequest request, Callback<OpenedRequest> callback) = 0;
  /// May promote from other tiers; `hit_pending` and `retry` as the options say.
  virtual void lookup(RequestHandle request, KeyList keys, LookupOptions options, Callback<LookupAnswer> callback) = 0;
  /// Pins what is present of `keys`; the asking tier gets it as a store job of this request. Admission may
  /// refuse: then there is no job, and the tier answers miss for these keys.
  virtual void create_store_job(RequestHandle request, KeyList keys, Callback<StoreJobPlan> callback) = 0;
  virtual void request_finished(RequestHandle request, Callback<RequestSummary> callback) = 0;
};

}  // namespace kv_offload
