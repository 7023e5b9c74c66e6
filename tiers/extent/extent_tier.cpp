#include "kv_offload/tiers/extent/extent_tier.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/extent/extent_checkpoint.hpp"
#include "kv_offload/tiers/extent/extent_metrics.hpp"
#include "kv_offload/tiers/extent/extent_recovery.hpp"
#include "kv_offload/tiers/extent/extent_storage.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/io/choose_backend.hpp"
#include "kv_offload/tiers/io/chunk_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace kv_offload {

namespace {

constexpr auto kFailedStartPatience = std::chrono::seconds(5);
/// The storage's own requests and joined writes, besides one per transfer.
constexpr std::uint32_t kExtraRequests = 32;

/// The same text that the digests of a file tier are computed for.
Expected<ExtentNamespace> namespace_of(const NamespaceIdentity& identity) {
  const auto mapper = FileMapper::make("/", identity);
  if (!mapper) return mapper.error();
  ExtentNamespace name_space;
  name_space.text = mapper->digest_namespace();
  name_space.tag = namespace_tag(name_space.text);
  return name_space;
}

LaneOptions lane_options(const ExtentConfig& config, const TierEnvironment& environment,
                         std::shared_ptr<TierFaults> faults) {
  LaneOptions options;
  options.name = environment.label;
  options.primary = environment.primary;
  options.sink = environment.sink;
  options.now = environment.now;
  options.faults = std::move(faults);
  if (environment.probes_max != 0) options.probes_max = environment.probes_max;
  if (environment.jobs_max != 0) options.jobs_max = environment.jobs_max;
  options.queue_depth = config.queue_depth;
  options.inflight_bytes_max = config.inflight_bytes_max;
  return options;
}

}  // namespace

Expected<std::unique_ptr<SecondaryTier>> ExtentTier::make(const ExtentConfig& config,
                                                          const NamespaceIdentity& identity,
                                                          TierEnvironment environment,
                                                          std::shared_ptr<TierFaults> faults,
                                                          MakeBackend make_backend) {
  auto name_space = namespace_of(identity);
  if (!name_space) return name_space.error();
  const PrimaryView& primary = environment.primary;
  if (primary.row_bytes == 0 || primary.row_bytes % ChunkTransfer::kAlignment != 0)
    return {OffloadErrc::invalid_argument, environment.label + ": row_bytes " +
                                               std::to_string(primary.row_bytes) +
                                               " is not a multiple of 4096"};
  const auto geometry =
      ExtentGeometry::make(config.capacity_bytes, config.segment_bytes, primary.row_bytes);
  if (!geometry) return {geometry.error().code, environment.label + ": " + geometry.error().detail};

  const LaneOptions options = lane_options(config, environment, std::move(faults));
  ExtentConfig effective = config;
  effective.enable_kv_events = config.enable_kv_events && environment.kv_events;
  auto shared = std::make_shared<ExtentShared>(environment.sink);
  auto backend = make_backend
                     ? make_backend(options)
                     : choose_backend(config.io.value_or(environment.io), options,
                                      2 * options.queue_depth + kExtraRequests, environment.log);
  auto storage =
      std::make_unique<ExtentStorage>(effective, *name_space, primary.payload_bytes, shared);
  auto lane = std::make_unique<Lane>(options, std::move(backend), std::move(storage));
  return std::unique_ptr<SecondaryTier>(
      new ExtentTier(std::move(effective), identity, std::move(*name_space), std::move(environment),
                     std::move(shared), std::move(lane)));
}

TierTraits ExtentTier::traits() const { return {"extent", Medium::storage, config_.locality}; }

/// The lane first: where it cannot do I/O, nothing is created.
Expected<Ok> ExtentTier::start() {
  const auto backend = lane_->start();
  if (!backend) {
    lane_->stop(kFailedStartPatience);
    return labelled(backend.error());
  }
  auto opened = open_file(*backend);
  if (!opened) lane_->stop(kFailedStartPatience);
  return opened;
}

Expected<Ok> ExtentTier::open_file(const std::string& backend) {
  NamespaceIdentity base = identity_;
  base.revision.clear();
  const auto base_namespace = namespace_of(base);
  if (!base_namespace) return labelled(base_namespace.error());
  ExtentFile::Wanted wanted;
  wanted.path = config_.path;
  wanted.capacity_bytes = config_.capacity_bytes;
  wanted.segment_bytes = config_.segment_bytes;
  wanted.row_bytes = environment_.primary.row_bytes;
  wanted.fingerprint = namespace_fingerprint(base_namespace->text);
  wanted.model = identity_.model_name;
  wanted.sync_name = config_.durability == Durability::full;
  try {
    auto file = ExtentFile::open(wanted);
    if (!file) return labelled(file.error());
    shared_->volume = std::make_unique<ExtentVolume>(std::move(*file));
    const ExtentRecovery recovery = recover(*shared_->volume);
    log_start(backend, recovery);
    const SegmentTable& segments = shared_->volume->segments;
    shared_->counters.free_segments = segments.num_free();
    shared_->counters.dead_slots = segments.num_used() - shared_->volume->index.size();
  } catch (const std::bad_alloc&) {
    shared_->volume.reset();
    return labelled({OffloadErrc::no_space, "no memory for the index of " + config_.path});
  }
  shared_->is_open.store(true, std::memory_order_release);
  return Ok{};
}

