#include "kv_offload/actors/scheduler_step_actor.hpp"
#include "kv_offload/messages/broken_promise.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <limits>

// The lookup flow of the scheduler_step actor up to its promotions, in the order in which a call meets it (how it
// ends: scheduler_step_lookup_end.cpp):
//
//   lookup ─PrimaryProbe→ lookup_probed ─┬─ ask_tier ─TierProbe→ lookup_tier_probed ─┐ (window by window)
//                                        └───────────────── advance_lookup ◄─────────┘
//   advance_lookup ─ claim_tier_hits ─PrimaryClaim→ lookup_claimed ─AdmitPromotions→ lookup_admitted
//     ─PrimaryGrant→ lookup_granted ─TrackJobs→ … ─KeysResolved→ lookup_resolved ─ advance_lookup ─ settle_lookup
namespace kv_offload {

void SchedulerStepState::lookup(const LookupCall& m) {
  if (refuses_work(m.reply)) return;
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  if (m.keys->empty()) return m.reply.deliver(LookupAnswer{});
  if (answer_from_memo(*request, m)) return;
  if (promise_broken(8) && open_jobs_ > 0) return delayed_lookups_.push_back(m);
  auto keys = keys_of(*request, m.keys, m.reply);
  if (!keys) return;
  std::uint32_t capped = 0;
  if (const auto limit = request->context->request.max_load_tokens;
      limit && deps_.tokens_per_chunk > 0) {
    // Loads begin where the device's own chunks end.
    const std::uint64_t per_chunk = deps_.tokens_per_chunk, first = m.options.first_token;
    const auto begin = chunk_ceil(m.options.device_tokens, per_chunk);
    const auto end = *limit > std::numeric_limits<std::uint64_t>::max() - begin ? std::numeric_limits<std::uint64_t>::max()
                                                                                : begin + *limit;
    const auto wanted = std::min<std::uint64_t>(keys->size(), end > first ? (end - first) / per_chunk : 0);
    capped = static_cast<std::uint32_t>(keys->size() - wanted);
    totals_.loads_capped_chunks += capped;
    if (capped > 0)
      keys = std::make_shared<const KeyList>(keys->begin(), keys->begin() + static_cast<std::ptrdiff_t>(wanted));
    if (keys->empty()) {
      LookupAnswer nothing;
      nothing.results.assign(capped, LookupResult::miss);
      nothing.tier_hits.assign(deps_.tiers.size() + 1, 0);
      nothing.capped = capped;
      return m.reply.deliver(std::move(nothing));
    }
  }
  const auto id = next_op_++;
  auto& op = lookups_
                 .emplace(id, LookupOp(id, request->context, keys, m.options, deps_.tiers.size(),
                                       keys_on_device(m.options, keys->size()), m.reply))
                 .first->second;
  op.capped = capped;
  op.growth = m.growth;
  op.window = std::min(ProbeWindows::kFirst, deps_.probes_max);
  if (m.repeats && op.polled() && deps_.atomic_groups.empty()) op.asked_keys = m.keys;
  op.turn = request->turn;
  op.memo_epoch = memo_epoch_;
  op.started = self_->clock().now();
  ask_gate(op, *request);
  const auto allowed = m.options.give_up > Duration::zero() ? std::min(m.options.give_up, deps_.deadlines.lookup)
                                                            : deps_.deadlines.lookup;
  op.deadline = op.started + allowed;
  op.patience = allowed / 2;
  ++request->open_ops;
  const bool no_tier = first_allowed_tier(op, 0) == deps_.tiers.size();
  homes_.send(PrimaryProbe{id, m.request, op.keys, m.options.hold, op.waits_for_landing(),
                           op.prefix() && no_tier, op.on_device, op.asked_keys != nullptr,
                           op.prefix()});
}

/// How many of the first keys the caller says its device holds. They are named so that the tiers can be
/// judged by them, not to be loaded.
std::uint32_t SchedulerStepState::keys_on_device(const LookupOptions& options, std::size_t keys) const {
  if (deps_.tokens_per_chunk == 0 || options.scan != LookupScan::prefix || options.device_tokens <= options.first_token)
    return 0;
  const auto whole = (options.device_tokens - options.first_token) / deps_.tokens_per_chunk;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(whole, keys));
}

