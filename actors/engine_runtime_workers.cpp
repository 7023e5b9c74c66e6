#include "kv_offload/actors/engine_runtime.hpp"

#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/sha256.hpp"

#include <algorithm>
#include <thread>
#include <utility>

// The engine's memory, and the worker processes that share it.
namespace kv_offload {
namespace {

static_assert(config_fields::kWorldSizeMax == kRegionRanksMax && config_fields::kEngineNameBytesMax <= kEngineIdBytesMax,
              "check-config accepts what a region's record can say");

MonotonicTime now() { return std::chrono::steady_clock::now(); }

/// What workers must agree on besides the revision, which may change while they run.
std::string fingerprint_of(NamespaceIdentity identity) {
  identity.revision.clear();
  const auto mapper = FileMapper::make("/", identity);
  return mapper ? sha256_hex(mapper->digest_namespace()).substr(0, 32) : std::string();
}

RegionRecord record_of(const EngineConfig& config) {
  RegionRecord record;
  const WorkersConfig& workers = *config.workers;
  record.engine_id = !config.engine_id.empty() ? config.engine_id
                     : !workers.socket.empty() ? workers.socket
                                               : workers.region_file.substr(0, kEngineIdBytesMax);
  record.world_size = config.workers->world_size;
  record.blocks_per_chunk = config.identity.blocks_per_file;
  record.layout = config.chunk_layout();
  record.namespace_collapsed = config.identity.parallelism_agnostic;
  record.fingerprint = fingerprint_of(config.identity);
  record.revision = config.identity.revision;
  return record;
}

}  // namespace

Expected<Ok> EngineRuntime::start_region() {
  RegionOptions options;
  options.num_chunks = parts_.map.num_chunks();
  options.chunk_bytes = config_.chunk_bytes;
  options.huge_pages = config_.huge_pages;
  options.reserve_only = config_.reserve_only;
  options.threads = std::max(1U, std::min(4U, std::thread::hardware_concurrency()));
  options.now = now;
  if (plan_.pins) options.placement = {parts_.map, plan_.domains, {}};
  // Shared memory has no transparent huge pages where the kernel's shmem_enabled is never, its default.
  if (config_.workers)
    options.shared = RegionSharing{record_of(config_), config_.workers->region_file,
                                   config_.huge_pages && config_.workers->region_file.empty()};
  auto region = Region::create(options);
  if (!region) return region.error();
  region_ = std::move(region).value();
  parts_.view = region_->view();
  for (const auto& part : region_->placed())
    parts_.memory.push_back({part.bytes_planned, part.bytes_found, part.bytes_elsewhere});
  parts_.env->log("info", region_->describe());
  return Ok{};
}

/// Returns when every worker has joined and their layouts fit together: before that no tier may write.
Expected<Ok> EngineRuntime::start_workers() {
  if (!config_.workers) return Ok{};
  if (config_.workers->socket.empty()) {
    parts_.revise_workers = [region = region_.get()](const std::string& revision) { region->set_revision(revision); };
    return Ok{};
  }
  const WorkersConfig& workers = *config_.workers;
  parts_.worker_sink = std::make_shared<WorkerSink>();
  WorkerHub::Options options;
  options.socket = workers.socket;
  options.record = *region_->record();
  options.region_fd = region_->fd();
  options.orders_max = config_.jobs_max;
  options.now = now;
  options.log = [env = parts_.env](const std::string& level, const std::string& line) { env->log(level, line); };
  options.sink = parts_.worker_sink.get();
  auto hub = WorkerHub::start(std::move(options));
  if (!hub) return hub.error();
  workers_ = std::move(hub).value();
  parts_.env->log("info", "workers: waiting for " + std::to_string(workers.world_size) + " on " + workers.socket);
  if (auto joined = workers_->wait_joined(workers.join); !joined) return joined.error();
  region_->remove_name();  // they came by descriptor: nobody needs the file any more
  const auto portable = workers_->all_layers_portable();
  parts_.env->log("info", "workers: all " + std::to_string(workers.world_size) + " have joined, layout " +
                              std::string(to_string(config_.chunk_layout())) +
                              (portable ? *portable ? ", every layer portable" : ", some layers opaque" : ""));
  parts_.order_workers = [hub = workers_.get()](WorkerOrder order) { return hub->submit(std::move(order)); };
  parts_.worker_stats = [hub = workers_.get()] { return hub->stats(); };
  parts_.revise_workers = [hub = workers_.get()](const std::string& revision) { hub->set_revision(revision); };
  return Ok{};
}

std::optional<bool> EngineRuntime::all_layers_portable() const {
  return workers_ ? workers_->all_layers_portable() : std::nullopt;
}

/// False: a worker neither ended nor died, and may still write to the region. The region is another process's memory
/// as well, so nothing of ours needs to stay mapped for it.
bool EngineRuntime::stop_workers(MonotonicTime deadline) {
  if (!workers_) return true;
  const bool all = workers_->stop(std::max(deadline - now(), Duration(std::chrono::milliseconds(100))));
  if (!all) parts_.env->log("error", "workers: not all of them ended in time");
  if (parts_.worker_sink) parts_.worker_sink->close();
  return all;
}

}  // namespace kv_offload
