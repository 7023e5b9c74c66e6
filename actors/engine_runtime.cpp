#include "kv_offload/actors/engine_runtime.hpp"

#include "kv_offload/actors/domain_calls.hpp"
#include "kv_offload/actors/engine_log.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>

#include <exception>
#include <mutex>
#include <thread>

namespace kv_offload {
namespace {

MonotonicTime now() { return std::chrono::steady_clock::now(); }

/// A tier from outside may throw; the engine's callers must not see it.
Expected<Ok> start_tier(SecondaryTier& tier, const std::string& label) {
  try {
    return tier.start();
  } catch (const std::exception& error) {
    return OffloadError{OffloadErrc::io_error, label + ": could not be started: " + error.what()};
  } catch (...) {
    return OffloadError{OffloadErrc::io_error, label + ": could not be started"};
  }
}

}  // namespace

EngineRuntime::EngineRuntime(EngineConfig config) : config_(std::move(config)) {}

EngineRuntime::~EngineRuntime() { shutdown(config_.deadlines.shutdown); }

Expected<std::unique_ptr<EngineRuntime>> EngineRuntime::start(EngineConfig config, Trace trace) {
  if (const auto error = config.validate()) return *error;
  std::unique_ptr<EngineRuntime> engine(new EngineRuntime(std::move(config)));
  auto env = std::make_shared<ActorEnvironment>();
  env->log = make_log(engine->config_.log_level, engine->config_.log);
  env->trace = std::move(trace);
  if (auto planned = engine->start_domains(*env); !planned) return planned.error();
  engine->parts_.env = std::move(env);
  for (const auto step : {&EngineRuntime::start_admission_state, &EngineRuntime::start_region,
                          &EngineRuntime::start_workers, &EngineRuntime::start_tiers,
                          &EngineRuntime::start_actors, &EngineRuntime::start_metrics_server})
    if (auto started = (engine.get()->*step)(); !started) return started.error();
  const auto& c = engine->config_;
  for (const auto& note : c.notes) engine->log("info", note);
  for (const auto& warning : c.warnings()) engine->log("warn", warning);
  engine->log("info", "engine started: " + std::to_string(engine->parts_.view.num_chunks) +
                          " chunks of " + std::to_string(c.row_bytes()) + " bytes, eviction " +
                          c.eviction_policy + ", " + std::to_string(engine->parts_.tiers.size()) +
                          " secondary tier(s)");
  return engine;
}

Expected<Ok> EngineRuntime::start_admission_state() {
  if (config_.admission_state_file.empty()) return Ok{};
  auto file = AdmissionStateFile::open(
      config_.admission_state_file,
      [env = parts_.env](std::string_view level, const std::string& line) { env->log(level, line); });
  if (!file) return file.error();
  admission_state_ = std::move(file).value();
  const auto& found = admission_state_->found();
  parts_.env->log("info", "admission_state_file: " + config_.admission_state_file +
                              (found.empty() ? ": not there yet, the first engine makes it"
                               : found == AdmissionStateFile::kEmpty
                                   ? ": empty"
                                   : ": " + std::to_string(found.size()) + " bytes"));
  parts_.admission_keeping.kept = found;
  parts_.admission_keeping.keep = [file = admission_state_.get()](std::string text) { file->keep(std::move(text)); };
  parts_.admission_keeping.keep_aside = [file = admission_state_.get(),
                                         path = config_.admission_state_file] {
    file->keep_aside();
    return AdmissionStateFile::aside(path);
  };
  parts_.admission_keeping.unix_ms = [] {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
  };
  return Ok{};
}

Expected<Ok> EngineRuntime::start_tiers() {
  parts_.labels.push_back(primary_label());
  for (std::size_t i = 0; i < config_.secondary_tiers.size(); ++i) {
    const auto& tier_config = config_.secondary_tiers[i];
    const auto label = tier_label(static_cast<TierIndex>(i), tier_config.type);
    auto sink = std::make_shared<LaneSink>(static_cast<TierIndex>(i));
    TierEnvironment environment;
    environment.label = label;
    environment.primary = region_->view();
    environment.sink = sink.get();
    auto gate = std::make_shared<ParentGate>(static_cast<TierIndex>(i), config_.calls_max, parts_.external_expired);
    environment.parent = gate.get();
    environment.now = now;
    environment.probes_max = config_.probes_max;
    environment.jobs_max = config_.jobs_max;
    environment.io = io_mode_of(config_.io).value_or(IoMode::automatic);
    environment.kv_events = config_.enable_kv_events;
    environment.log = [env = parts_.env](std::string line) { env->log("info", line); };
    environment.warn = [env = parts_.env](std::string line) { env->log("warn", line); };
    auto tier = secondary_tiers().make(
        TierConfig{tier_config.type, tier_config.node, tier_config.path, config_.identity, tier_config.faults},
        std::move(environment));
    if (!tier) return tier.error();
    auto& built = *tier;
    if (auto started = start_tier(*built, label); !started) return started.error();
    parts_.traits.push_back(built->traits());
    parts_.tiers.push_back(std::move(built));
    parts_.sinks.push_back(std::move(sink));
    parts_.gates.push_back(std::move(gate));
    parts_.labels.push_back(label);
    parts_.env->log("info", "secondary tier #" + std::to_string(i) + " (" + tier_config.type + ") started");
  }
  return Ok{};
}

Expected<Ok> EngineRuntime::start_actors() {
  caf_ = std::make_unique<CafSystem>(config_.worker_threads);
  auto actors = spawn_engine_actors(caf_->system(), config_, parts_);
  if (!actors) return actors.error();
  actors_ = std::move(actors).value();
  return Ok{};
}

Expected<Ok> EngineRuntime::start_metrics_server() {
  if (!config_.metrics.port) return Ok{};
  health_ = std::make_shared<HealthProbe>(
      [step = actors_.steps.front()](Reply<EngineStats> reply) {
        caf::anon_send(step, StatsCall{std::move(reply)});
      },
      [failed = parts_.failed] { return failed->name(); });
  auto server = MetricsServer::start(config_.metrics.address, *config_.metrics.port,
                                     [board = parts_.board] { return board->get(); }, metric_definitions(config_),
                                     [health = health_] { return health->check(); });
  if (!server) return server.error();
  metrics_server_ = std::move(server).value();
  metrics_port_ = metrics_server_->port();
  parts_.env->log("info", "metrics on http://" + config_.metrics.address + ":" + std::to_string(metrics_port_) +
                              "/metrics, beside it /admission and /healthz");
  return Ok{};
}

// -- the way down -------------------------------------------------------------------------------------------

namespace {

/// Waits for an answer until `deadline`; the slot's own end is guaranteed, only not its time.
bool await(CompletionSlot<Ok>& slot, MonotonicTime deadline) {
  while (!slot.ready() && now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return slot.ready();
}

}  // namespace

template <class Handle>
void EngineRuntime::stop_actor(Handle& actor, const char* name, MonotonicTime deadline) {
  if (!actor) return;
  auto slot = std::make_shared<CompletionSlot<Ok>>(0U);
  caf::anon_send(actor, StopActor{Reply<Ok>(slot)});
  if (!await(*slot, deadline + std::chrono::seconds(1)))
    parts_.env->log("error", std::string(name) + " did not stop in time");
  actor = nullptr;
}

template <class Handle>
void EngineRuntime::stop_actors(std::vector<Handle>& actors, const char* name,
                                MonotonicTime deadline) {
  for (auto& actor : actors) stop_actor(actor, name, deadline);
  actors.clear();
}

bool EngineRuntime::stop_tiers(MonotonicTime deadline) {
  for (auto& gate : parts_.gates) gate->close();
  for (auto& sink : parts_.sinks) sink->close();
  for (std::size_t t = 0; t < actors_.tiers.size(); ++t)
    stop_actor(actors_.tiers[t], parts_.labels[t + 1].c_str(), deadline);
  actors_.tiers.clear();
  bool all = true;
  for (std::size_t t = 0; t < parts_.tiers.size(); ++t) {
    const auto left = std::max(deadline - now(), Duration(std::chrono::milliseconds(100)));
    if (parts_.tiers[t]->stop(left)) continue;
    parts_.env->log("error", parts_.labels[t + 1] + ": a lane did not return in time; its memory is leaked on purpose");
    all = false;
  }
  return all;
}

/// A lane that never returned may still write to the region and to its own state: they stay, reachable, for
/// the rest of the process.
void EngineRuntime::leak_lanes() {
  struct Kept {
    std::vector<std::shared_ptr<SecondaryTier>> tiers;
    std::vector<std::shared_ptr<LaneSink>> sinks;
    std::vector<std::shared_ptr<ParentGate>> gates;
    std::unique_ptr<Region> region;
  };
  static std::mutex mutex;
  static auto* kept = new std::vector<Kept>;  // never destroyed, on purpose
  region_->leak([this](const std::string& line) { parts_.env->log("error", line); });
  const std::scoped_lock lock(mutex);
  kept->push_back({parts_.tiers, parts_.sinks, parts_.gates, std::move(region_)});
}

void EngineRuntime::drain(Duration patience) {
  if (health_) health_->begin_shutdown();
  if (std::exchange(drained_, true) || actors_.steps.empty()) return;
  auto slot = std::make_shared<CompletionSlot<Ok>>(0U);
  ask_all<Ok>(
      actors_.steps, Reply<Ok>(slot),
      [&](Reply<Ok> reply) {
        return DrainCall{true, patience, std::move(reply)};
      },
      [](Ok&, Ok) {});
  if (!await(*slot, now() + patience + std::chrono::seconds(1)))
    parts_.env->log("error", "scheduler_step did not answer the drain in time");
}

bool EngineRuntime::shutdown(Duration patience) {
  if (std::exchange(stopped_, true)) return clean_;
  const auto deadline = now() + patience;
  drain(patience / 2);
  metrics_server_.reset();
  health_.reset();  // with its handle of an actor
  const bool workers_ended = stop_workers(now() + (deadline - now()) / 2);
  clean_ = stop_tiers(deadline);
  stop_actor(actors_.tracker, "job_tracker", deadline);
  stop_actor(actors_.admission, "admission_controller", deadline);
  if (admission_state_ && !admission_state_->close(std::max(deadline - now(), Duration(std::chrono::seconds(1)))))
    parts_.env->log("error", "admission_state_file: " + config_.admission_state_file + ": not written in time");
  stop_actors(actors_.primaries, "primary_tier", deadline);
  stop_actors(actors_.steps, "scheduler_step", deadline);
  stop_actor(actors_.metrics, "engine_metrics", deadline);
  stop_actor(actors_.supervisor, "engine_supervisor", deadline);
  caf_.reset();
  if (!clean_) leak_lanes();
  parts_.tiers.clear();
  workers_.reset();
  clean_ = clean_ && workers_ended;
  return clean_;
}

}  // namespace kv_offload