void ExtentTier::log_start(const std::string& backend, const ExtentRecovery& recovery) const {
  const ExtentVolume& volume = *shared_->volume;
  for (const std::string& note : volume.file.notes()) log(note);
  if (recovery.unreadable > 0)
    log(config_.path + ": " + std::to_string(recovery.unreadable) +
        " segments cannot be read, their chunks are gone: " + std::strerror(recovery.error));
  log(config_.path + ": " + std::to_string(recovery.chunks) + " chunks found" +
      (volume.file.is_new() ? " (new file)"
       : recovery.was_clean ? ""
                            : " (the last stop was not clean: uses since then are not known)") +
      (recovery.superseded > 0
           ? ", " + std::to_string(recovery.superseded) + " older copies left out"
           : ""));
  const ExtentGeometry& g = volume.geometry;
  log(config_.path + ": " + std::to_string(g.num_segments) + " segments of " +
      std::to_string(g.slots_per_segment) + " rows, index " + format_bytes(volume.index.bytes()) +
      " when full, " + (volume.file.is_direct() ? "direct I/O, " : "buffered I/O, ") + backend +
      ", queue depth " + std::to_string(config_.queue_depth));
}

OffloadError ExtentTier::labelled(const OffloadError& error) const {
  return {error.code, environment_.label + ": " + error.detail};
}

void ExtentTier::log(const std::string& line) const {
  if (environment_.log) environment_.log(environment_.label + ": " + line);
}

bool ExtentTier::probe(ProbeId probe, KeyList keys) { return lane_->probe(probe, std::move(keys)); }

std::optional<LookupResult> ExtentTier::lookup(const OffloadKey& key) {
  if (!shared_->is_open) return std::nullopt;
  return shared_->volume->index.contains(key_hash(namespace_.tag, key)) ? LookupResult::hit
                                                                        : LookupResult::miss;
}

bool ExtentTier::forget(ForgetId forget, KeyList keys) {
  return leave({forget, namespace_.tag, std::move(keys), std::nullopt});
}

bool ExtentTier::forget_tenant(ForgetId forget, std::uint64_t salt) {
  return leave({forget, namespace_.tag, {}, salt});
}

bool ExtentTier::leave(ForgetWork work) {
  if (!shared_->is_open) return false;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->forgets_open >= ExtentShared::kForgetsMax) return false;
    ++shared_->forgets_open;
    shared_->forgets.push_back(std::move(work));
    shared_->has_news.store(true, std::memory_order_release);
  }
  lane_->wake();
  return true;
}

Expected<Ok> ExtentTier::set_revision(const std::string& revision) {
  NamespaceIdentity identity = identity_;
  identity.revision = revision;
  auto name_space = namespace_of(identity);
  if (!name_space) return labelled(name_space.error());
  identity_ = std::move(identity);
  namespace_ = *name_space;
  log("revision \"" + revision + "\": chunks of others are not found any more");
  const std::lock_guard lock(shared_->mutex);
  shared_->next_namespace = std::move(*name_space);
  shared_->has_news.store(true, std::memory_order_release);
  return Ok{};
}

std::vector<OffloadingEvent> ExtentTier::take_events() {
  std::uint64_t dropped = 0;
  auto events = shared_->events.take(dropped);
  if (dropped > 0)
    log(std::to_string(dropped) +
        " events were dropped: too many waited already and nobody took them");
  return events;
}

TierStats ExtentTier::stats() const {
  TierStats stats;
  const LaneCounters& counters = lane_->counters();
  stats.queued_jobs = lane_->queued_jobs();
  stats.running_jobs = counters.running_jobs;
  stats.unverified_chunks = counters.unverified_chunks;
  stats.corrupt_chunks = shared_->counters.corrupt_chunks;
  stats.probes = counters.probes;
  stats.samples = extent_metric_samples(environment_.label, shared_->counters,
                                        shared_->is_open ? shared_->volume.get() : nullptr);
  return stats;
}

std::vector<MetricDefinition> ExtentTier::metric_definitions() const {
  return extent_metric_definitions();
}

double ExtentTier::index_bytes_per_chunk() const {
  if (!shared_->is_open) return 0;
  const ExtentVolume& volume = *shared_->volume;
  return static_cast<double>(volume.index.bytes()) /
         static_cast<double>(volume.geometry.num_slots());
}

bool ExtentTier::stop(Duration patience) {
  const bool lane_ended = lane_->stop(patience);
  {
    const std::lock_guard lock(shared_->sink_mutex);
    shared_->sink = nullptr;
  }
  if (!lane_ended || !shared_->is_open) return lane_ended;
  if (const int error = write_checkpoint(*shared_->volume); error != 0)
    log(config_.path + ": not everything could be written at the stop: " + std::strerror(error));
  shared_->is_open = false;
  shared_->volume.reset();
  return true;
}

}  // namespace kv_offload
