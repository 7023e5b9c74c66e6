#include "kv_offload/bench/replay_driver.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

KeyList slice(const KeyList& keys, std::size_t from, std::size_t to) {
  return {keys.begin() + static_cast<std::ptrdiff_t>(from),
          keys.begin() + static_cast<std::ptrdiff_t>(to)};
}

}  // namespace

void ReplayTotals::merge(const ReplayTotals& other) {
  requests += other.requests;
  chunk_references += other.chunk_references;
  hit_chunks += other.hit_chunks;
  tier_hits.resize(std::max(tier_hits.size(), other.tier_hits.size()));
  for (std::size_t t = 0; t < other.tier_hits.size(); ++t) tier_hits[t] += other.tier_hits[t];
  mismatches += other.mismatches;
  if (first_mismatch.empty()) first_mismatch = other.first_mismatch;
  verified_chunks += other.verified_chunks;
  loaded_chunks += other.loaded_chunks;
  stored_chunks += other.stored_chunks;
  lost_before_load += other.lost_before_load;
  not_stored += other.not_stored;
  unheld += other.unheld;
  truncated += other.truncated;
  gave_up += other.gave_up;
  window_timeouts += other.window_timeouts;
  call_errors += other.call_errors;
  if (first_error.empty()) first_error = other.first_error;
  lookup.merge(other.lookup);
  load_wait.merge(other.load_wait);
  store.merge(other.store);
}

ReplayDriver::ReplayDriver(OffloadEngine& engine, ReplayMode mode, std::string name)
    : engine_(engine),
      mode_(mode),
      name_(std::move(name)),
      window_(cascade_chunks_max(engine.config())),
      patience_(engine.config().deadlines.store + std::chrono::seconds(5)) {
  totals_.tier_hits.resize(engine.config().secondary_tiers.size() + 1);
}

void ReplayDriver::run(const Trace& trace,
                       const std::function<bool(const ReplayTotals&)>& keep_going) {
  const auto start = Clock::now();
  for (const auto& request : trace) {
    if (!keep_going(totals_) || !engine_.failed_state().empty()) break;
    if (mode_.timed)
      std::this_thread::sleep_until(start + from_seconds(request.timestamp_ms / 1e3));
    play(request);
  }
  settle();
}

void ReplayDriver::settle() {
  if (!window_.wait_idle(patience_)) ++totals_.window_timeouts;
}

void ReplayDriver::play(const TraceRequest& request) {
  const std::uint64_t number = totals_.requests++;
  totals_.chunk_references += request.chunks.size();
  if (request.chunks.empty()) return;
  KeyList keys;
  keys.reserve(request.chunks.size());
  for (const auto chunk : request.chunks) keys.push_back(chunk_key(chunk));

  const auto handle = engine_
                          .new_request({.req_id = name_ + std::to_string(number),
                                        .prompt_tokens = request.input_length,
                                        .load_tiers = {}})
                          .get();
  if (!handle) return failed("new_request", handle.error());
  const LookupAnswer found = look_up(*handle, keys);
  const std::size_t loaded = load(*handle, keys, found.leading_hits);
  store(*handle, keys, loaded);
  // The engine processes a touch from the last key to the first.
  if (!mode_.head_most_recent) std::reverse(keys.begin(), keys.end());
  engine_.touch(*handle, std::move(keys));
  engine_.request_finished(*handle);
}

LookupAnswer ReplayDriver::look_up(RequestHandle request, const KeyList& keys) {
  // Promotions count against the same pin share as cascades: as many as this lookup may need stay free.
  if (has_cascades() && !window_.wait_for_room(keys.size(), patience_)) ++totals_.window_timeouts;
  const auto asked = Clock::now();
  auto answer = engine_.lookup(request, keys).get();
  const Duration took = Clock::now() - asked;
  if (!answer) {
    failed("lookup", answer.error());
    return {};
  }
  (answer->promoted > 0 ? totals_.load_wait : totals_.lookup).record(took);
  totals_.hit_chunks += answer->leading_hits;
  for (std::size_t i = 0; i < std::min(answer->tier_hits.size(), totals_.tier_hits.size()); ++i)
    totals_.tier_hits[i] += answer->tier_hits[i];
  totals_.unheld += answer->unheld;
  totals_.truncated += answer->truncated;
  totals_.gave_up += answer->gave_up;
  return std::move(*answer);
}

