#include "kv_offload/admission/load_worth.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {
namespace {

constexpr double kWeight = 1.0 / 16;          // of an answer
constexpr std::uint64_t kFewAnswers = 16;     // before a lookup is cut short
constexpr std::uint64_t kFewDearAnswers = 4;  // where asking shows in the device's speed
constexpr std::uint32_t kFirstBatches = 2;    // of a tier that has not loaded anything yet
constexpr std::uint32_t kFarthest = 4096;     // lookups between two trials
constexpr std::uint32_t kBehindKnown = 8;
constexpr double kAskingLeast =
    1.0 / 8;  // of the time: a device that is waited for now may rest by then
constexpr std::uint32_t kNoBound = std::numeric_limits<std::uint32_t>::max();

std::uint32_t doubled(std::uint32_t now, std::uint32_t first) {
  return std::min(std::max(now, first) * 2, std::max(first, kFarthest));
}

}  // namespace

LoadWorth::LoadWorth(const LoadWorthOptions& options, AdmissionEnvironment environment)
    : options_(options),
      environment_(std::move(environment)),
      costs_(environment_.tiers.size(), environment_.compute_tokens_per_s),
      offered_(options.memory_chunks) {
  tiers_.assign(environment_.tiers.size(), Tier());
}

double LoadWorth::chunk_s() const {
  return costs_.token_s() * static_cast<double>(environment_.tokens_per_chunk);
}

LoadWorth::Verdict LoadWorth::judge(TierIndex tier, std::uint64_t chunks,
                                    std::uint64_t chunk_bytes) const {
  const Tier& t = tiers_[tier];
  if (!costs_.knows_speed()) return Verdict::load;
  const double computing = static_cast<double>(chunks) * chunk_s();
  const double device = static_cast<double>(chunks * chunk_bytes) * costs_.read_s_per_byte(tier);
  if (device > options_.device_share * costs_.saved_second() * computing) return Verdict::device;
  // Nothing has landed yet: a few lookups find out for all.
  if (!t.times.knows()) return t.batches < kFirstBatches ? Verdict::load : Verdict::time;
  const double loading = t.times.seconds(static_cast<double>(t.in_flight + chunks));
  return loading > computing + options_.wait_share * costs_.wait_s() ? Verdict::time
                                                                     : Verdict::load;
}

bool LoadWorth::is_probe_due(const Tier& tier) const {
  return tier.refused_since_probe + 1 >= std::max(tier.probe_every, options_.probe_every);
}

// -- promotions ---------------------------------------------------------------------------------------------

RefusalReason LoadWorth::should_admit(const JobMetadata& job, MonotonicTime /*now*/) const {
  if (options_.mode != GateMode::enforce || !job.is_promotion || job.tier >= tiers_.size())
    return RefusalReason::none;
  // One decision per lookup and tier, made at its first chunk.
  if (const auto batch = batches_.find(job.ticket); batch != batches_.end())
    return batch->second.room > 0 ? RefusalReason::none : RefusalReason::load_worth;
  const bool worth = judge(job.tier, std::max(1U, job.batch_chunks), job.bytes) == Verdict::load;
  return worth || is_probe_due(tiers_[job.tier]) ? RefusalReason::none : RefusalReason::load_worth;
}

void LoadWorth::on_admitted(const JobMetadata& job, MonotonicTime now) {
  if (job.tier >= tiers_.size()) return;
  if (!job.is_promotion) {
    for (const OffloadKey& key : job.keys) offered_.add(key);
    chunk_bytes_ = job.num_chunks > 0 ? job.bytes / job.num_chunks : chunk_bytes_;
    return;
  }
  Tier& tier = tiers_[job.tier];
  const auto [it, is_new] = batches_.try_emplace(job.ticket);
  Batch& batch = it->second;
  if (is_new) {
    batch.ahead = tier.in_flight;
    batch.begun = now;
    batch.room = kNoBound;
    ++tier.batches;
    const Verdict verdict = judge(job.tier, std::max(1U, job.batch_chunks), job.bytes);
    const bool worth = verdict == Verdict::load;
    if (std::exchange(tier.loads, worth) != worth) ++tier.log_moments;
    if (worth) {
      tier.probe_every = 0;
      tier.refused_since_probe = 0;
    } else if (options_.mode == GateMode::enforce) {
      batch.room = options_.probe_chunks;
      ++tier.probes;
      tier.refused_since_probe = 0;
      tier.probe_every = doubled(tier.probe_every, options_.probe_every);
    } else {
      ++tier.would_refuse_lookups;
    }
  }
  batch.left += job.num_chunks;
  batch.room -= batch.room == kNoBound ? 0 : std::min(batch.room, job.num_chunks);
  tier.in_flight += job.num_chunks;
}

void LoadWorth::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                           MonotonicTime /*now*/) {
  if (job.tier >= tiers_.size()) return;
  if (!job.is_promotion) {
    for (const OffloadKey& key : job.keys) offered_.add(key);
    return;
  }
  if (refuser != this || batches_.contains(job.ticket)) return;
  Tier& tier = tiers_[job.tier];
  ++tier.refused_lookups;
  ++tier.refused_since_probe;
  const bool device = judge(job.tier, std::max(1U, job.batch_chunks), job.bytes) == Verdict::device;
  ++(device ? tier.refused_for_device : tier.refused_for_time);
  if (std::exchange(tier.loads, false)) ++tier.log_moments;
}

