#include "kv_offload/actors/compute_meter.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {

std::deque<ComputeMeter::Prompt>::iterator ComputeMeter::find(RequestHandle request) {
  return std::find_if(queue_.begin(), queue_.end(),
                      [&](const Prompt& p) { return p.request == request; });
}

void ComputeMeter::enter(Prompt prompt, MonotonicTime now) {
  prompt.ready_at = now;
  const bool silent = is_silent(prompt);
  queue_.push_back(prompt);
  if (silent || busy_since_) return;
  begin_span(now);
}

void ComputeMeter::begin_span(MonotonicTime now) {
  busy_since_ = now;
  for (Flow& flow : flows_) flow.busy_s = flow.jobs.busy_s(now);
  probe_s_.assign(probe_s_.size(), 0);
}

void ComputeMeter::restart(MonotonicTime now) {
  const bool busy =
      std::any_of(queue_.begin(), queue_.end(), [&](const Prompt& p) { return !is_silent(p); });
  busy_since_.reset();
  if (busy) begin_span(now);
}

std::vector<TierTraffic> ComputeMeter::traffic(MonotonicTime now) const {
  const auto flowed = [now](const Flow& flow) {
    return static_cast<std::uint64_t>(flow.jobs.rate(now) * (flow.jobs.busy_s(now) - flow.busy_s));
  };
  std::vector<TierTraffic> moved(probe_s_.size());
  for (std::size_t t = 0; t < moved.size(); ++t)
    moved[t] = {flowed(flows_[flow_of(t, true)]), flowed(flows_[flow_of(t, false)]), probe_s_[t]};
  return moved;
}

bool ComputeMeter::is_alone(MonotonicTime now) const {
  return std::all_of(flows_.begin(), flows_.end(), [now](const Flow& flow) {
    return flow.jobs.under_way() == 0 && flow.jobs.busy_s(now) <= flow.busy_s;
  });
}

void ComputeMeter::allocated(RequestHandle request, std::uint64_t tokens, MonotonicTime answered_at,
                             MonotonicTime now) {
  if (tokens_per_chunk_ == 0 || tokens == 0 || find(request) != queue_.end()) return;
  enter(
      Prompt{request, tokens, answered_at == MonotonicTime{} ? Duration{} : now - answered_at, now},
      now);
}

void ComputeMeter::loading(RequestHandle request) {
  const auto it = find(request);
  if (it == queue_.end()) return;
  loading_.push_back(*it);
  queue_.erase(it);
  // Mostly it has just been allocated; what is computed beside it goes on.
  if (std::all_of(queue_.begin(), queue_.end(), [&](const Prompt& p) { return is_silent(p); }))
    busy_since_.reset();
}

void ComputeMeter::loaded(RequestHandle request, std::size_t chunks, MonotonicTime now) {
  const auto it = std::find_if(loading_.begin(), loading_.end(),
                               [&](const Prompt& p) { return p.request == request; });
  if (it == loading_.end()) return;
  Prompt prompt = *it;
  loading_.erase(it);
  prompt.tokens -=
      std::min<std::uint64_t>(prompt.tokens, std::uint64_t{chunks} * tokens_per_chunk_);
  if (prompt.tokens > 0) enter(prompt, now);
}

std::optional<ComputeSample> ComputeMeter::stored(RequestHandle request, std::uint64_t left,
                                                  std::size_t live, MonotonicTime now) {
  const auto it = find(request);
  if (it == queue_.end()) return std::nullopt;
  const bool whole = left < tokens_per_chunk_;
  const std::uint64_t rest = whole ? 0 : std::min(left, it->tokens);
  ComputeSample sample;
  sample.tokens = it->tokens - rest;
  it->tokens = rest;
  const auto begun = busy_since_.value_or(now);
  sample.waited = it->waited + (begun > it->ready_at ? begun - it->ready_at : Duration{});
  sample.busy = now - begun;
  sample.live = static_cast<std::uint32_t>(live);
  if (busy_since_) sample.moved = traffic(now);
  sample.alone = busy_since_ && is_alone(now);
  // Those before it that nobody hears of are computed as well.
  const auto before =
      std::stable_partition(queue_.begin(), it, [&](const Prompt& p) { return !is_silent(p); });
  for (auto silent = before; silent != it; ++silent) sample.tokens += silent->tokens;
  queue_.erase(before, whole ? it + 1 : it);
  restart(now);
  return sample;
}

void ComputeMeter::ended(RequestHandle request, MonotonicTime now) {
  std::erase_if(loading_, [&](const Prompt& p) { return p.request == request; });
  const auto it = find(request);
  if (it == queue_.end()) return;
  const bool silent = is_silent(*it);
  queue_.erase(it);
  if (!silent) restart(now);
}

void ComputeMeter::begun(std::size_t tier, bool is_promotion, MonotonicTime now) {
  if (tier < probe_s_.size()) flows_[flow_of(tier, is_promotion)].jobs.begin(1, now);
}

void ComputeMeter::moved(std::size_t tier, bool is_promotion, std::uint64_t bytes,
                         MonotonicTime now) {
  if (tier < probe_s_.size()) flows_[flow_of(tier, is_promotion)].jobs.end(1, bytes, now);
}

void ComputeMeter::probed(std::size_t tier, Duration took) {
  if (busy_since_ && tier < probe_s_.size()) probe_s_[tier] += to_seconds(took);
}

}  // namespace kv_offload
