#include "kv_offload/actors/compute_meter.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {

std::deque<ComputeMeter::Prompt>::iterator ComputeMeter::find(RequestHandle request) {
  return std::find_if(queue_.begin(), queue_.end(), [&](const Prompt& p) { return p.request == request; });
}

void ComputeMeter::enter(Prompt prompt, MonotonicTime now) {
  prompt.ready_at = now;
  const bool silent = is_silent(prompt);
  queue_.push_back(prompt);
  if (silent || busy_since_) return;
  busy_since_ = now;
  moved_.assign(moved_.size(), TierTraffic{});
}

void ComputeMeter::restart(MonotonicTime now) {
  const bool busy = std::any_of(queue_.begin(), queue_.end(), [&](const Prompt& p) { return !is_silent(p); });
  busy_since_.reset();
  if (busy) busy_since_ = now;
  moved_.assign(moved_.size(), TierTraffic{});
}

void ComputeMeter::allocated(RequestHandle request, std::uint64_t tokens, MonotonicTime answered_at, MonotonicTime now) {
  if (tokens_per_chunk_ == 0 || tokens == 0 || find(request) != queue_.end()) return;
  enter(Prompt{request, tokens, answered_at == MonotonicTime{} ? Duration{} : now - answered_at, now}, now);
}

void ComputeMeter::loading(RequestHandle request) {
  const auto it = find(request);
  if (it == queue_.end()) return;
  loading_.push_back(*it);
  queue_.erase(it);
  // Mostly it has just been allocated; what is computed beside it goes on.
  if (std::all_of(queue_.begin(), queue_.end(), [&](const Prompt& p) { return is_silent(p); })) busy_since_.reset();
}

void ComputeMeter::loaded(RequestHandle request, std::size_t chunks, MonotonicTime now) {
  const auto it =
      std::find_if(loading_.begin(), loading_.end(), [&](const Prompt& p) { return p.request == request; });
  if (it == loading_.end()) return;
  Prompt prompt = *it;
  loading_.erase(it);
  prompt.tokens -= std::min<std::uint64_t>(prompt.tokens, std::uint64_t{chunks} * tokens_per_chunk_);
  if (prompt.tokens > 0) enter(prompt, now);
}

std::optional<ComputeSample> ComputeMeter::stored(RequestHandle request, std::uint64_t left, std::size_t live,
                                                  std::size_t transfers, MonotonicTime now) {
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
  sample.moved = moved_;
  sample.alone = transfers == 0 && std::all_of(moved_.begin(), moved_.end(), [](const TierTraffic& t) {
    return t.read_bytes == 0 && t.written_bytes == 0;
  });
  // Those before it that nobody hears of are computed as well.
  const auto before = std::stable_partition(queue_.begin(), it, [&](const Prompt& p) { return !is_silent(p); });
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

void ComputeMeter::moved(std::size_t tier, bool is_promotion, std::uint64_t bytes) {
  if (!busy_since_ || tier >= moved_.size()) return;
  (is_promotion ? moved_[tier].read_bytes : moved_[tier].written_bytes) += bytes;
}

void ComputeMeter::probed(std::size_t tier, Duration took) {
  if (busy_since_ && tier < moved_.size()) moved_[tier].probe_s += to_seconds(took);
}

}  // namespace kv_offload