void LoadWorth::end(const JobMetadata& job, bool completed, MonotonicTime finished) {
  if (!job.is_promotion || job.tier >= tiers_.size()) return;
  const auto it = batches_.find(job.ticket);
  if (it == batches_.end()) return;
  Tier& tier = tiers_[job.tier];
  Batch& batch = it->second;
  const auto chunks = std::min(job.num_chunks, batch.left);
  batch.left -= chunks;
  tier.in_flight -= std::min<std::uint64_t>(tier.in_flight, chunks);
  if (completed) batch.chunks += chunks;
  batch.moved = batch.moved || completed;
  if (batch.left > 0) return;
  if (batch.moved) {
    const double took = std::max(0.0, to_seconds(finished - batch.begun));
    tier.times.add(static_cast<double>(batch.ahead + batch.chunks), took);
    // A trial that was worth it is followed by others soon: they have to outweigh what was seen before.
    if (batch.room != kNoBound && took < batch.chunks * chunk_s()) tier.probe_every = 0;
  }
  --tier.batches;
  batches_.erase(it);
}

void LoadWorth::on_completed(const JobMetadata& job, const CompletedTransfer& result,
                             MonotonicTime now) {
  end(job, result.transfer_bytes > 0,
      result.finished_at == MonotonicTime{} ? now : result.finished_at);
}

void LoadWorth::on_withdrawn(const JobMetadata& job, MonotonicTime now) { end(job, false, now); }

std::int64_t LoadWorth::in_flight_chunks() const {
  std::int64_t chunks = 0;
  for (const Tier& tier : tiers_) chunks += static_cast<std::int64_t>(tier.in_flight);
  return chunks;
}

// -- lookups --------------------------------------------------------------------------------------------------

/// The memory forgets single keys, so that the last one tells; behind it as many as a first probe asks for anyway.
std::uint32_t LoadWorth::known(const LookupReach& lookup) const {
  auto until = static_cast<std::uint32_t>(lookup.keys.size());
  while (until > lookup.first_key && !offered_.contains(lookup.keys[until - 1])) --until;
  if (until <= lookup.first_key) return lookup.first_key;
  return std::min(until + kBehindKnown, static_cast<std::uint32_t>(lookup.keys.size()));
}

std::uint32_t LoadWorth::lookup_reach(const LookupReach& lookup, MonotonicTime /*now*/) const {
  if (options_.mode != GateMode::enforce || lookup.tier >= tiers_.size() || !costs_.knows_speed())
    return LookupReach::kEverything;
  const Tier& tier = tiers_[lookup.tier];
  if (tier.skippable + 1 >= std::max(tier.cut_every, options_.probe_every))
    return LookupReach::kEverything;
  // Waiting for the tier's word costs the request what it exceeds the wait for the device by, and the device what it shows.
  const double waits = std::max(0.0, tier.probing_s - options_.wait_share * costs_.wait_s());
  const double asking =
      std::max({waits, tier.probing_s * kAskingLeast,
                tier.probing_s * costs_.probed_s_per_s(lookup.tier) / costs_.saved_second()});
  const std::uint32_t until = known(lookup);
  const auto few = costs_.probed_s_per_s(lookup.tier) > 0 ? kFewDearAnswers : kFewAnswers;
  const bool strangers = tier.stranger_answers < few || tier.stranger_chunks * chunk_s() > asking;
  if (strangers && until < lookup.keys.size()) return LookupReach::kEverything;
  const bool any = until > lookup.first_key &&
                   (tier.known_answers < few || tier.known_chunks * chunk_s() > asking);
  return any ? until : 0;
}

void LoadWorth::on_reach(const LookupReach& lookup, std::uint32_t reach, MonotonicTime /*now*/) {
  if (lookup.tier >= tiers_.size()) return;
  Tier& tier = tiers_[lookup.tier];
  if (reach != LookupReach::kEverything) {
    ++tier.cut_lookups;
    ++tier.skippable;
    if (reach == 0 && known(lookup) > lookup.first_key)
      ++tier.refused_since_probe;  // it would have been refused
  } else if (std::exchange(tier.skippable, 0) > 0) {
    tier.cut_every = doubled(tier.cut_every, options_.probe_every);
  }
}

void LoadWorth::on_reached(const LookupReached& answer, MonotonicTime /*now*/) {
  if (answer.asked.tier >= tiers_.size() || answer.asked_until == 0) return;
  Tier& tier = tiers_[answer.asked.tier];
  const auto average = [](double& value, std::uint64_t& answers, double sample) {
    value += (answers == 0 ? 1 : kWeight) * (sample - value);
    ++answers;
  };
  tier.probing_s += (tier.known_answers + tier.stranger_answers == 0 ? 1 : kWeight) *
                    (to_seconds(answer.probing) - tier.probing_s);
  const std::uint32_t until = known(answer.asked);
  const auto strangers = answer.served_until > until
                             ? std::min(answer.served_until - until, answer.served_chunks)
                             : 0U;
  if (answer.asked_until > until) average(tier.stranger_chunks, tier.stranger_answers, strangers);
  if (answer.asked_from < until)
    average(tier.known_chunks, tier.known_answers, answer.served_chunks - strangers);
  if (answer.served_chunks > 0) tier.cut_every = 0;
}

void LoadWorth::reset() {
  tiers_.assign(tiers_.size(), Tier());
  batches_.clear();
  offered_.clear();
  costs_ = DeviceCosts(tiers_.size(), environment_.compute_tokens_per_s);
  chunk_bytes_ = 0;
}

}  // namespace kv_offload
