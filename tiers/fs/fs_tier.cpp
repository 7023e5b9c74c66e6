#include "kv_offload/tiers/fs/fs_tier.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/fs/fs_capacity.hpp"
#include "kv_offload/tiers/fs/fs_directory.hpp"
#include "kv_offload/tiers/fs/fs_metrics.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/io/choose_backend.hpp"
#include "kv_offload/tiers/io/chunk_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace kv_offload {

namespace {

/// Longest that a start looks for left-over temporary files: about a million chunks on a local disk.
constexpr auto kSweepPatience = std::chrono::seconds(5);
constexpr auto kFailedStartPatience = std::chrono::seconds(5);

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Expected<std::unique_ptr<SecondaryTier>> FsTier::make(const FsConfig& config,
                                                      const NamespaceIdentity& identity,
                                                      TierEnvironment environment,
                                                      std::shared_ptr<TierFaults> faults,
                                                      MakeBackend make_backend) {
  auto mapper = FileMapper::make(config.root_dir, identity);
  if (!mapper) return mapper.error();
  const PrimaryView& primary = environment.primary;
  if (primary.row_bytes == 0 || primary.row_bytes % ChunkTransfer::kAlignment != 0)
    return {OffloadErrc::invalid_argument, environment.label + ": row_bytes " +
                                               std::to_string(primary.row_bytes) +
                                               " is not a multiple of 4096"};
  if (config.capacity_bytes && *config.capacity_bytes < primary.row_bytes)
    return {OffloadErrc::invalid_config,
            environment.label + ": capacity_bytes: " + std::to_string(*config.capacity_bytes) +
                " is not allowed; expected at least one chunk, " +
                std::to_string(primary.row_bytes)};
  LaneOptions options;
  options.name = environment.label;
  options.primary = primary;
  options.sink = environment.sink;
  options.now = environment.now;
  options.faults = std::move(faults);
  if (environment.probes_max != 0) options.probes_max = environment.probes_max;
  if (environment.jobs_max != 0) options.jobs_max = environment.jobs_max;
  options.queue_depth = config.queue_depth;
  options.inflight_bytes_max = config.inflight_bytes_max;

  auto shared = std::make_shared<FsShared>();
  auto backend = make_backend ? make_backend(options)
                              : choose_backend(config.io.value_or(environment.io), options,
                                               // Loads and stores, and the storage's own.
                                               2 * options.queue_depth + FsCapacity::kOwnIoMax,
                                               environment.log);
  FsConfig effective = config;
  effective.enable_kv_events = config.enable_kv_events && environment.kv_events;
  auto storage = std::make_unique<FsStorage>(*mapper, effective, primary.payload_bytes, shared);
  auto lane = std::make_unique<Lane>(std::move(options), std::move(backend), std::move(storage));
  return std::unique_ptr<SecondaryTier>(new FsTier(std::move(effective), identity, std::move(*mapper),
                                                   std::move(environment), std::move(shared),
                                                   std::move(lane)));
}

TierTraits FsTier::traits() const { return {"fs", Medium::storage, config_.locality}; }

/// Checks, then the lane, then the directory: where it cannot do I/O, nothing is created.
Expected<Ok> FsTier::start() {
  if (const auto error = check_root_dir(mapper_.root_dir())) return labelled(*error);
  const auto backend = lane_->start();
  if (!backend) {
    lane_->stop(kFailedStartPatience);
    return labelled(backend.error());
  }
  auto opened = open_directory(*backend);
  if (!opened) lane_->stop(kFailedStartPatience);
  return opened;
}

Expected<Ok> FsTier::open_directory(const std::string& backend) {
  const auto directory =
      open_fs_directory(mapper_, config_.checksum, environment_.primary.row_bytes);
  if (!directory) return labelled(directory.error());
  shared_->is_direct = directory->is_direct;
  if (!directory->is_direct)
    log("buffered I/O: O_DIRECT does not work in " + mapper_.chunk_dir() + " (" +
        directory->why_not_direct + ")");

  if (!config_.capacity_bytes) {
    sweep();
    unrecorded_.try_emplace(mapper_.chunk_dir(), mapper_.chunk_dir());
  } else if (auto opened = open_capacity(); !opened) {
    return labelled(opened.error());
  }
  if (!config_.without_effect.empty())
    log("without effect here, one thread keeps the device busy: " + join(config_.without_effect));
  log(mapper_.chunk_dir() + ": " + (directory->is_direct ? "direct I/O, " : "buffered I/O, ") +
      backend + ", " + std::to_string(config_.inflight_bytes_max >> 10) +
      " KiB in flight per direction, queue depth " + std::to_string(config_.queue_depth) +
      ", checksum " + (config_.checksum ? "on" : "off"));
  return Ok{};
}

void FsTier::sweep() const {
  const SweepResult sweep = sweep_temp_files(mapper_.chunk_dir(), kSweepPatience);
  if (sweep.removed + sweep.kept + sweep.failed > 0 || !sweep.is_complete)
    log("temporary files of earlier writers: " + std::to_string(sweep.removed) + " removed, " +
        std::to_string(sweep.kept) + " kept (their writers may be alive), " +
        std::to_string(sweep.failed) + " could not be removed" +
        (sweep.is_complete ? "" : "; not every directory was looked at in 5 s"));
}

Expected<std::unique_ptr<FsNamespace>> FsTier::open_namespace(
    const FileMapper& mapper, const std::string& revision,
    std::vector<std::string>& revisions) const {
  FsNamespaceWanted wanted;
  wanted.policy = config_.eviction_policy;
  wanted.capacity_bytes = *config_.capacity_bytes;
  wanted.row_bytes = environment_.primary.row_bytes;
  wanted.now_us =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  return open_fs_namespace(mapper, revision, wanted, revisions,
                           [this](const std::string& line) { log(line); });
}

Expected<Ok> FsTier::open_capacity() {
  std::vector<std::string> revisions;
  auto current = open_namespace(mapper_, identity_.revision, revisions);
  if (!current) return current.error();
  std::vector<std::unique_ptr<FsNamespace>> older;
  for (const std::string& revision : revisions) {
    auto identity = identity_;
    identity.revision = revision;
    const auto mapper = FileMapper::make(mapper_.root_dir(), identity);
    if (!mapper || revision == identity_.revision) continue;
    if (check_root_dir(mapper->chunk_dir())) continue;  // gone meanwhile
    std::vector<std::string> theirs;
    auto ns = open_namespace(*mapper, revision, theirs);
    if (!ns) return ns.error();
    older.push_back(std::move(*ns));
  }
  const FsNamespace& ns = **current;
  log(ns.mapper.chunk_dir() + ": " + std::to_string(ns.residency->size()) + " chunks of " +
      format_bytes(ns.bytes()) + " known, capacity " + format_bytes(*config_.capacity_bytes) +
      ", " + config_.eviction_policy +
      (ns.walk ? "; every file is being looked at meanwhile" : ""));
  FsCapacityOptions options;
  options.capacity_bytes = *config_.capacity_bytes;
  options.row_bytes = environment_.primary.row_bytes;
  options.leaving_bytes_max = std::max(config_.inflight_bytes_max, environment_.primary.row_bytes);
  options.events = config_.enable_kv_events;
  options.locality = config_.locality;
  options.now = environment_.now;
  // By value: the lane may outlive the tier.
  options.log = [to = environment_.log, label = environment_.label](const std::string& line) {
    if (to) to(label + ": " + line);
  };
  shared_->capacity = std::make_unique<FsCapacity>(std::move(options), *shared_,
                                                   std::move(*current), std::move(older));
  shared_->has_capacity.store(true, std::memory_order_release);
  lane_->wake();  // there may be files to look for
  return Ok{};
}

FsForgetter::Removed FsTier::removed() const {
  if (!config_.capacity_bytes) return {};
  return [shared = shared_](const OffloadKey& key) { shared->add_forgotten(key); };
}

OffloadError FsTier::labelled(const OffloadError& error) const {
  return {error.code, environment_.label + ": " + error.detail};
}

void FsTier::log(const std::string& line) const {
  if (environment_.log) environment_.log(environment_.label + ": " + line);
}

bool FsTier::probe(ProbeId probe, KeyList keys) { return lane_->probe(probe, std::move(keys)); }

bool FsTier::forget(ForgetId forget, KeyList keys) {
  return forgetter_.take({forget, mapper_, std::move(keys), std::nullopt, removed()});
}

bool FsTier::forget_tenant(ForgetId forget, std::uint64_t salt) {
  return forgetter_.take({forget, mapper_, {}, salt, removed()});
}

bool FsTier::stop(Duration patience) {
  const auto deadline = environment_.now() + patience;
  const bool lane_ended = lane_->stop(patience);
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->next_namespace) shared_->next_namespace->marker.remove();
  }
  if (lane_ended && shared_->has_capacity.exchange(false))
    if (const int error = shared_->capacity->close(); error != 0)
      log(mapper_.chunk_dir() + ": what is known of the chunks could not be written: " +
          std::strerror(error) + "; the next start looks at every file");
  if (lane_ended)
    for (auto& [directory, run] : std::exchange(unrecorded_, {})) run.end();
  return forgetter_.stop(std::max(deadline - environment_.now(), Duration::zero())) && lane_ended;
}

