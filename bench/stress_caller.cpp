#include "kv_offload/bench/stress_caller.hpp"

#include "kv_offload/bench/device.hpp"

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

void keep_first(std::string& mine, const std::string& other) {
  if (mine.empty()) mine = other;
}

}  // namespace

void CallerTotals::merge(const CallerTotals& other) {
  requests += other.requests;
  strays += other.strays;
  keep_first(not_placed, other.not_placed);
  chunk_references += other.chunk_references;
  hit_chunks += other.hit_chunks;
  tier_hits.resize(std::max(tier_hits.size(), other.tier_hits.size()));
  for (std::size_t i = 0; i < other.tier_hits.size(); ++i) tier_hits[i] += other.tier_hits[i];
  loaded_chunks += other.loaded_chunks;
  stored_chunks += other.stored_chunks;
  verified_chunks += other.verified_chunks;
  mismatches += other.mismatches;
  changed_under_lease += other.changed_under_lease;
  no_space += other.no_space;
  aborts += other.aborts;
  gave_up += other.gave_up;
  unanswered += other.unanswered;
  for (const auto& [code, count] : other.expected_errors) expected_errors[code] += count;
  call_errors += other.call_errors;
  keep_first(first_mismatch, other.first_mismatch);
  keep_first(first_change, other.first_change);
  keep_first(first_error, other.first_error);
  lookup.merge(other.lookup);
  load.merge(other.load);
  store.merge(other.store);
  lookup_from_arrival.merge(other.lookup_from_arrival);
  request_times.merge(other.request_times);
}

StressCaller::StressCaller(CallerWorld& world, std::uint32_t number, std::uint64_t seed)
    : world_(world), number_(number), random_(seed * 0x9e3779b97f4a7c15ULL + number) {
  totals_.tier_hits.resize(world.engine.config().secondary_tiers.size() + 1);
}

bool StressCaller::running() const {
  return Clock::now() < world_.end && !world_.stop.load(std::memory_order_relaxed);
}

void StressCaller::run() {
  totals_.not_placed = world_.threads.enter(number_);
  world_.arrivals ? serve_arrivals() : serve_when_free();
}

void StressCaller::serve_when_free() {
  while (running()) {
    const auto begun = Clock::now();
    one_request();
    totals_.request_times.service.record(Clock::now() - begun);
  }
}

void StressCaller::serve_arrivals() {
  OpenLoop loop(ArrivalSchedule(*world_.arrivals, number_), steady_loop_clock());
  const auto serve = [this](MonotonicTime arrival) {
    arrived_ = arrival;
    one_request();
  };
  loop.run(world_.start, world_.arrivals->run, serve,
           [this] { return world_.stop.load(std::memory_order_relaxed); });
  totals_.request_times = loop.times();
}

void StressCaller::one_request() {
  OffloadEngine& engine = world_.engine;
  const auto chunks = world_.workload.next_prompt(random_, to_seconds(Clock::now() - world_.start));
  KeyList keys;
  for (const auto chunk : chunks) keys.push_back(chunk_key(chunk));
  const std::uint64_t number = totals_.requests++;
  world_.requests_begun.fetch_add(1, std::memory_order_relaxed);

  const auto request =
      engine
          .new_request({.req_id = std::to_string(number_) + "-" + std::to_string(number),
                        .prompt_tokens = keys.size() * 512,
                        .load_tiers = {},
                        .domain = world_.threads.names_domain(number_)})
          .get();
  if (!request) return failed("new_request", request.error());
  if (const auto mine = world_.threads.domain_of(number_); mine && request->handle.domain != *mine)
    ++totals_.strays;
  if (random_.chance(2)) {
    aborted_lookup(*request, keys);
  } else {
    totals_.chunk_references += keys.size();
    const std::size_t hits = look_up(*request, keys);
    const auto lease = load(*request, keys, hits);
    if (random_.chance(30)) engine.allocated(*request, 0);
    // A device may still copy what it loaded while the request goes on, or even after its end.
    const bool early = random_.chance(60);
    if (lease && early) engine.complete_load(*lease);
    store(*request, keys, hits);
    if (random_.chance(80)) engine.touch(*request, keys);
    if (lease && !early) {
      if (random_.chance(50)) engine.request_finished(*request);
      engine.complete_load(*lease);
    }
  }
  engine.request_finished(*request);
}