void SchedulerStepState::lookup_probed(const PrimaryProbed& m) {
  const auto it = lookups_.find(m.op);
  if (it == lookups_.end()) return;
  auto& op = it->second;
  op.unheld = m.unheld;
  op.primary_s = m.states.empty() ? 0 : to_seconds(m.handler_time) / static_cast<double>(m.states.size());
  op.primary_states = m.states;
  op.primary_told = true;
  op.watched = m.watched;
  if (!op.awaits_gate) take_primary_answer(op);
}

void SchedulerStepState::take_primary_answer(LookupOp& op) {
  const auto states = std::exchange(op.primary_states, {});
  std::size_t wanted = 0;
  for (std::uint32_t i = op.on_device; i < op.size(); ++i) {
    const auto at = i - op.on_device;
    if (at >= states.size()) {
      op.state[i] = LookupOp::Key::miss;  // behind the first miss: never reached
    } else if (states[at] == LookupResult::hit) {
      op.state[i] = LookupOp::Key::hit;
      op.set_verdict(i, 0, LookupOp::kHit);
    } else if (states[at] == LookupResult::hit_pending) {
      op.state[i] = LookupOp::Key::pending;
    } else {
      op.set_verdict(i, 0, LookupOp::kMiss);
      next_tier_or_miss(op, i, 0);
      wanted += op.state[i] == LookupOp::Key::unknown ? 1U : 0U;
    }
  }
  begin_windows(op, wanted);
  if (op.on_device == op.size() && !op.polled()) {
    op.replied = true;
    op.reply.deliver(op.answer(deps_.atomic_groups));
    ask_about_device_key(op, 0);
  }
  op.follow_with_device_key();
  tell_growth(op);
  advance_lookup(op);
}

/// At most one message to the caller per message that brought something.
void SchedulerStepState::tell_growth(LookupOp& op) {
  if (!op.growth || op.answered || op.replied) return;
  if (const auto readable = op.grown(deps_.atomic_groups)) op.growth->report(*readable);
}

/// The device holds every key of the call: nobody waits for what the tiers say of the last one.
void SchedulerStepState::ask_about_device_key(LookupOp& op, std::size_t from_tier) {
  const auto last = op.on_device - 1U;
  auto next = op.found_in[last] == 0 ? first_allowed_tier(op, from_tier) : deps_.tiers.size();
  while (next < deps_.tiers.size() && !op.asked_until.empty() && op.asked_until[next] == 0)
    next = first_allowed_tier(op, next + 1);
  op.state[last] = next < deps_.tiers.size() ? LookupOp::Key::unknown : LookupOp::Key::on_device;
  if (next < deps_.tiers.size()) op.next_tier[last] = static_cast<TierIndex>(next);
}

void SchedulerStepState::advance_lookup(LookupOp& op) {
  if (op.answered) return settle_lookup(op);
  if (auto window = op.next_window(); !window.empty()) return ask_tier(op, std::move(window));
  if (auto hits = op.tier_hits(); !hits.empty()) return claim_tier_hits(op, std::move(hits));
  if (op.waits_for_landing() && op.in_flight() > 0) {
    op.phase = LookupOp::Phase::waiting;
    return;
  }
  settle_lookup(op);
}

// -- tiers ------------------------------------------------------------------------------------------------

