#include "kv_offload/tiers/example/example_tier.hpp"

#include "kv_offload/tiers/io/active_job.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

namespace kv_offload {

Expected<ExampleConfig> parse_example_config(const ConfigNode& node, const std::string& path) {
  ConfigReader reader(node, path);
  for (const char* key : {"type", "backpressure", "pin_share", "label"}) reader.child(key);
  ExampleConfig config;
  config.example_parameter = reader.string("example_parameter", "");
  config.chunks_max = static_cast<std::uint32_t>(reader.integer(
      "chunks_max", config.chunks_max, 1, std::numeric_limits<std::uint32_t>::max()));
  if (auto error = reader.finish()) return *error;
  return config;
}

ExampleTier::ExampleTier(ExampleConfig config, TierEnvironment environment,
                         std::shared_ptr<TierFaults> faults)
    : config_(std::move(config)),
      environment_(std::move(environment)),
      digester_("example"),
      faults_(std::move(faults)) {}

TierTraits ExampleTier::traits() const { return {"example", Medium::cpu, std::nullopt}; }

Expected<Ok> ExampleTier::start() {
  is_running_ = true;
  return Ok{};
}

bool ExampleTier::probe(ProbeId probe, KeyList keys) {
  std::vector<LookupResult> verdicts;
  verdicts.reserve(keys.size());
  for (const OffloadKey& key : keys)
    verdicts.push_back(chunks_.contains(key) ? LookupResult::hit : LookupResult::miss);
  stats_.probes += keys.size();
  environment_.sink->probed(probe, std::move(verdicts));
  return true;
}

std::optional<LookupResult> ExampleTier::lookup(const OffloadKey& key) {
  return chunks_.contains(key) ? LookupResult::hit : LookupResult::miss;
}

bool ExampleTier::forget(ForgetId forget, KeyList keys) {
  std::uint64_t gone = 0;
  for (const OffloadKey& key : keys) gone += chunks_.erase(key);
  environment_.sink->forgot(forget, gone, {});
  return true;
}

bool ExampleTier::forget_tenant(ForgetId forget, std::uint64_t salt) {
  const auto gone = std::erase_if(chunks_, [salt](const auto& entry) { return entry.first.has_salt(salt); });
  environment_.sink->forgot(forget, gone, {});
  return true;
}

void ExampleTier::submit(std::vector<TransferJob> jobs) {
  for (const TransferJob& job : jobs) {
    JobResult result;
    if (!is_running_ || !is_valid(job)) {
      result = result_of_unstarted(
          job, is_running_ ? TransferFailure::io_error : TransferFailure::cancelled,
          environment_.now());
    } else {
      result = job.is_promotion ? load(job) : store(job);
    }
    const JobId id = job.job_id;
    environment_.sink->job_outcome(std::move(result));
    environment_.sink->job_quiesced(id);
  }
}

bool ExampleTier::is_valid(const TransferJob& job) const {
  return job.chunk_ids.size() == job.keys.size() &&
         std::all_of(job.chunk_ids.begin(), job.chunk_ids.end(),
                     [this](ChunkId chunk) { return chunk < environment_.primary.num_chunks; });
}

JobResult ExampleTier::store(const TransferJob& job) {
  ActiveJob active(job);
  const PrimaryView& primary = environment_.primary;
  while (active.has_unstarted()) {
    const std::size_t i = active.start_next();
    const OffloadKey& key = job.keys[i];
    KeyEnd end{KeyFate::done, TransferFailure::none, 0, false};
    const int error = faults_.error_of_next(false);
    if (error != 0) {
      const bool is_full = error == ENOSPC;
      end = KeyEnd::failed(is_full ? TransferFailure::no_space : TransferFailure::io_error, error);
    } else if (chunks_.contains(key)) {
      end.fate = KeyFate::already_present;
    } else if (chunks_.size() >= config_.chunks_max) {
      end = KeyEnd::failed(TransferFailure::no_space, ENOSPC);
    } else {
      primary.begin_use(job.chunk_ids[i]);
      const auto row = primary.row(job.chunk_ids[i]);
      Chunk chunk{{row.begin(), row.end()}, digester_.digest(key, row)};
      primary.end_use(job.chunk_ids[i]);
      if (faults_.corrupts_next_store()) chunk.row[chunk.row.size() / 2] ^= std::byte{0x01};
      chunks_.emplace(key, std::move(chunk));
    }
    active.key_ended(i, end, primary.row_bytes, {});
  }
  return active.take_result(environment_.now());
}

JobResult ExampleTier::load(const TransferJob& job) {
  const PrimaryView& primary = environment_.primary;
  for (const OffloadKey& key : job.keys)
    if (!chunks_.contains(key))
      return result_of_unstarted(job, TransferFailure::not_found, environment_.now());
  ActiveJob active(job);
  while (active.has_unstarted()) {
    const std::size_t i = active.start_next();
    const auto chunk = chunks_.find(job.keys[i]);
    KeyEnd end{KeyFate::done, TransferFailure::none, 0, false};
    if (const int error = faults_.error_of_next(true); error != 0) {
      end = KeyEnd::failed(TransferFailure::io_error, error);
    } else if (chunk == chunks_.end()) {  // named twice, and the first time it was corrupt
      end = KeyEnd::failed(TransferFailure::not_found);
    } else if (digester_.digest(job.keys[i], chunk->second.row) != chunk->second.digest) {
      end = KeyEnd::failed(TransferFailure::corrupt, EIO);
      chunks_.erase(chunk);
      ++stats_.corrupt_chunks;
    } else {
      primary.begin_use(job.chunk_ids[i]);
      std::copy(chunk->second.row.begin(), chunk->second.row.end(),
                primary.row(job.chunk_ids[i]).begin());
      primary.end_use(job.chunk_ids[i]);
    }
    active.key_ended(i, end, primary.row_bytes, {});
  }
  return active.take_result(environment_.now());
}

bool ExampleTier::stop(Duration /*patience*/) {
  is_running_ = false;
  return true;
}

}  // namespace kv_offload