Expected<Ok> FsTier::set_revision(const std::string& revision) {
  auto identity = identity_;
  identity.revision = revision;
  auto mapper = FileMapper::make(mapper_.root_dir(), identity);
  if (!mapper) return labelled(mapper.error());
  if (const auto directory =
          open_fs_directory(*mapper, config_.checksum, environment_.primary.row_bytes);
      !directory)
    return labelled(directory.error());
  std::unique_ptr<FsNamespace> ns;
  if (config_.capacity_bytes) {
    std::vector<std::string> theirs;
    auto opened = open_namespace(*mapper, revision, theirs);
    if (!opened) return labelled(opened.error());
    ns = std::move(*opened);
  } else {
    unrecorded_.try_emplace(mapper->chunk_dir(), mapper->chunk_dir());
  }
  identity_ = std::move(identity);
  mapper_ = *mapper;
  log("revision \"" + revision + "\": chunks are in " + mapper_.chunk_dir());
  const std::lock_guard lock(shared_->mutex);
  if (shared_->next_namespace) shared_->next_namespace->marker.remove();
  shared_->next_namespace = std::move(ns);
  shared_->next_mapper = std::move(*mapper);
  shared_->namespace_changed = true;
  return Ok{};
}

std::vector<OffloadingEvent> FsTier::take_events() {
  std::uint64_t dropped = 0;
  auto events = shared_->events.take(dropped);
  if (dropped > 0)
    log(std::to_string(dropped) +
        " events were dropped: too many waited already and nobody took them");
  return events;
}

TierStats FsTier::stats() const {
  TierStats stats;
  const LaneCounters& counters = lane_->counters();
  stats.queued_jobs = lane_->queued_jobs();
  stats.running_jobs = counters.running_jobs;
  stats.unverified_chunks = counters.unverified_chunks;
  stats.corrupt_chunks = shared_->corrupt_chunks;
  stats.foreign_refused = shared_->foreign_refused;
  stats.probes = counters.probes;
  if (config_.capacity_bytes)
    stats.samples =
        fs_metric_samples(environment_.label, shared_->counters, *config_.capacity_bytes);
  return stats;
}

std::vector<MetricDefinition> FsTier::metric_definitions() const {
  if (!config_.capacity_bytes) return {};
  return fs_metric_definitions();
}

}  // namespace kv_offload