std::size_t SchedulerStepState::first_allowed_tier(const LookupOp& op, std::size_t from) const {
  for (auto t = from; t < deps_.tiers.size(); ++t)
    if (tier_alive_[t] && op.request->excluded_tier != t && (op.skipped.empty() || !op.skipped[t]) &&
        op.request->request.load_tiers.allows(deps_.traits[t]))
      return t;
  return deps_.tiers.size();
}

void SchedulerStepState::next_tier_or_miss(LookupOp& op, std::uint32_t key_idx, std::size_t from_tier) {
  auto next = first_allowed_tier(op, from_tier);
  while (next < deps_.tiers.size() && !op.asked_until.empty() && key_idx >= op.asked_until[next])
    next = first_allowed_tier(op, next + 1);
  if (next < deps_.tiers.size()) {
    op.state[key_idx] = LookupOp::Key::unknown;
    op.next_tier[key_idx] = static_cast<TierIndex>(next);
  } else {
    op.state[key_idx] = op.retry_seen[key_idx] ? LookupOp::Key::retry : LookupOp::Key::miss;
  }
}

/// Pollers take no part: they are answered before a tier has said anything.
void SchedulerStepState::begin_windows(LookupOp& op, std::size_t wanted) {
  if (wanted == 0 || op.polled()) return;
  op.learns_of = static_cast<TierIndex>(first_allowed_tier(op, 0));
  op.window = probe_windows_[*op.learns_of].begin(wanted);
}

void SchedulerStepState::ask_tier(LookupOp& op, KeyIdxList window) {
  op.phase = LookupOp::Phase::probing;
  op.probe_tier = op.next_tier[window.front()];
  op.probe_deadline = self_->clock().now() + deps_.deadlines.probe;
  op.window = probe_windows_[op.probe_tier].after(op.window);
  op.probe_idx = std::move(window);
  if (op.polled())  // the tier keeps its verdicts until the request is closed
    if (auto* request = find_request(op.request->handle)) request->told[op.probe_tier] = true;
  self_->send(deps_.tiers[op.probe_tier],
              TierProbe{op.op, ++op.round, op.keys, op.probe_idx, op.polled(), op.request->handle});
}

namespace {

/// Of the window that was just answered.
std::size_t found_within_reach(const LookupOp& op) {
  const auto reach = op.reach();
  return static_cast<std::size_t>(
      std::count_if(op.probe_idx.begin(), op.probe_idx.end(),
                    [&](auto i) { return i < reach && op.state[i] == LookupOp::Key::tier_hit; }));
}

}  // namespace

void SchedulerStepState::lookup_tier_probed(const TierProbed& m) {
  const auto it = lookups_.find(m.op);
  if (it == lookups_.end()) return;
  auto& op = it->second;
  if (op.phase != LookupOp::Phase::probing || op.round != m.round) return;  // late: already given up
  const auto n = static_cast<double>(std::max<std::size_t>(m.verdicts.size(), 1));
  op.may_change = op.may_change || m.may_change;
  op.tier_times[m.tier] = {to_seconds(m.handler_time) / n, to_seconds(m.probe_time),
                           op.tier_times[m.tier].probing + m.probe_time};
  compute_meter_.probed(m.tier, m.probe_time);
  for (std::size_t k = 0; k < op.probe_idx.size(); ++k) {
    const auto i = op.probe_idx[k];
    const auto verdict = k < m.verdicts.size() ? m.verdicts[k] : TierVerdict::retry;
    if (op.is_on_device(i)) {
      if (verdict == TierVerdict::hit) op.found_in[i] = static_cast<std::uint8_t>(m.tier + 1);
      if (op.replied) ask_about_device_key(op, m.tier + 1U);
      continue;
    }
    if (k < m.probe_times.size())
      op.key_async_s[i * op.num_tiers + m.tier] = static_cast<float>(to_seconds(m.probe_times[k]));
    const auto gave_up = [&](GiveUpReason why) {
      op.set_verdict(i, m.tier + 1U, static_cast<std::uint8_t>(LookupOp::kGaveUp + static_cast<int>(why)));
    };
    if (verdict == TierVerdict::hit) {
      op.state[i] = LookupOp::Key::tier_hit;
      op.found_in[i] = static_cast<std::uint8_t>(m.tier + 1);
      op.set_verdict(i, m.tier + 1U, LookupOp::kHit);
      continue;
    }
    if (verdict == TierVerdict::miss) op.set_verdict(i, m.tier + 1U, LookupOp::kMiss);
    if (verdict == TierVerdict::probes_full) gave_up(GiveUpReason::probes_full);
    if (verdict == TierVerdict::tier_down) gave_up(GiveUpReason::tier_down);
    if (verdict == TierVerdict::retry) {
      gave_up(GiveUpReason::error);
      op.retry_seen[i] = !op.polled();  // a poller has asked often enough: it counts as a miss
    }
    if (verdict == TierVerdict::pending) op.retry_seen[i] = true;
    next_tier_or_miss(op, i, m.tier + 1U);
  }
  if (m.tier == op.learns_of) {
    op.found += found_within_reach(op);
    probe_windows_[m.tier].found(op.found);
  }
  op.follow_with_device_key();
  advance_lookup(op);
}

