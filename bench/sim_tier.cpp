#include "kv_offload/bench/sim_tier.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace kv_offload::bench {

SimTier::SimTier(SimTierModel model, Parts parts)
    : model_(std::move(model)), parts_(std::move(parts)), random_(parts_.seed) {
  chunk_bytes_ = parts_.primary.row_bytes;
}

TierTraits SimTier::traits() const {
  TierTraits traits;
  traits.type = "sim";
  traits.medium = Medium::storage;
  traits.locality = model_.locality;
  return traits;
}

// -- what it holds ------------------------------------------------------------------------------------

void SimTier::preload(const KeyList& keys) {
  for (const OffloadKey& key : keys) insert(key);
}

void SimTier::insert(const OffloadKey& key) {
  if (const auto it = present_.find(key); it != present_.end()) {
    recency_.splice(recency_.begin(), recency_, it->second);
    return;
  }
  recency_.push_front(key);
  present_.emplace(key, recency_.begin());
  if (model_.capacity_bytes == 0) return;
  while (present_.size() * chunk_bytes_ > model_.capacity_bytes && present_.size() > 1) {
    present_.erase(recency_.back());
    recency_.pop_back();
  }
}

LookupResult SimTier::verdict(const OffloadKey& key) {
  const auto it = present_.find(key);
  if (it == present_.end()) return LookupResult::miss;
  recency_.splice(recency_.begin(), recency_, it->second);
  return LookupResult::hit;
}

std::optional<LookupResult> SimTier::lookup(const OffloadKey& key) {
  if (!model_.in_memory) return std::nullopt;
  return verdict(key);
}

bool SimTier::probe(ProbeId probe, KeyList keys) {
  stats_.probes += keys.size();
  Duration latency = model_.probe.draw(random_, chunk_bytes_);
  if (const SimFault* now = fault()) latency = from_seconds(to_seconds(latency) * now->slow);
  stall(to_seconds(latency) * model_.stall_per_probe);
  const auto answer = [this, probe, keys = std::move(keys)] {
    std::vector<LookupResult> verdicts;
    verdicts.reserve(keys.size());
    for (const OffloadKey& key : keys) verdicts.push_back(verdict(key));
    parts_.sink->probed(probe, std::move(verdicts));
  };
  if (latency == Duration::zero()) {
    answer();
  } else {
    parts_.world->after(latency, answer);
  }
  return true;
}

// -- what it moves --------------------------------------------------------------------------------------

void SimTier::submit(std::vector<TransferJob> jobs) {
  for (TransferJob& job : jobs) {
    const std::uint64_t id = next_job_++;
    auto& queue = job.is_promotion ? loads_ : stores_;
    backlog_peak_ = std::max(backlog_peak_, backlog_ += job.keys.size());
    if (const double healed_s = model_.faults.empty() ? 0 : model_.faults.back().to_s;
        !job.is_promotion && recovery_s_ < 0 && healed_s > 0 && parts_.world->seconds() >= healed_s)
      recovery_s_ = parts_.world->seconds() - healed_s;
    Job entry;
    entry.fates.assign(job.keys.size(), KeyFate::failed);
    entry.job = std::move(job);
    const bool empty = entry.job.keys.empty();
    jobs_.emplace(id, std::move(entry));
    if (empty) {
      finish(id);
    } else {
      queue.push_back(id);
    }
  }
  start_work();
}

std::deque<std::uint64_t>* SimTier::next_queue() {
  if (loads_.empty() && stores_.empty()) return nullptr;
  if (loads_.empty()) return &stores_;
  if (stores_.empty() || model_.loads_first) return &loads_;
  return loads_.front() < stores_.front() ? &loads_ : &stores_;
}

void SimTier::start_work() {
  while (in_flight_ < model_.depth) {
    auto* queue = next_queue();
    if (queue == nullptr) return;
    const std::uint64_t id = queue->front();
    Job& job = jobs_.at(id);
    if (job.started + 1 == job.job.keys.size()) queue->pop_front();
    start_chunk(id);
  }
}

void SimTier::start_chunk(std::uint64_t id) {
  Job& job = jobs_.at(id);
  const std::size_t key = job.started++;
  const bool is_load = job.job.is_promotion;
  const bool present = present_.contains(job.job.keys[key]);
  ++in_flight_;
  if (is_load != present)  // nothing to read, or nothing to write
    return end_chunk(id, key, is_load ? KeyFate::failed : KeyFate::already_present,
                     is_load ? TransferFailure::not_found : TransferFailure::none);
  const std::uint64_t bytes = job.job.chunk_bytes;
  const SimFault* now = fault();
  const double slow = now != nullptr ? now->slow : 1;
  const bool fails = now != nullptr && now->error_share > 0 && uniform(random_) < now->error_share;
  const auto& latency = is_load ? model_.load : model_.store;
  const double bandwidth = is_load ? model_.read_bytes_s : model_.write_bytes_s;
  MonotonicTime& free = is_load ? read_free_ : write_free_;
  const MonotonicTime begun = parts_.world->now();
  MonotonicTime end = begun + from_seconds(to_seconds(latency.draw(random_, bytes)) * slow);
  if (bandwidth > 0) {
    end = std::max(end, free) + from_seconds(static_cast<double>(bytes) / bandwidth * slow);
    free = end;
  }
  job.io_time += end - begun;
  parts_.primary.begin_use(job.job.chunk_ids[key]);
  const auto done = [this, id, key, fails, bytes, is_load, chunk = job.job.chunk_ids[key]] {
    parts_.primary.end_use(chunk);
    if (fails) return end_chunk(id, key, KeyFate::failed, TransferFailure::io_error);
    Job& ended = jobs_.at(id);
    ended.bytes += bytes;
    insert(ended.job.keys[key]);
    stall(static_cast<double>(bytes) *
          (is_load ? model_.stall_s_per_read_byte : model_.stall_s_per_written_byte));
    end_chunk(id, key, KeyFate::done, TransferFailure::none);
  };
  if (end == begun) return done();
  parts_.world->at(end, [this, done] {
    done();
    start_work();
  });
}

