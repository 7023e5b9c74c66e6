#include "kv_offload/bench/sim_sequential.hpp"

#include "kv_offload/bench/device.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace kv_offload::bench {

SimSequential::SimSequential(SimWorld& world, SimDevice& device, SimEngine& engine,
                             const Trace& trace, std::size_t requests,
                             const SimSequentialOptions& options)
    : world_(world),
      device_(device),
      engine_(engine),
      trace_(trace),
      requests_(std::min(requests, trace.size())),
      options_(options) {}

KeyList SimSequential::keys(std::size_t from, std::size_t to) const {
  KeyList keys;
  keys.reserve(to - from);
  for (std::size_t i = from; i < to; ++i) keys.push_back(chunk_key(request_->chunks[i]));
  return keys;
}

void SimSequential::next() {
  if (at_ == requests_) {
    when_open_at_most(0, [this] { done_ = true; });
    return;
  }
  request_ = &trace_[at_];
  arrived_s_ = world_.seconds();
  loaded_ = 0;
  ++totals_.requests;
  totals_.chunk_references += request_->chunks.size();
  if (request_->chunks.empty()) {
    ++at_;
    world_.after(Duration::zero(), [this] { next(); });
    return;
  }
  NewRequest opening;
  opening.req_id = std::to_string(at_++);
  opening.prompt_tokens = request_->input_length;
  engine_.new_request(std::move(opening), [this](Expected<OpenedRequest> opened) {
    if (!opened) {
      failed("new_request", opened.error());
      return world_.after(Duration::zero(), [this] { next(); });
    }
    handle_ = *opened;
    const std::uint64_t n = request_->chunks.size();
    const std::uint64_t max = options_.window_chunks;
    if (max == 0) return look_up();
    when_open_at_most(max > n ? max - n : 0, [this] { look_up(); });
  });
}

void SimSequential::look_up() {
  const double asked_s = world_.seconds();
  engine_.lookup(
      handle_, keys(0, request_->chunks.size()), {},
      [this, asked_s](Expected<LookupAnswer> answer) {
        if (!answer) {
          failed("lookup", answer.error());
          return compute();
        }
        totals_.lookup_s.push_back(world_.seconds() - asked_s);
        totals_.hit_chunks += answer->leading_hits;
        totals_.tier_hits.resize(std::max(totals_.tier_hits.size(), answer->tier_hits.size()));
        for (std::size_t i = 0; i < answer->tier_hits.size(); ++i)
          totals_.tier_hits[i] += answer->tier_hits[i];
        totals_.unheld += answer->unheld;
        totals_.truncated += answer->truncated;
        totals_.gave_up += answer->gave_up;
        load(answer->leading_hits);
      });
}

void SimSequential::load(std::size_t hits) {
  if (hits == 0) return compute();
  engine_.prepare_load(handle_, keys(0, hits), [this, hits](Expected<LoadPlan> plan) {
    if (!plan) {
      failed("prepare_load", plan.error());
      return compute();
    }
    loaded_ = plan->chunk_ids.size();
    totals_.lost_before_load += hits - loaded_;
    device_.to_device(loaded_ * options_.row_bytes, [this, lease = plan->lease] {
      engine_.complete_load(lease);
      compute();
    });
  });
}

void SimSequential::compute() {
  const std::uint64_t have =
      std::min<std::uint64_t>(loaded_ * options_.tokens_per_chunk, request_->input_length);
  totals_.prompt_tokens += request_->input_length;
  totals_.output_tokens += request_->output_length;
  totals_.loaded_tokens += have;
  totals_.computed_tokens += request_->input_length - have;
  device_.prefill(std::max<std::uint64_t>(request_->input_length - have, 1), [this] {
    totals_.ttft_s.push_back(world_.seconds() - arrived_s_);
    store(loaded_);
  });
}

void SimSequential::store(std::size_t from) {
  const std::size_t size = request_->chunks.size();
  if (from >= size) return end();
  const std::size_t piece =
      options_.window_chunks > 0 ? static_cast<std::size_t>(options_.window_chunks) : size;
  const std::size_t to = std::min(size, from + piece);
  if (options_.window_chunks == 0) return store_piece(from, to, false);
  const std::uint64_t n = to - from;
  const std::uint64_t max = options_.window_chunks;
  when_open_at_most(max > n ? max - n : 0, [this, from, to] {
    cascades_open_ += to - from;
    store_piece(from, to, false);
  });
}

void SimSequential::store_piece(std::size_t from, std::size_t to, bool again) {
  const bool cascades = options_.window_chunks > 0;
  engine_.prepare_store(handle_, keys(from, to), {}, [=, this](Expected<StorePlan> plan) {
    const std::uint64_t n = to - from;
    if (!plan && plan.error().code == OffloadErrc::no_space && !again)
      return when_open_at_most(n, [=, this] { store_piece(from, to, true); });
    if (!plan) {
      if (plan.error().code != OffloadErrc::no_space) failed("prepare_store", plan.error());
      totals_.not_stored += n;
      if (cascades) cascades_ended(n);
      return store(to);
    }
    const std::uint64_t chunks = plan->chunk_ids.size();
    if (cascades && n > chunks) cascades_ended(n - chunks);
    device_.to_host(chunks * options_.row_bytes, [=, this, lease = plan->lease] {
      engine_.complete_store(lease, {.success = true, .wait_cascades = cascades},
                             [this, cascades, chunks](Expected<StoreOutcome> outcome) {
                               if (!outcome) failed("complete_store", outcome.error());
                               if (cascades) cascades_ended(chunks);
                             });
      store(to);
    });
  });
}

void SimSequential::end() {
  KeyList all = keys(0, request_->chunks.size());
  if (!options_.head_most_recent) std::reverse(all.begin(), all.end());
  engine_.touch(handle_, std::move(all));
  engine_.finish(handle_);
  device_.decode(std::max<std::uint64_t>(request_->output_length, 1), [this] { next(); });
}

void SimSequential::when_open_at_most(std::uint64_t chunks, Then then) {
  if (cascades_open_ <= chunks) return then();
  wait_limit_ = chunks;
  waiting_ = std::move(then);
}

void SimSequential::cascades_ended(std::uint64_t chunks) {
  cascades_open_ -= chunks;
  if (waiting_ && cascades_open_ <= wait_limit_) std::exchange(waiting_, nullptr)();
}

SimTotals SimSequential::take_totals() {
  totals_.span_s = totals_.end_s = world_.seconds();
  totals_.stalled_s = to_seconds(device_.stalled());
  totals_.prefill_busy_s = to_seconds(device_.prefill_busy());
  return std::move(totals_);
}

void SimSequential::failed(const char* call, const OffloadError& error) {
  if (totals_.call_errors++ == 0) totals_.first_error = std::string(call) + ": " + to_string(error);
}

}  // namespace kv_offload::bench