void SchedulerStepState::give_up_probe(LookupOp& op, GiveUpReason reason) {
  for (const auto i : op.probe_idx) {
    if (op.is_on_device(i)) op.state[i] = LookupOp::Key::on_device;
    if (op.state[i] != LookupOp::Key::unknown) continue;
    op.set_verdict(i, op.probe_tier + 1U,
                   static_cast<std::uint8_t>(LookupOp::kGaveUp + static_cast<int>(reason)));
    next_tier_or_miss(op, i, op.probe_tier + 1U);
  }
  op.follow_with_device_key();
  ++op.round;
  advance_lookup(op);
}

// -- claim, admission, grant --------------------------------------------------------------------------------

void SchedulerStepState::claim_tier_hits(LookupOp& op, KeyIdxList hits) {
  if (!jobs_fit(deps_.tiers.size() * (op.growth ? 1 + std::size(LookupOp::kFirstJobs) : 1))) {
    for (const auto i : hits) {
      auto& offer = totals_.offers[op.found_in[i] - 1U];
      offer.promotions_offered.add(1, deps_.chunk_bytes);
      offer.promotions_dropped[static_cast<std::size_t>(DropReason::jobs_full)].add(1, deps_.chunk_bytes);
      op.state[i] = LookupOp::Key::no_space;
      ++op.truncated;
    }
    return advance_lookup(op);
  }
  op.phase = LookupOp::Phase::claiming;
  op.claimed = std::move(hits);
  homes_.send(PrimaryClaim{op.op, op.request->handle, op.keys, op.claimed, op.options.hold,
                           op.waits_for_landing()});
}

void SchedulerStepState::lookup_claimed(const PrimaryClaimed& m) {
  const auto it = lookups_.find(m.op);
  if (it == lookups_.end()) return;
  auto& op = it->second;
  KeyIdxList asked = std::exchange(op.claimed, {});
  for (std::size_t n = 0; n < asked.size(); ++n) {
    if (m.states[n] == ClaimState::claimed) op.claimed.push_back(asked[n]);
    else op.state[asked[n]] = m.states[n] == ClaimState::present ? LookupOp::Key::landed : LookupOp::Key::pending;
  }
  tell_growth(op);
  if (op.claimed.empty()) return advance_lookup(op);
  op.phase = LookupOp::Phase::admitting;
  AdmitPromotions ask{op.op, op.request, op.keys, op.claimed, {}, deps_.chunk_bytes};
  for (const auto i : op.claimed) ask.tiers.push_back(static_cast<TierIndex>(op.found_in[i] - 1));
  self_->send(deps_.admission, std::move(ask));
}

