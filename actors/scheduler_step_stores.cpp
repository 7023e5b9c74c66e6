#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <limits>

// Stores and loads between device and primary tier:
//
//   prepare_store ─ReserveStore→ store_reserved (lease) · complete_store ─PublishStore→ (cascades)
//   prepare_load ─PinLeading→ load_pinned (lease) · complete_load ─Unpin→
namespace kv_offload {
namespace {

std::string copied_by_workers(LeaseId lease) {
  return "lease " + to_string(lease) + " is being copied by the workers, and ends with the copy";
}

}  // namespace

void SchedulerStepState::prepare_store(const PrepareStoreCall& m) {
  if (refuses_work(m.reply) || refuses_lease(m.reply)) return;
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  auto keys = keys_of(*request, m.keys, m.reply);
  if (!keys) return;
  const auto wanted = chunks_to_store(*request, keys->size(), m.options);
  const auto capped = static_cast<std::uint32_t>(keys->size() - wanted);
  totals_.stores_capped_chunks += capped;
  request->stored_chunks += wanted;
  note_store(m.request, *request, keys->size(), m.options.first_token);
  if (capped > 0)
    keys = std::make_shared<const KeyList>(keys->begin(), keys->begin() + static_cast<std::ptrdiff_t>(wanted));
  const auto id = next_op_++;
  ++request->open_ops;
  ++request->open_stores;
  prepare_stores_.emplace(id, PrepareStoreOp{m.request, keys, m.options.first_token, capped, m.reply});
  homes_.send(ReserveStore{id, m.request, std::move(keys)});
}

/// How many of the leading `keys` the request may store: max_offload_tokens, and the prompt's end where it
/// is known how far the chunks reach.
std::size_t SchedulerStepState::chunks_to_store(const Request& request, std::size_t keys,
                                                const StoreOptions& options) const {
  const auto& r = request.context->request;
  const std::uint64_t per_chunk = deps_.tokens_per_chunk;
  if (per_chunk == 0) return keys;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  if (r.max_offload_tokens) limit = *r.max_offload_tokens;
  std::uint64_t before = 0;
  if (options.first_token) {
    before = *options.first_token;
    if (deps_.offload_prompt_only && r.prompt_tokens > 0) limit = std::min(limit, r.prompt_tokens);
  } else {
    before = request.stored_chunks * per_chunk;
  }
  if (before >= limit) return 0;
  return static_cast<std::size_t>(std::min<std::uint64_t>(keys, (limit - before) / per_chunk));
}

void SchedulerStepState::store_reserved(const StoreReserved& m) {
  const auto it = prepare_stores_.find(m.op);
  if (it == prepare_stores_.end()) return;
  const auto op = std::move(it->second);
  prepare_stores_.erase(it);
  auto* request = find_request(op.request);
  if (request != nullptr) --request->open_ops;
  if (!m.ok) {
    if (request != nullptr) {
      --request->open_stores;
      request->stored_chunks -= std::min<std::uint64_t>(request->stored_chunks, op.keys->size());  // asked for again
    }
    ++totals_.allocation_failures;
    op.reply.fail(OffloadErrc::no_space, "no " + std::to_string(op.keys->size()) +
                                             " slots can be had now: too many chunks are pinned, held or being written");
    return maybe_forget(op.request);
  }
  Lease lease{op.request, true, epoch_, {}, m.chunk_ids, m.generations, 0, self_->clock().now()};
  if (m.key_idx.size() == op.keys->size()) {
    lease.keys = op.keys;
  } else {
    auto stored = std::make_shared<KeyList>();
    stored->reserve(m.key_idx.size());
    for (const auto i : m.key_idx) stored->push_back((*op.keys)[i]);
    lease.keys = std::move(stored);
  }
  if (request != nullptr && op.first_token && request->save_floor > 0)
    lease.below_floor = static_cast<std::size_t>(std::count_if(m.key_idx.begin(), m.key_idx.end(), [&](auto i) {
      return *op.first_token + (i + 1ULL) * deps_.tokens_per_chunk <= request->save_floor;
    }));
  const LeaseId lease_id{deps_.domain, next_lease_++};
  totals_.remote_stored_chunks += chunks_elsewhere(m.chunk_ids);
  leases_.emplace(lease_id, std::move(lease));
  if (request != nullptr) ++request->open_leases;
  op.reply.deliver(StorePlan{lease_id, m.key_idx, m.chunk_ids, m.evicted, op.capped});
  if (request == nullptr || request->request_level_tiers.empty() || m.key_idx.size() == op.keys->size()) return;
  KeyIdxList present;  // a tier wants the request whole: what is there already is offered to it now
  for (std::uint32_t i = 0, next = 0; i < op.keys->size(); ++i) {
    if (next < m.key_idx.size() && m.key_idx[next] == i) ++next;
    else present.push_back(i);
  }
  cascade_present(next_op_++,
                  PresentOp{op.request, request->context, op.keys, request->request_level_tiers, true, epoch_, 0, {}, {}},
                  std::move(present));
}

/// How many lie in another domain's memory.
std::uint64_t SchedulerStepState::chunks_elsewhere(const std::vector<ChunkId>& chunks) const {
  if (deps_.map.domains == 1) return 0;
  return static_cast<std::uint64_t>(std::count_if(chunks.begin(), chunks.end(), [&](auto chunk) {
    return deps_.map.domain_of(chunk) != deps_.domain;
  }));
}

void SchedulerStepState::complete_store(const CompleteStoreCall& m) {
  const auto it = leases_.find(m.lease);
  if (it == leases_.end() || !it->second.is_store)
    return m.reply.fail(OffloadErrc::unknown_lease, "lease " + to_string(m.lease) + " is no open store");
  if (it->second.copying)
    return m.reply.fail(OffloadErrc::invalid_argument, copied_by_workers(m.lease));
  CascadeOp op;
  op.counts_call = true;
  op.lease = std::move(it->second);
  leases_.erase(it);
  op.request = op.lease.request;
  op.options = m.options;
  op.reply = m.reply;
  if (auto* request = find_request(op.request)) {
    op.context = request->context;
    --request->open_leases;
    ++request->open_ops;
  }
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t)
    if (!op.context || op.context->excluded_tier != t) op.tiers.push_back(t);
  const auto id = next_op_++;
  const bool hold = m.options.success && !deps_.tiers.empty() && !op.lease.chunk_ids.empty();
  homes_.send(PublishStore{id, op.lease.chunk_ids, op.lease.generations, m.options.success, hold,
                           op.lease.epoch});
  cascades_.emplace(id, std::move(op));
}

