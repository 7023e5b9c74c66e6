#pragma once

#include "kv_offload/actors/http_health.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/metric_definition.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

struct EngineConfig;

/// Every series that an engine of this configuration can show: the engine's own (always), then
/// those of its admission policies and of its tiers. Needs no engine and starts nothing, so that a
/// process can declare the metrics before an engine exists. A configuration that does not pass
/// validate() gets what could be found out. Any thread.
[[nodiscard]] std::vector<MetricDefinition> metric_definitions(const EngineConfig& config);

/// The page as `/metrics` serves it (text exposition format), without a server. Series and label
/// combinations of the engine are all there from the start, also at 0. What undeclared_metrics()
/// names is left out; debug builds stop there. Any thread.
[[nodiscard]] std::string render_metrics(const EngineStats& stats,
                                         const std::vector<MetricDefinition>& definitions);

/// What `stats` would show that `definitions` does not declare, or not like that: one line each.
/// Empty unless a policy, a tier or the engine has a bug.
[[nodiscard]] std::vector<std::string> undeclared_metrics(
    const EngineStats& stats, const std::vector<MetricDefinition>& definitions);

/// Serves three pages over HTTP: `/metrics` for Prometheus, `/admission` for whoever wonders why
/// something was refused, `/healthz` for an orchestrator. Its threads are its own; each page calls
/// `stats` or `health` once, on one of them. `/metrics` also holds the server's own `exposer_*`
/// series.
class MetricsServer {
 public:
  /// Listens at `address`, a number or a name ("127.0.0.1", "::1", "0.0.0.0"), on `port`; 0 takes
  /// any free one. Whoever is not on this machine is kept out only by a loopback address: there is
  /// no authentication. invalid_config, with one line for the operator, if it cannot listen there.
  /// @param stats   called on the server's threads until the destructor returns; must not throw
  /// @param health  likewise, may take its time; absent: what the stats say of the tiers
  static Expected<std::unique_ptr<MetricsServer>> start(const std::string& address, int port,
                                                        std::function<EngineStats()> stats,
                                                        std::vector<MetricDefinition> definitions,
                                                        std::function<EngineHealth()> health = {});
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  /// Ends the answers that run and closes the port.
  ~MetricsServer();

  /// The port it listens on, never 0.
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