void SchedulerStepState::lookup_admitted(const PromotionsDecided& m) {
  const auto it = lookups_.find(m.op);
  if (it == lookups_.end()) return;
  auto& op = it->second;
  auto* request = find_request(op.request->handle);
  op.tickets = m.tickets;
  const auto refused_at = std::min(op.tickets.size(), op.claimed.size());
  auto admitted = refused_at;
  if (!deps_.atomic_groups.empty() && admitted < op.claimed.size()) admitted = keep_siblings(op, admitted);
  for (std::size_t n = 0; n < op.claimed.size(); ++n) {
    const auto i = op.claimed[n];
    auto& offer = totals_.offers[op.found_in[i] - 1U];
    if (n < admitted) {
      offer.promotions_offered.add(1, deps_.chunk_bytes);
      continue;
    }
    op.state[i] = LookupOp::Key::refused;
    if (n < refused_at) continue;                  // a sibling, counted as dropped
    if (op.prefix() && n > refused_at) continue;  // behind the refused one nothing was asked
    offer.promotions_offered.add(1, deps_.chunk_bytes);
    offer.promotions_refused[static_cast<std::size_t>(m.refused)].add(1, deps_.chunk_bytes);
    ++op.num_refused;
    if (request != nullptr && request->refused_once.insert((*op.keys)[i].hash()).second)
      ++offer.promotions_refused_once;
  }
  op.phase = LookupOp::Phase::granting;
  const auto cut = op.claimed.begin() + static_cast<std::ptrdiff_t>(admitted);
  PrimaryGrant grant{op.op, op.request->handle, op.keys, KeyIdxList(op.claimed.begin(), cut),
                     KeyIdxList(cut, op.claimed.end()), op.options.hold, op.waits_for_landing() && !op.answered, op.deadline,
                     op.patience, op.request->request.priority};
  op.claimed.erase(cut, op.claimed.end());
  homes_.send(std::move(grant));
}

/// Siblings are refused together: those of a refused chunk give their admission back.
std::size_t SchedulerStepState::keep_siblings(LookupOp& op, std::size_t admitted) {
  KeyList claimed;
  for (const auto i : op.claimed) claimed.push_back((*op.keys)[i]);
  // Siblings that are here already are in no claim: only those that are claimed can be parted.
  const auto parted = deps_.atomic_groups.first_parted(claimed, admitted);
  if (parted == admitted) return admitted;
  Withdraw withdrawn;
  for (auto n = parted; n < admitted; ++n) {
    withdrawn.entries.push_back({op.tickets[n], 1});
    totals_.offers[op.found_in[op.claimed[n]] - 1U].promotions_offered.add(1, deps_.chunk_bytes);
    totals_.offers[op.found_in[op.claimed[n]] - 1U]
        .promotions_dropped[static_cast<std::size_t>(DropReason::sibling)].add(1, deps_.chunk_bytes);
  }
  self_->send(deps_.admission, std::move(withdrawn));
  op.tickets.resize(parted);
  return parted;
}

void SchedulerStepState::lookup_granted(const PrimaryGranted& m) {
  const auto it = lookups_.find(m.op);
  if (it == lookups_.end()) return;
  if (m.waits) {
    it->second.phase = LookupOp::Phase::queued;
    return;
  }
  auto& op = it->second;
  const bool too_late = op.phase == LookupOp::Phase::queued && !op.answered && op.deadline <= self_->clock().now();
  op.phase = LookupOp::Phase::granting;
  submit_promotions(op, m, too_late);
  tell_growth(op);
  if (too_late)
    give_up_lookup(op, GiveUpReason::deadline);
  else
    advance_lookup(op);
  if (resetting()) push_drains_and_reset();  // it may have been the last that the reset waits for
}

namespace {

bool is_first_job_full(const std::vector<TransferJob>& before, const TransferJob& job) {
  const auto n = static_cast<std::size_t>(
      std::count_if(before.begin(), before.end(), [&](const auto& b) { return b.tier == job.tier; }));
  return n < std::size(LookupOp::kFirstJobs) && job.keys.size() == LookupOp::kFirstJobs[n];
}

}  // namespace

