#include "kv_offload/tiers/obj/obj_tier.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/obj/obj_metrics.hpp"

#include <random>
#include <utility>

namespace kv_offload {

namespace {

constexpr auto kFailedStartPatience = std::chrono::seconds(5);

std::chrono::sys_seconds machine_clock() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace

Expected<std::unique_ptr<SecondaryTier>> ObjTier::make(const ObjConfig& config,
                                                       const NamespaceIdentity& identity,
                                                       TierEnvironment environment,
                                                       std::shared_ptr<TierFaults> faults,
                                                       Surroundings surroundings) {
  auto name_space = ObjNamespace::make(config.prefix, identity);
  if (!name_space) return name_space.error();
  ObjConfig effective = config;
  effective.enable_kv_events = config.enable_kv_events && environment.kv_events;

  LaneOptions options;
  options.name = environment.label;
  options.primary = environment.primary;
  options.sink = environment.sink;
  options.now = environment.now;
  options.faults = std::move(faults);
  if (environment.probes_max != 0) options.probes_max = environment.probes_max;
  if (environment.jobs_max != 0) options.jobs_max = environment.jobs_max;

  ObjLaneSetup setup{std::move(options), effective, std::move(*name_space),
                     std::move(surroundings.environment),
                     surroundings.wall_clock ? std::move(surroundings.wall_clock) : machine_clock,
                     // By value: the lane may outlive the tier.
                     [to = environment.log, label = environment.label](const std::string& line) {
                       if (to) to(label + ": " + line);
                     },
                     [to = environment.warn ? environment.warn : environment.log,
                      label = environment.label](const std::string& line) {
                       if (to) to(label + ": " + line);
                     },
                     surroundings.seed != 0 ? surroundings.seed : std::random_device{}()};
  auto lane = std::make_unique<ObjLane>(std::move(setup));
  return std::unique_ptr<SecondaryTier>(
      new ObjTier(std::move(effective), identity, std::move(environment), std::move(lane)));
}

TierTraits ObjTier::traits() const { return {"obj", Medium::storage, config_.locality}; }

Expected<Ok> ObjTier::start() {
  const auto started = lane_->start();
  if (!started) {
    lane_->stop(kFailedStartPatience);
    return OffloadError{started.error().code, environment_.label + ": " + started.error().detail};
  }
  if (config_.insecure_skip_verify)
    warn("insecure_skip_verify: whoever sits on the way to " + to_string(config_.place) +
         " can read and change everything, the credentials' signatures included");
  else if (config_.place.scheme == "http")
    log("http: chunks travel unencrypted");
  for (const std::string& key : config_.without_effect)
    log(key + " is without effect here: one thread keeps max_inflight requests in flight");
  log(to_string(config_.place) + (config_.prefix.empty() ? "" : ", prefix " + config_.prefix) + ": credentials of " +
      *started + ", " + std::to_string(config_.max_inflight) + " requests in flight per direction, " +
      (config_.existence == ObjExistence::manifest ? "manifest" : "one HEAD per unknown key") + ", checksum " +
      (config_.checksum ? "on" : "off") +
      (config_.capacity_bytes ? ", capacity " + format_bytes(*config_.capacity_bytes) : ""));
  return Ok{};
}

Expected<Ok> ObjTier::set_revision(const std::string& revision) {
  auto identity = identity_;
  identity.revision = revision;
  auto name_space = ObjNamespace::make(config_.prefix, identity);
  if (!name_space) return OffloadError{name_space.error().code, environment_.label + ": " + name_space.error().detail};
  identity_ = std::move(identity);
  log("revision \"" + revision + "\": chunks are in " + name_space->chunks_prefix());
  lane_->change_namespace(std::move(*name_space));
  return Ok{};
}

std::vector<OffloadingEvent> ObjTier::take_events() {
  std::uint64_t dropped = 0;
  auto events = lane_->shared().events.take(dropped);
  if (dropped > 0) log(std::to_string(dropped) + " events were dropped: too many waited already and nobody took them");
  return events;
}

TierStats ObjTier::stats() const {
  const ObjShared& shared = lane_->shared();
  const LaneCounters& counters = lane_->counters();
  TierStats stats;
  stats.queued_jobs = lane_->queued_jobs();
  stats.running_jobs = counters.running_jobs;
  stats.unverified_chunks = counters.unverified_chunks;
  stats.corrupt_chunks = shared.counters.corrupt_chunks;
  stats.foreign_refused = shared.counters.foreign_refused;
  stats.probes = counters.probes;
  stats.samples = obj_metric_samples(environment_.label, shared, config_);
  return stats;
}

std::vector<MetricDefinition> ObjTier::metric_definitions() const { return obj_metric_definitions(); }

void ObjTier::warn(const std::string& line) const {
  const auto& to = environment_.warn ? environment_.warn : environment_.log;
  if (to) to(environment_.label + ": " + line);
}

void ObjTier::log(const std::string& line) const {
  if (environment_.log) environment_.log(environment_.label + ": " + line);
}

}  // namespace kv_offload
