#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/messages/pending.hpp"
#include "kv_offload/messages/prefix_growth.hpp"
#include "kv_offload/messages/request.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// Facade → scheduler_step: one struct per call, each with the reply it must deliver exactly once.

struct NewRequestCall {
  static constexpr std::string_view kName = "NewRequestCall";
  NewRequest request;
  std::optional<TierIndex> excluded_tier;  ///< asks on behalf of that tier
  Reply<OpenedRequest> reply;
};
struct LookupCall {
  static constexpr std::string_view kName = "LookupCall";
  RequestHandle request;
  SharedKeys keys;
  LookupOptions options;
  Reply<LookupAnswer> reply;
  std::shared_ptr<PrefixGrowth> growth = {};  ///< null: nobody asks how the prefix grows
  bool repeats = false;  ///< the caller keeps `keys` and asks again with this same list: worth a memo, if polled
};
struct AllocatedCall {
  static constexpr std::string_view kName = "AllocatedCall";
  RequestHandle request;
  std::uint64_t device_tokens = 0;
  Reply<Ok> reply;
};
struct TouchCall {
  static constexpr std::string_view kName = "TouchCall";
  RequestHandle request;
  SharedKeys keys;
  Reply<Ok> reply;
};
struct AbortCall {
  static constexpr std::string_view kName = "AbortCall";
  RequestHandle request;
  Reply<Ok> reply;
};
struct FinishCall {
  static constexpr std::string_view kName = "FinishCall";
  RequestHandle request;
  Reply<RequestSummary> reply;
};
struct PrepareStoreCall {
  static constexpr std::string_view kName = "PrepareStoreCall";
  RequestHandle request;
  SharedKeys keys;
  StoreOptions options;
  Reply<StorePlan> reply;
};
struct CompleteStoreCall {
  static constexpr std::string_view kName = "CompleteStoreCall";
  LeaseId lease;
  CompleteStoreOptions options;
  Reply<StoreOutcome> reply;
};
struct PrepareLoadCall {
  static constexpr std::string_view kName = "PrepareLoadCall";
  RequestHandle request;
  SharedKeys keys;
  Reply<LoadPlan> reply;
};
struct CompleteLoadCall {
  static constexpr std::string_view kName = "CompleteLoadCall";
  LeaseId lease;
  Reply<Ok> reply;
};
/// The engine's workers copy between their devices and the lease's rows; then the lease ends.
struct StoreBlocksCall {
  static constexpr std::string_view kName = "StoreBlocksCall";
  LeaseId lease;
  BlockList blocks;
  CopyOptions options;
  Reply<StoreOutcome> reply;
};
struct LoadBlocksCall {
  static constexpr std::string_view kName = "LoadBlocksCall";
  LeaseId lease;
  BlockList blocks;
  CopyOptions options;
  Reply<Ok> reply;
};
struct StepCall {
  static constexpr std::string_view kName = "StepCall";
  bool ends = false;  ///< step_end: pending promotions are submitted first
  ScheduleEnd step;
  Reply<Ok> reply;
};
struct EventsCall {
  static constexpr std::string_view kName = "EventsCall";
  Reply<std::vector<OffloadingEvent>> reply;
};
struct StatsCall {
  static constexpr std::string_view kName = "StatsCall";
  Reply<EngineStats> reply;
};
/// A tier stores what the primary tier has of `keys` for somebody else; of an external request only.
struct StoreJobCall {
  static constexpr std::string_view kName = "StoreJobCall";
  TierIndex tier = 0;
  RequestHandle request;
  SharedKeys keys;
  Reply<StoreJobPlan> reply;
};
/// Keys, or everything of one tenant.
struct ForgetCall {
  static constexpr std::string_view kName = "ForgetCall";
  SharedKeys keys;
  std::string tenant;
  bool whole_tenant = false;
  Reply<ForgetSummary> reply;
};
struct PendingWorkCall {
  static constexpr std::string_view kName = "PendingWorkCall";
  Reply<bool> reply;
};
/// `cancel_queued`: tiers drop what has not started (reset, shutdown); running transfers always end.
struct DrainCall {
  static constexpr std::string_view kName = "DrainCall";
  bool cancel_queued = false;
  std::optional<Duration> patience;  ///< instead of deadlines.drain
  Reply<Ok> reply;
};
struct ResetCall {
  static constexpr std::string_view kName = "ResetCall";
  bool change_revision = false;
  std::string revision;
  Reply<Ok> reply;
};

}  // namespace kv_offload