/// `too_late`: the call's time was up before its turn in line.
void SchedulerStepState::submit_promotions(LookupOp& op, const PrimaryGranted& m, bool too_late) {
  const auto now = self_->clock().now();
  std::uint32_t no_slots = 0;
  std::map<TierIndex, TransferJob> jobs;
  std::vector<TransferJob> first_jobs;  // of a call that is told how its prefix grows
  std::map<AdmissionTicket, std::uint32_t> withdrawn;
  for (std::size_t n = 0; n < op.claimed.size(); ++n) {
    const auto i = op.claimed[n];
    const auto tier = static_cast<TierIndex>(op.found_in[i] - 1);
    auto& dropped = totals_.offers[tier].promotions_dropped;
    if (m.states[n] == GrantState::granted && resetting()) {
      // Whoever stood before it in line was ended by the reset: its turn came too late to load anything. The slots
      // go with the reset.
      ++withdrawn[op.tickets[n]];
      dropped[static_cast<std::size_t>(DropReason::reset)].add(1, deps_.chunk_bytes);
      op.state[i] = LookupOp::Key::gave_up;
      continue;
    }
    if (m.states[n] == GrantState::granted) {
      op.state[i] = LookupOp::Key::loading;
      auto& job = jobs[tier];
      job.tier = tier;
      if (op.growth && !op.polled() && is_first_job_full(first_jobs, job)) {
        first_jobs.push_back(std::exchange(job, {}));
        job.tier = tier;
      }
      if (job.tickets.empty() || job.tickets.back().ticket != op.tickets[n]) job.tickets.push_back({op.tickets[n], 0});
      ++job.tickets.back().chunks;
      job.keys.push_back((*op.keys)[i]);
      job.chunk_ids.push_back(m.chunk_ids[n]);
      job.generations.push_back(m.generations[n]);
      ++op.promoted;
      continue;
    }
    ++withdrawn[op.tickets[n]];
    const bool no_space = m.states[n] == GrantState::no_space;
    dropped[static_cast<std::size_t>(no_space ? too_late ? DropReason::deadline : DropReason::no_space
                                              : DropReason::joined)]
        .add(1, deps_.chunk_bytes);
    op.state[i] = no_space                             ? too_late ? LookupOp::Key::gave_up : LookupOp::Key::no_space
                  : m.states[n] == GrantState::present ? LookupOp::Key::landed
                                                       : LookupOp::Key::pending;
    op.truncated += no_space && !too_late ? 1U : 0U;
    no_slots += no_space ? 1U : 0U;
  }
  // Counted as a scan key by key would: a prefix ends at the first that gets no slot.
  if (!op.answered) totals_.promotion_allocation_failures += op.prefix() ? std::min(no_slots, 1U) : no_slots;
  if (!withdrawn.empty()) {
    Withdraw back;
    for (const auto& [ticket, chunks] : withdrawn) back.entries.push_back({ticket, chunks});
    self_->send(deps_.admission, std::move(back));
  }
  if (jobs.empty()) return;
  if (op.polled()) {
    for (auto& [tier, job] : jobs) add_pending_load(op, tier, std::move(job), now);
    return;
  }
  for (auto& [tier, job] : jobs) first_jobs.push_back(std::move(job));
  TrackJobs track;
  for (auto& job : first_jobs) {
    job.job_id = next_job();
    job.is_promotion = true;
    job.epoch = epoch_;
    job.chunk_bytes = deps_.chunk_bytes;
    job.submit_time = now;
    job.deadline = now + deps_.deadlines.load;
    job.request = op.request;
    track.jobs.push_back(std::move(job));
  }
  begin_jobs(std::move(track));
}

}  // namespace kv_offload
