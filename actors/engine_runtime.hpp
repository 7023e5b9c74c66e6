#pragma once

#include "kv_offload/actors/admission_state_file.hpp"
#include "kv_offload/actors/caf_system.hpp"
#include "kv_offload/actors/engine_actors.hpp"
#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/actors/http_health.hpp"
#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"
#include "kv_offload/tiers/workers/worker_hub.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// The parts of a running engine and the order in which they start and stop. Starting: domains, admission's state
/// file, region, workers (all have joined and fit together before a tier writes anything), tiers, actor system,
/// actors, metrics server; an error at any step takes down what had started. Stopping: drain (the metrics
/// server says so meanwhile), metrics server, workers, sinks, tier actors, lanes, the other actors, the state
/// file, actor system, region.
///
/// Used from the thread that starts and the one that stops; everything else talks to the actors.
class EngineRuntime {
 public:
  using Trace = std::function<void(std::string_view actor, std::string_view message)>;

  static Expected<std::unique_ptr<EngineRuntime>> start(EngineConfig config, Trace trace = {});
  ~EngineRuntime();
  EngineRuntime(const EngineRuntime&) = delete;
  EngineRuntime& operator=(const EngineRuntime&) = delete;

  /// First half of the way down: /healthz says so, queued transfers are cancelled, running ones end.
  /// Completions still reach the actors. Idempotent.
  void drain(Duration patience);
  /// Drains if drain() was not called, then stops everything. Idempotent. False: a lane did not return by `patience`; its state and the region are leaked.
  bool shutdown(Duration patience);

  [[nodiscard]] const EngineConfig& config() const { return config_; }
  [[nodiscard]] PrimaryView view() const { return parts_.view; }
  [[nodiscard]] const std::vector<SchedulerStepActor>& steps() const {
    return actors_.steps;
  }  ///< by domain
  /// Of the processor that the caller runs on.
  [[nodiscard]] DomainId domain_here() const { return kv_offload::domain_here(plan_); }
  [[nodiscard]] const DomainMap& domain_map() const { return parts_.map; }
  [[nodiscard]] FailedState& failed() { return *parts_.failed; }
  [[nodiscard]] int metrics_port() const { return metrics_port_; }
  [[nodiscard]] std::optional<bool> all_layers_portable() const;
  void log(std::string_view level, const std::string& line) const { parts_.env->log(level, line); }

 private:
  explicit EngineRuntime(EngineConfig config);
  Expected<Ok> start_domains(ActorEnvironment& env);
  Expected<Ok> start_admission_state();
  Expected<Ok> start_region();
  Expected<Ok> start_workers();
  Expected<Ok> start_tiers();
  Expected<Ok> start_actors();
  Expected<Ok> start_metrics_server();
  bool stop_workers(MonotonicTime deadline);
  bool stop_tiers(MonotonicTime deadline);
  template <class Handle>
  void stop_actors(std::vector<Handle>& actors, const char* name, MonotonicTime deadline);
  template <class Handle>
  void stop_actor(Handle& actor, const char* name, MonotonicTime deadline);
  void leak_lanes();

  EngineConfig config_;
  DomainPlan plan_;
  EngineParts parts_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<WorkerHub> workers_;
  std::unique_ptr<CafSystem> caf_;
  EngineActors actors_;
  std::unique_ptr<AdmissionStateFile> admission_state_;
  std::shared_ptr<HealthProbe> health_;
  std::unique_ptr<MetricsServer> metrics_server_;
  int metrics_port_ = 0;
  bool drained_ = false;
  bool stopped_ = false;
  bool clean_ = true;
};

}  // namespace kv_offload