// -- load -----------------------------------------------------------------------------------------------------

void SchedulerStepState::prepare_load(const PrepareLoadCall& m) {
  if (refuses_work(m.reply) || refuses_lease(m.reply)) return;
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  auto keys = keys_of(*request, m.keys, m.reply);
  if (!keys) return;
  drop_memo(*request);  // the leading holds become pins
  compute_meter_.loading(m.request);
  const auto id = next_op_++;
  ++request->open_ops;
  prepare_loads_.emplace(id, PrepareLoadOp{m.request, m.reply});
  homes_.send(PinLeading{id, m.request, std::move(keys)});
}

void SchedulerStepState::load_pinned(const LeadingPinned& m) {
  const auto it = prepare_loads_.find(m.op);
  if (it == prepare_loads_.end()) return;
  const auto op = std::move(it->second);
  prepare_loads_.erase(it);
  if (auto* request = find_request(op.request)) {
    --request->open_ops;
    ++request->open_leases;
    request->summary.loaded_chunks += m.chunk_ids.size();
  }
  totals_.device_loaded_chunks += m.chunk_ids.size();
  totals_.remote_loaded_chunks += chunks_elsewhere(m.chunk_ids);
  const LeaseId lease_id{deps_.domain, next_lease_++};
  leases_.emplace(lease_id, Lease{op.request, false, epoch_, {}, m.chunk_ids, {}, 0, self_->clock().now()});
  op.reply.deliver(LoadPlan{lease_id, m.chunk_ids});
}

void SchedulerStepState::complete_load(const CompleteLoadCall& m) {
  const auto it = leases_.find(m.lease);
  if (it == leases_.end() || it->second.is_store)
    return m.reply.fail(OffloadErrc::unknown_lease, "lease " + to_string(m.lease) + " is no open load");
  if (it->second.copying)
    return m.reply.fail(OffloadErrc::invalid_argument, copied_by_workers(m.lease));
  const auto lease = std::move(it->second);
  leases_.erase(it);
  if (!lease.copy_failed)
    load_costs_.copied(lease.chunk_ids.size(), self_->clock().now() - lease.opened_at);
  compute_meter_.loaded(lease.request, lease.copy_failed ? 0 : lease.chunk_ids.size(),
                        self_->clock().now());
  homes_.send(Unpin{lease.chunk_ids, lease.epoch});
  if (auto* request = find_request(lease.request)) --request->open_leases;
  m.reply.deliver(Ok{});
  maybe_forget(lease.request);
}

}  // namespace kv_offload
