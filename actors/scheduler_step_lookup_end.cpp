#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <map>

// How a lookup ends: its promotions landed, it gives up, or its request does; the answer and what is counted.
namespace kv_offload {

void SchedulerStepState::keys_resolved(const KeysResolved& m) {
  homes_.note(m);
  lookup_resolved(m);
}

/// Entries of keys that are on their way for nobody are ignored.
void SchedulerStepState::lookup_resolved(const KeysResolved& m) {
  std::vector<OpId> waiting, growing;
  std::map<OpId, KeyIdxList> unparked;
  for (const auto& e : m.entries) {
    const auto it = lookups_.find(e.op);
    if (it == lookups_.end()) {
      resolve_parked(e.op, e.key_idx, e.failure, unparked);
      continue;
    }
    auto& op = it->second;
    auto& state = op.state[e.key_idx];
    if (!LookupOp::on_its_way(state)) continue;
    const bool joined_first = op.verdict(e.key_idx, 0) == LookupOp::kNotAsked;
    if (e.failure == ResolveFailure::none) {
      state = LookupOp::Key::landed;
      if (joined_first) op.set_verdict(e.key_idx, 0, LookupOp::kHit);
    } else {
      if (joined_first) op.set_verdict(e.key_idx, 0, LookupOp::kMiss);
      const bool asked_nobody = joined_first && (e.failure == ResolveFailure::store_failed ||
                                                 e.failure == ResolveFailure::unclaimed);
      const bool still_there = !joined_first && e.failure == ResolveFailure::unclaimed;
      if (!still_there) op.found_in[e.key_idx] = 0;
      if (still_there) state = LookupOp::Key::tier_hit;
      else if (e.failure == ResolveFailure::tier_failed) next_tier_or_miss(op, e.key_idx, e.tier + 1U);
      else if (asked_nobody) next_tier_or_miss(op, e.key_idx, 0);
      else if (e.failure == ResolveFailure::refused) state = LookupOp::Key::refused;
      else if (e.failure == ResolveFailure::no_space) state = LookupOp::Key::no_space;
      else state = LookupOp::Key::miss;
    }
    if (op.growth && (growing.empty() || growing.back() != e.op)) growing.push_back(e.op);
    if (op.phase == LookupOp::Phase::waiting && (waiting.empty() || waiting.back() != e.op))
      waiting.push_back(e.op);
  }
  for (const auto id : growing) tell_growth(lookups_.at(id));
  for (auto& [id, key_idx] : unparked) unpark(id, std::move(key_idx));
  for (const auto id : waiting)
    if (const auto it = lookups_.find(id); it != lookups_.end() && it->second.phase == LookupOp::Phase::waiting)
      advance_lookup(it->second);
}

void SchedulerStepState::give_up_lookup(LookupOp& op, GiveUpReason reason) {
  const auto mark = static_cast<std::uint8_t>(LookupOp::kGaveUp + static_cast<int>(reason));
  if (op.phase == LookupOp::Phase::probing)
    for (const auto i : op.probe_idx)
      if (op.state[i] == LookupOp::Key::unknown && !op.is_on_device(i)) op.set_verdict(i, op.probe_tier + 1U, mark);
  for (std::uint32_t i = op.on_device; i < op.size(); ++i) {
    if (LookupOp::resolved_hit(op.state[i]) || LookupOp::not_found(op.state[i])) continue;
    if (op.verdict(i, 0) == LookupOp::kNotAsked) op.set_verdict(i, 0, mark);
    op.state[i] = LookupOp::Key::gave_up;
  }
  settle_lookup(op);
}

void SchedulerStepState::end_waits_of(RequestHandle request, OffloadErrc code, const std::string& why) {
  const auto reason = code == OffloadErrc::resetting ? GiveUpReason::reset : GiveUpReason::aborted;
  std::vector<OpId> interrupted;
  for (auto& [id, op] : lookups_) {
    if (op.request->handle != request || op.answered) continue;
    if (!op.replied) op.reply.fail(code, why);
    op.answered = true;
    if (op.phase == LookupOp::Phase::probing || op.phase == LookupOp::Phase::waiting) interrupted.push_back(id);
  }
  for (const auto id : interrupted) give_up_lookup(lookups_.at(id), reason);
}

LoadWorth SchedulerStepState::worth_of(const LookupOp& op, const LookupAnswer& answer) const {
  std::vector<std::uint8_t> origins;
  origins.reserve(answer.leading_hits);
  for (std::uint32_t i = op.on_device; i < answer.leading_hits; ++i)
    origins.push_back(LookupOp::on_its_way(op.state[i]) ? op.found_in[i] : std::uint8_t{0});
  const double compute_s = deps_.compute_tokens_per_s == 0 ? 0
                                                           : static_cast<double>(deps_.tokens_per_chunk) /
                                                                 static_cast<double>(deps_.compute_tokens_per_s);
  return load_costs_.worth(origins, compute_s);
}

/// The caller is told as soon as its holds are right; what is counted can wait for that, because whoever asks for
/// numbers asks this actor, after this handler.
void SchedulerStepState::settle_lookup(LookupOp& op) {
  auto answer = op.answer(deps_.atomic_groups);
  answer.worth = worth_of(op, answer);
  KeyIdxList beyond;
  const auto usable = op.polled() ? op.reach() : answer.leading_hits;
  for (auto i = static_cast<std::uint32_t>(op.answered ? op.on_device : usable); i < op.size(); ++i)
    if (LookupOp::resolved_hit(op.state[i]) && (op.answered || op.prefix())) beyond.push_back(i);
  if (!beyond.empty()) homes_.send(ReleaseHolds{op.request->handle, op.keys, std::move(beyond)});
  const auto handle = op.request->handle;
  if (op.answered) homes_.send(EndRequest{handle});
  auto* request = find_request(handle);
  if (request != nullptr) {
    note_lookup(op, *request, answer);
    request->summary.looked_up_chunks += op.reach() - op.on_device;
    request->summary.hit_chunks += answer.leading_hits - std::min(answer.leading_hits, op.on_device);
    request->summary.promoted_chunks += answer.promoted;
    request->summary.promoted_bytes += answer.promoted * deps_.chunk_bytes;
    --request->open_ops;
  }
  std::unique_ptr<LookupMemo> memo;
  if (request != nullptr && may_keep(op, *request, answer)) {
    memo = std::make_unique<LookupMemo>(LookupMemo{op.op, op.asked_keys, op.options, answer, op.memo_epoch,
                                                   op.reach() - op.on_device,
                                                   answer.leading_hits - std::min(answer.leading_hits, op.on_device), {}});
    for (const auto& l : totals_.lookups) memo->counted.push_back({l.looked_up, l.hit, l.miss});
  }
  if (!op.replied) op.reply.deliver(std::move(answer));
  count_lookup(op, request);
  if (request != nullptr) drop_memo(*request);  // this call may have ended holds that an earlier answer counted on
  if (memo) {
    for (std::size_t t = 0; t < memo->counted.size(); ++t) {
      auto& counted = memo->counted[t];
      const auto& l = totals_.lookups[t];
      counted = {l.looked_up - counted.looked_up, l.hit - counted.hit, l.miss - counted.miss};
    }
    request->memo = std::move(memo);
  }
  lookups_.erase(op.op);
  maybe_forget(handle);
}

/// Metrics cover exactly the keys that a scan key by key would have reached; the query metrics count a
/// (request, tier, key) once, and only before the request is allocated.
void SchedulerStepState::count_lookup(const LookupOp& op, Request* request) {
  const auto reach = op.reach();
  std::vector<std::uint64_t> fresh(op.num_tiers + 1, 0);  // by tier, as below
  if (request != nullptr && !request->allocated) request->counted.reserve(request->counted.size() + reach);
  for (std::size_t i = 0; i < reach; ++i) {
    for (std::size_t t = 0; t <= op.num_tiers; ++t) {
      auto verdict = op.verdict(i, t);
      // Who waits for it will have it; a poller is told "pending", which counts as nothing yet.
      if (t == 0 && verdict == LookupOp::kNotAsked && LookupOp::on_its_way(op.state[i]) && !op.polled())
        verdict = LookupOp::kHit;
      if (verdict == LookupOp::kNotAsked) continue;
      auto& l = totals_.lookups[t];
      ++l.looked_up;
      if (verdict >= LookupOp::kGaveUp) {
        ++l.gave_up[static_cast<std::size_t>(verdict - LookupOp::kGaveUp)];
        continue;
      }
      ++(verdict == LookupOp::kHit ? l.hit : l.miss);
      if (request == nullptr || request->allocated) continue;
      if (!request->counted.insert((*op.keys)[i].hash() + 0x9e3779b97f4a7c15ULL * t).second) continue;
      ++l.chunk_queries;
      l.chunk_hits += verdict == LookupOp::kHit ? 1U : 0U;
      ++fresh[t];
      if (t == 0 || !op.polled()) continue;
      if (const double async_s = op.key_async_s[i * op.num_tiers + t - 1]; async_s > 0)
        l.async_delay.observe(async_s);
    }
  }
  for (std::size_t t = 0; t <= op.num_tiers; ++t) {
    if (fresh[t] == 0) continue;
    auto& l = totals_.lookups[t];
    l.sync_delay.observe(t == 0 ? op.primary_s : op.tier_times[t - 1].sync_s, fresh[t]);
    if (t > 0 && !op.polled() && op.tier_times[t - 1].async_s > 0)
      l.async_delay.observe(op.tier_times[t - 1].async_s, fresh[t]);
  }
}

}  // namespace kv_offload