std::size_t ReplayDriver::load(RequestHandle request, const KeyList& keys, std::size_t hits) {
  if (hits == 0) return 0;
  const auto plan = engine_.prepare_load(request, slice(keys, 0, hits)).get();
  if (!plan) {
    failed("prepare_load", plan.error());
    return 0;
  }
  const std::size_t loaded = plan->chunk_ids.size();
  totals_.lost_before_load += hits - loaded;
  totals_.loaded_chunks += loaded;
  for (std::size_t i = 0; i < loaded; ++i) check(engine_.chunk(plan->chunk_ids[i]), keys[i]);
  engine_.complete_load(plan->lease);
  return loaded;
}

void ReplayDriver::store(RequestHandle request, const KeyList& keys, std::size_t from) {
  if (from == keys.size()) return;
  const bool cascades = !engine_.config().secondary_tiers.empty();
  const std::size_t piece = cascades ? std::max<std::size_t>(window_.chunks_max(), 1) : keys.size();
  for (std::size_t at = from; at < keys.size(); at += piece)
    store_piece(request, slice(keys, at, std::min(keys.size(), at + piece)));
}

void ReplayDriver::store_piece(RequestHandle request, const KeyList& keys) {
  const bool cascades = has_cascades();
  if (cascades && !window_.acquire(keys.size(), patience_)) ++totals_.window_timeouts;
  const auto plan = reserve(request, keys);
  const std::size_t chunks = plan ? plan->chunk_ids.size() : 0;
  if (cascades) window_.release(keys.size() - chunks);
  if (!plan) {
    totals_.not_stored += keys.size();
    return;
  }
  totals_.stored_chunks += chunks;
  for (std::size_t i = 0; mode_.move_bytes && i < chunks; ++i)
    fill_chunk(engine_.chunk(plan->chunk_ids[i]), keys[plan->key_idx[i]]);
  auto completion =
      engine_.complete_store(plan->lease, {.success = true, .wait_cascades = cascades});
  if (cascades) window_.follow(std::move(completion), chunks);
}

std::optional<StorePlan> ReplayDriver::reserve(RequestHandle request, const KeyList& keys) {
  const auto asked = Clock::now();
  auto plan = engine_.prepare_store(request, keys).get();
  if (!plan && plan.error().code == OffloadErrc::no_space) {
    // Whatever pins the primary tier is the caller's own: once its cascades have ended it asks again.
    window_.wait_others(keys.size(), patience_);
    plan = engine_.prepare_store(request, keys).get();
  }
  if (!plan) {
    if (plan.error().code != OffloadErrc::no_space) failed("prepare_store", plan.error());
    return std::nullopt;
  }
  totals_.store.record(Clock::now() - asked);
  return std::move(*plan);
}

void ReplayDriver::check(std::span<const std::byte> bytes, const OffloadKey& key) {
  if (!mode_.move_bytes || mode_.verify == Verify::none) return;
  ++totals_.verified_chunks;
  if (verify_chunk(bytes, key, mode_.verify)) return;
  if (totals_.mismatches++ == 0)
    totals_.first_mismatch =
        "request " + std::to_string(totals_.requests - 1) + ", chunk " + to_string(key);
}

void ReplayDriver::failed(const char* call, const OffloadError& error) {
  if (totals_.call_errors++ == 0) totals_.first_error = std::string(call) + ": " + to_string(error);
}

}  // namespace kv_offload::bench
