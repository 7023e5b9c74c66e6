#include "kv_offload/bench/sim_serving.hpp"

#include "kv_offload/bench/device.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace kv_offload::bench {
namespace {

KeyList keys_of(const std::vector<std::uint64_t>& chunks, std::size_t from, std::size_t to) {
  KeyList keys;
  keys.reserve(to - from);
  for (std::size_t i = from; i < to; ++i) keys.push_back(chunk_key(chunks[i]));
  return keys;
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

SimServing::SimServing(SimWorld& world, SimDevice& device, SimEngine* engine, SimWorkload& workload,
                       const SimServingOptions& options)
    : world_(world), device_(device), engine_(engine), workload_(workload), options_(options) {}

// -- arrivals ---------------------------------------------------------------------------------------------

void SimServing::start() {
  if (workload_.clients() == 0) return arrive_next();
  for (std::size_t i = 0; i < workload_.clients() && !exhausted_; ++i) arrive_next();
}

void SimServing::arrive_next() {
  auto request = exhausted_ || (options_.to_s > 0 && world_.seconds() >= options_.to_s)
                     ? std::nullopt
                     : workload_.next();
  if (!request) {
    exhausted_ = true;
    return;
  }
  if (workload_.clients() > 0) return arrive(std::move(*request));
  const auto when = SimWorld::kStart + from_seconds(request->arrival_s);
  // Counted as open before its time, so that the run waits for it.
  ++open_;
  world_.at(when, [this, request = std::move(*request)]() mutable {
    --open_;
    arrive(std::move(request));
    arrive_next();
  });
}

void SimServing::arrive(SimRequest request) {
  auto live = std::make_shared<Live>();
  live->arrival_s = world_.seconds();
  live->prompt_chunks = std::min<std::size_t>(request.chunks.size(),
                                              request.prompt_tokens / options_.tokens_per_chunk);
  live->usable = std::min<std::size_t>(live->prompt_chunks,
                                       (request.prompt_tokens - 1) / options_.tokens_per_chunk);
  live->request = std::move(request);
  ++open_;
  waiting_.push_back(live);
  if (engine_ != nullptr && options_.look_up_at_arrival) {
    live->matched = device_.hbm().match(std::span(live->request.chunks).first(live->usable));
    return begin(live);
  }
  live->ready = true;
  pump();
}

/// In order of arrival: whoever is first of those that know their hits waits until running requests leave enough
/// room.
void SimServing::pump() {
  while (active_ < device_.model().max_requests) {
    const auto first = std::find_if(waiting_.begin(), waiting_.end(), [](const Shared& w) { return w->ready; });
    if (first == waiting_.end()) return;
    const Shared live = *first;
    const std::uint64_t per_chunk = options_.tokens_per_chunk;
    const auto& request = live->request;
    const std::uint64_t total =
        (request.prompt_tokens + request.output_tokens + per_chunk - 1) / per_chunk;
    const bool fits = device_.hbm().can_ever_fit(total);
    if (fits) {
      live->matched = device_.hbm().match(std::span(request.chunks).first(live->usable));
      auto lease = device_.hbm().take(request.chunks, live->matched, total);
      if (!lease) return;
      live->lease = std::move(*lease);
    }
    waiting_.erase(first);
    ++active_;
    if (fits && live->handle != kNoRequest) {
      allocated(live);
    } else if (fits && options_.look_up_at_arrival) {
      prefill(live);
    } else if (fits) {
      begin(live);
    } else {
      ++totals_.never_fit;
      decoded(live);
    }
  }
}

// -- one request --------------------------------------------------------------------------------------------

void SimServing::begin(const Shared& live) {
  if (engine_ == nullptr) return prefill(live);
  NewRequest request;
  request.req_id = std::to_string(number_++);
  request.prompt_tokens = live->request.prompt_tokens;
  engine_->new_request(std::move(request), [this, live](Expected<OpenedRequest> opened) {
    if (!opened) {
      failed("new_request", opened.error());
      return looked_up(live);
    }
    live->handle = *opened;
    look_up(live);
  });
}

void SimServing::look_up(const Shared& live) {
  if (live->matched == live->usable) return looked_up(live);
  LookupOptions options;
  options.hold = options_.hold;
  options.device_tokens = live->matched * options_.tokens_per_chunk;
  // The last chunk the device holds is named, too: a claim on it is a verdict.
  const std::size_t from = live->matched > 0 ? live->matched - 1 : 0;
  options.first_token = from * options_.tokens_per_chunk;
  const double asked_s = world_.seconds();
  engine_->lookup(live->handle, keys_of(live->request.chunks, from, live->usable), options,
                  [this, live, from, asked_s](Expected<LookupAnswer> answer) {
                    if (!answer) {
                      failed("lookup", answer.error());
                      return looked_up(live);
                    }
                    if (measures(world_.seconds()))
                      totals_.lookup_s.push_back(world_.seconds() - asked_s);
                    live->reach = from + answer->leading_hits;
                    live->tier_hits = std::move(answer->tier_hits);
                    totals_.unheld += answer->unheld;
                    totals_.truncated += answer->truncated;
                    totals_.gave_up += answer->gave_up;
                    looked_up(live);
                  });
}

void SimServing::looked_up(const Shared& live) {
  if (options_.look_up_at_arrival) {
    live->ready = true;
    return pump();
  }
  if (live->handle == kNoRequest) return prefill(live);
  allocated(live);
}

void SimServing::allocated(const Shared& live) {
  const std::uint64_t per_chunk = options_.tokens_per_chunk;
  live->hits = live->reach - std::min(live->reach, live->matched);
  engine_->allocated(live->handle, live->matched * per_chunk);
  if (live->hits == 0 || live->hits * per_chunk < device_.model().min_load_tokens)
    return prefill(live);
  load(live, live->matched, live->hits);
}

void SimServing::load(const Shared& live, std::size_t from, std::size_t chunks) {
  engine_->prepare_load(live->handle, keys_of(live->request.chunks, from, from + chunks),
                        [this, live, chunks](Expected<LoadPlan> plan) {
                          if (!plan) {
                            failed("prepare_load", plan.error());
                            return prefill(live);
                          }
                          live->loaded = plan->chunk_ids.size();
                          totals_.lost_before_load += chunks - live->loaded;
                          device_.to_device(live->loaded * options_.row_bytes,
                                            [this, live, lease = plan->lease] {
                                              engine_->complete_load(lease);
                                              prefill(live);
                                            });
                        });
}

void SimServing::prefill(const Shared& live) {
  const std::uint64_t have = (live->matched + live->loaded) * options_.tokens_per_chunk;
  device_.prefill(live->request.prompt_tokens - have, [this, live] {
    count(*live, world_.seconds());
    const auto& chunks = live->request.chunks;
    device_.hbm().publish(
        live->lease, std::span(chunks).subspan(live->matched, live->prompt_chunks - live->matched));
    device_.decode(live->request.output_tokens, [this, live] { decoded(live); });
    if (engine_ == nullptr || live->handle == kNoRequest) return;
    for (std::size_t i = 0; i < live->loaded; ++i)
      device_.hbm().mark_saved(chunks[live->matched + i]);
    offer(live);
  });
}

/// One store call for what each step of the prefill computed, and for what is on the device and could not
/// be stored when it was offered.
void SimServing::offer(const Shared& live) {
  const auto& chunks = live->request.chunks;
  const std::size_t piece =
      std::max<std::size_t>(1, options_.step_tokens / options_.tokens_per_chunk);
  const bool everything = options_.offers == SimOffers::unclaimed && live->hits == 0;
  const auto wanted = [&](std::size_t i) {
    return everything || i >= live->matched + live->loaded ||
           (i < live->matched && !device_.hbm().is_saved(chunks[i]));
  };
  for (std::size_t from = 0; from < live->prompt_chunks;) {
    std::size_t to = from;
    while (to < live->prompt_chunks && to - from < piece && wanted(to)) ++to;
    if (to > from) store(live, from, to);
    from = to > from ? to : from + 1;
  }
}

void SimServing::store(const Shared& live, std::size_t from, std::size_t to) {
  ++live->stores_open;
  const auto over = [this, live] {
    --live->stores_open;
    end_if_over(live);
  };
  StoreOptions options;
  if (options_.offers == SimOffers::computed) options.first_token = from * options_.tokens_per_chunk;
  engine_->prepare_store(
      live->handle, keys_of(live->request.chunks, from, to), options,
      [this, live, over, from, to](Expected<StorePlan> plan) {
        if (!plan) {
          if (plan.error().code != OffloadErrc::no_space) failed("prepare_store", plan.error());
          totals_.not_stored += to - from;
          return over();
        }
        totals_.saved_bytes += plan->chunk_ids.size() * options_.row_bytes;
        const std::size_t offered_to = to - plan->capped;
        device_.to_host(plan->chunk_ids.size() * options_.row_bytes, [this, live, over, from, offered_to,
                                                                      lease = plan->lease] {
          for (std::size_t i = from; i < offered_to; ++i) device_.hbm().mark_saved(live->request.chunks[i]);
          engine_->complete_store(lease, {}, [over](Expected<StoreOutcome>) { over(); });
        });
      });
}

void SimServing::decoded(const Shared& live) {
  live->decoded = true;
  const auto& chunks = live->request.chunks;
  if (chunks.size() > live->prompt_chunks)
    device_.hbm().publish(live->lease, std::span(chunks).subspan(live->prompt_chunks));
  if (engine_ != nullptr && live->handle != kNoRequest && chunks.size() > live->prompt_chunks)
    store(live, live->prompt_chunks, chunks.size());
  device_.hbm().release(std::exchange(live->lease, {}));
  --active_;
  last_end_s_ = world_.seconds();
  workload_.finished(live->request);
  end_if_over(live);
  pump();
  if (workload_.clients() > 0) arrive_next();
}

void SimServing::end_if_over(const Shared& live) {
  if (!live->decoded || live->stores_open > 0) return;
  if (engine_ != nullptr && live->handle != kNoRequest) engine_->finish(live->handle);
  --open_;
}

// -- counting -----------------------------------------------------------------------------------------------

void SimServing::count(const Live& live, double first_token_s) {
  if (!measures(first_token_s)) return;
  SimTotals& t = totals_;
  const std::uint64_t per_chunk = options_.tokens_per_chunk;
  ++t.requests;
  t.chunk_references += live.prompt_chunks;
  t.prompt_tokens += live.request.prompt_tokens;
  t.output_tokens += live.request.output_tokens;
  t.device_tokens += live.matched * per_chunk;
  t.loaded_tokens += live.loaded * per_chunk;
  t.computed_tokens += live.request.prompt_tokens - (live.matched + live.loaded) * per_chunk;
  t.hit_chunks += live.hits;
  t.ttft_s.push_back(first_token_s - live.arrival_s);
  if (std::all_of(live.tier_hits.begin() + (live.tier_hits.empty() ? 0 : 1), live.tier_hits.end(),
                  [](auto hits) { return hits == 0; }))
    t.ttft_no_tier_s.push_back(t.ttft_s.back());
  t.tier_hits.resize(std::max(t.tier_hits.size(), live.tier_hits.size()));
  t.loaded_tier_tokens.resize(t.tier_hits.size());
  // The first `loaded` of the hits, by origin: the primary's and the tiers' come in prefix order only
  // roughly, so that each tier's part of the loaded is its part of the hits.
  for (std::size_t i = 0; i < live.tier_hits.size(); ++i) {
    t.tier_hits[i] += live.tier_hits[i];
    if (live.hits > 0)
      t.loaded_tier_tokens[i] += live.loaded * per_chunk * live.tier_hits[i] / live.hits;
  }
}

SimTotals SimServing::take_totals() {
  const double end = options_.to_s > 0 ? options_.to_s : last_end_s_;
  totals_.span_s = std::max(end - options_.from_s, 0.0);
  totals_.stalled_s = to_seconds(device_.stalled());
  totals_.prefill_busy_s = to_seconds(device_.prefill_busy());
  totals_.end_s = world_.seconds();
  return std::move(totals_);
}

void SimServing::failed(const char* call, const OffloadError& error) {
  if (totals_.call_errors++ == 0) totals_.first_error = std::string(call) + ": " + to_string(error);
}

}  // namespace kv_offload::bench