std::size_t StressCaller::look_up(RequestHandle request, const KeyList& keys) {
  LookupOptions options;
  options.hold = random_.chance(75);
  options.wait = random_.chance(70) ? LookupWait::landed : LookupWait::resolved;
  const auto asked = Clock::now();
  auto answer = await(world_.engine.lookup(request, keys, options), world_.patience);
  if (!answer) return ++totals_.unanswered, 0;
  const auto answered = Clock::now();
  totals_.lookup.record(answered - asked);
  if (arrived_) totals_.lookup_from_arrival.record(answered - *arrived_);
  if (!*answer) {
    failed("lookup", answer->error());
    return 0;
  }
  const LookupAnswer& found = **answer;
  totals_.hit_chunks += found.leading_hits;
  totals_.gave_up += found.gave_up;
  for (std::size_t i = 0; i < std::min(found.tier_hits.size(), totals_.tier_hits.size()); ++i)
    totals_.tier_hits[i] += found.tier_hits[i];
  return found.leading_hits;
}

void StressCaller::aborted_lookup(RequestHandle request, const KeyList& keys) {
  ++totals_.aborts;
  auto pending = world_.engine.lookup(request, keys);
  world_.engine.abort(request);
  const auto answer = await(std::move(pending), world_.patience);
  if (!answer)
    ++totals_.unanswered;
  else if (!*answer)
    failed("lookup", answer->error());
}

std::optional<LeaseId> StressCaller::load(RequestHandle request, const KeyList& keys,
                                          std::size_t hits) {
  if (hits == 0 || random_.chance(5)) return std::nullopt;  // some requests never come to read
  const auto asked = Clock::now();
  const auto plan = world_.engine.prepare_load(request, slice(keys, 0, hits)).get();
  if (!plan) {
    failed("prepare_load", plan.error());
    return std::nullopt;
  }
  totals_.load.record(Clock::now() - asked);
  totals_.loaded_chunks += plan->chunk_ids.size();
  const auto read_all = [&](bool again) {
    for (std::size_t i = 0; i < plan->chunk_ids.size(); ++i)
      check(world_.engine.chunk(plan->chunk_ids[i]), keys[i], again);
  };
  const std::uint64_t wrong = totals_.mismatches;
  read_all(false);
  if (totals_.mismatches == wrong && random_.chance(20)) {
    pause();
    read_all(true);
  }
  return plan->lease;
}

void StressCaller::store(RequestHandle request, const KeyList& keys, std::size_t from) {
  if (from == keys.size()) return;
  const KeyList missing = slice(keys, from, keys.size());
  const auto asked = Clock::now();
  const auto plan = world_.engine.prepare_store(request, missing).get();
  totals_.store.record(Clock::now() - asked);
  if (plan) return finish_store(*plan, missing);
  if (plan.error().code != OffloadErrc::no_space) return failed("prepare_store", plan.error());
  ++totals_.no_space;
  pause();  // as a scheduler would: the next step tries again
}

void StressCaller::finish_store(const StorePlan& plan, const KeyList& keys) {
  for (std::size_t i = 0; i < plan.chunk_ids.size(); ++i)
    fill_chunk(world_.engine.chunk(plan.chunk_ids[i]), keys[plan.key_idx[i]]);
  if (random_.chance(20)) {
    pause();
    for (std::size_t i = 0; i < plan.chunk_ids.size(); ++i)
      check(world_.engine.chunk(plan.chunk_ids[i]), keys[plan.key_idx[i]], true);
  }
  totals_.stored_chunks += plan.chunk_ids.size();
  const bool success = !random_.chance(4), wait = random_.chance(15);
  auto pending =
      world_.engine.complete_store(plan.lease, {.success = success, .wait_cascades = wait});
  if (wait && random_.chance(30)) {
    const auto outcome = await(std::move(pending), world_.patience);
    if (!outcome)
      ++totals_.unanswered;
    else if (!*outcome)
      failed("complete_store", outcome->error());
    return;
  }
  world_.completions->open.fetch_add(1);
  std::move(pending).then([completions = world_.completions](Expected<StoreOutcome> outcome) {
    if (!outcome) completions->count.fetch_add(1);
    completions->open.fetch_sub(1);
  });
}

void StressCaller::check(std::span<const std::byte> bytes, const OffloadKey& key, bool was_right) {
  ++totals_.verified_chunks;
  if (verify_chunk(bytes, key)) return;
  if ((was_right ? totals_.changed_under_lease : totals_.mismatches)++ == 0)
    (was_right ? totals_.first_change : totals_.first_mismatch) =
        "caller " + std::to_string(number_) + ", request " + std::to_string(totals_.requests - 1) +
        ", chunk " + to_string(key);
}

void StressCaller::pause() {
  std::this_thread::sleep_for(std::chrono::microseconds(random_.below(2000)));
}

void StressCaller::failed(const char* call, const OffloadError& error) {
  switch (error.code) {
    case OffloadErrc::busy:
    case OffloadErrc::aborted:
    case OffloadErrc::deadline:
    case OffloadErrc::no_space:
      ++totals_.expected_errors[std::string(to_string(error.code))];
      return;
    default:
      if (totals_.call_errors++ == 0)
        totals_.first_error = std::string(call) + ": " + to_string(error);
  }
}

}  // namespace kv_offload::bench