void SimTier::end_chunk(std::uint64_t id, std::size_t key, KeyFate fate, TransferFailure failure) {
  --in_flight_;
  Job& job = jobs_.at(id);
  job.fates[key] = fate;
  if (job.failure == TransferFailure::none) job.failure = failure;
  if (++job.ended == job.job.keys.size()) finish(id);
}

void SimTier::finish(std::uint64_t id) {
  const auto it = jobs_.find(id);
  Job job = std::move(it->second);
  jobs_.erase(it);
  backlog_ -= job.job.keys.size();
  JobResult result;
  result.job_id = job.job.job_id;
  result.failure = job.failure;
  result.success = job.failure == TransferFailure::none;
  result.error_number = job.failure == TransferFailure::io_error ? EIO : 0;
  result.fates = std::move(job.fates);
  result.transfer_bytes = job.bytes;
  result.transfer_time = job.io_time;
  result.finished_at = parts_.world->now();
  parts_.sink->job_outcome(std::move(result));
  parts_.sink->job_quiesced(job.job.job_id);
}

void SimTier::cancel_if_queued(std::uint64_t id, std::deque<std::uint64_t>& queue) {
  Job& job = jobs_.at(id);
  if (job.started > 0) return;
  std::erase(queue, id);
  job.failure = TransferFailure::cancelled;
  finish(id);
}

void SimTier::cancel(JobId wanted) {
  for (const auto& [id, job] : jobs_) {
    if (job.job.job_id != wanted) continue;
    return cancel_if_queued(id, job.job.is_promotion ? loads_ : stores_);
  }
}

void SimTier::cancel_queued() {
  for (auto* queue : {&loads_, &stores_})
    for (const std::uint64_t id : std::vector<std::uint64_t>(queue->begin(), queue->end()))
      cancel_if_queued(id, *queue);
}

TierStats SimTier::stats() const {
  TierStats stats = stats_;
  stats.queued_jobs = loads_.size() + stores_.size();
  stats.running_jobs = jobs_.size() - stats.queued_jobs;
  return stats;
}

const SimFault* SimTier::fault() const {
  const double now = parts_.world->seconds();
  for (const SimFault& fault : model_.faults)
    if (now >= fault.from_s && now < fault.to_s) return &fault;
  return nullptr;
}

void SimTier::stall(double seconds) const {
  if (parts_.stall && seconds > 0) parts_.stall(from_seconds(seconds));
}

// -- its description --------------------------------------------------------------------------------------

namespace {

constexpr double kBytesMax = 1e18;

void read_faults(ConfigReader& reader, SimTierModel& model) {
  const ConfigNode* node = reader.child("faults");
  if (node == nullptr) return;
  if (node->list() == nullptr) return reader.fail("faults", *node, "a list of faults");
  for (std::size_t i = 0; i < node->list()->size(); ++i) {
    ConfigReader entry((*node->list())[i], reader.path_of("faults[" + std::to_string(i) + "]"));
    SimFault fault;
    fault.from_s = entry.number("from_s", 0, 0, 1e9);
    fault.to_s = entry.number("to_s", 1e9, fault.from_s, 1e9);
    fault.slow = entry.number("slow", 1, 0.001, 1e6);
    fault.error_share = entry.number("error_share", 0, 0, 1);
    if (auto error = entry.finish()) return reader.fail(error->detail);
    model.faults.push_back(fault);
  }
}

}  // namespace

SimTierModel read_tier_model(ConfigReader& reader) {
  SimTierModel model;
  model.capacity_bytes =
      static_cast<std::uint64_t>(reader.number("capacity_bytes", 0, 0, kBytesMax));
  model.loads_first = reader.boolean("loads_first", model.loads_first);
  model.depth = static_cast<std::uint32_t>(reader.integer("depth", model.depth, 1, 65536));
  model.in_memory = reader.boolean("in_memory", model.in_memory);
  model.probe = read_latency(reader, "probe_s");
  model.load = read_latency(reader, "load_s");
  model.store = read_latency(reader, "store_s");
  model.read_bytes_s = reader.number("read_bytes_s", 0, 0, kBytesMax);
  model.write_bytes_s = reader.number("write_bytes_s", 0, 0, kBytesMax);
  model.stall_per_probe = reader.number("stall_per_probe", 0, 0, 1000);
  model.stall_s_per_written_byte = reader.number("stall_s_per_written_gb", 0, 0, 1000) / 1e9;
  model.stall_s_per_read_byte = reader.number("stall_s_per_read_gb", 0, 0, 1000) / 1e9;
  const auto locality = reader.choice("locality", "", {"LOCAL", "REMOTE", ""});
  if (!locality.empty()) model.locality = locality == "REMOTE" ? Locality::remote : Locality::local;
  read_faults(reader, model);
  return model;
}

}  // namespace kv_offload::bench
