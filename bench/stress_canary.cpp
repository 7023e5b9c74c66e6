#include "kv_offload/bench/stress_canary.hpp"

#include "kv_offload/bench/await.hpp"
#include "kv_offload/bench/device.hpp"

#include <thread>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstChunk = std::uint64_t{1} << 63;  // outside the callers' numbers
constexpr std::uint64_t kChunks = 4;
constexpr auto kPeriod = std::chrono::milliseconds(2);

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

Duration canary_limit() { return std::chrono::milliseconds(kSanitized ? 1000 : 500); }
Duration canary_drill_delay() { return 3 * canary_limit(); }

std::string StressCanary::prepare() {
  for (std::uint64_t i = 0; i < kChunks; ++i) keys_.push_back(chunk_key(kFirstChunk + i));
  const auto anchor =
      engine_.new_request({.req_id = "canary", .prompt_tokens = 0, .load_tiers = {}}).get();
  if (!anchor) return "new_request: " + to_string(anchor.error());
  anchor_ = *anchor;
  if (auto why = store(); !why.empty()) return why;
  const auto plan = engine_.prepare_load(anchor_, keys_).get();
  if (!plan) return "prepare_load: " + to_string(plan.error());
  lease_ = plan->lease;
  leased_ = true;
  if (plan->chunk_ids.size() != keys_.size())
    return "its chunks were evicted before it could pin them";
  return "";
}

std::string StressCanary::store() {
  const auto plan = engine_.prepare_store(anchor_, keys_).get();
  if (!plan) return "prepare_store: " + to_string(plan.error());
  for (std::size_t i = 0; i < plan->chunk_ids.size(); ++i)
    fill_chunk(engine_.chunk(plan->chunk_ids[i]), keys_[plan->key_idx[i]]);
  const auto outcome = await(engine_.complete_store(plan->lease), patience_);
  if (!outcome) return "complete_store: no answer";
  return *outcome ? "" : "complete_store: " + to_string(outcome->error());
}

void StressCanary::run(const std::atomic<bool>& stop) {
  for (std::uint64_t number = 0; !stop.load(std::memory_order_relaxed); ++number) {
    if (!one_round(number)) return;
    const auto asleep = Clock::now();
    std::this_thread::sleep_for(kPeriod);
    overslept_.record(Clock::now() - asleep - kPeriod);
  }
}

bool StressCanary::one_round(std::uint64_t number) {
  const auto request = engine_
                           .new_request({.req_id = "canary-" + std::to_string(number),
                                         .prompt_tokens = keys_.size() * 512,
                                         .load_tiers = {}})
                           .get();
  if (!request) return error_ = "new_request: " + to_string(request.error()), false;
  const auto asked = Clock::now();
  const auto found = await(engine_.lookup(*request, keys_), patience_);
  if (!found || !*found) {
    // A lookup that ran into its deadline waited for somebody as well.
    ++unanswered_;
    latency_.record(Clock::now() - asked);
    engine_.request_finished(*request);
    return true;
  }
  const auto plan = engine_.prepare_load(*request, keys_).get();
  if (!plan) return error_ = "prepare_load: " + to_string(plan.error()), false;
  latency_.record(Clock::now() - asked);
  if ((*found)->leading_hits != keys_.size() || plan->chunk_ids.size() != keys_.size()) ++lost_;
  for (std::size_t i = 0; i < plan->chunk_ids.size(); ++i)
    if (!verify_chunk(engine_.chunk(plan->chunk_ids[i]), keys_[i])) ++mismatches_;
  engine_.complete_load(plan->lease);
  engine_.touch(*request, keys_);
  engine_.request_finished(*request);
  return true;
}

void StressCanary::finish() {
  if (leased_) engine_.complete_load(lease_);
  engine_.request_finished(anchor_);
}

}  // namespace kv_offload::bench
