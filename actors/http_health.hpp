#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/pending.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

enum class HealthStatus : std::uint8_t {
  ok,
  degraded,      ///< serves, without the disabled tiers
  unresponsive,  ///< its actors do not answer in time
  failed,        ///< an actor died; every call answers so until the process starts a new engine
  shutting_down,
};
constexpr std::string_view to_string(HealthStatus s) {
  constexpr std::string_view kNames[] = {"ok", "degraded", "unresponsive", "failed",
                                         "shutting_down"};
  return kNames[static_cast<std::size_t>(s)];
}
constexpr bool serves(HealthStatus s) {
  return s == HealthStatus::ok || s == HealthStatus::degraded;
}

struct EngineHealth {
  HealthStatus status = HealthStatus::ok;
  std::string reason;                       ///< empty while ok
  std::vector<std::string> disabled_tiers;  ///< labels; empty if the engine did not say
  double answer_s = 0;                      ///< how long the actors took
};

/// What `/healthz` says: a short JSON object.
[[nodiscard]] std::string health_json(const EngineHealth& health);

/// Ok, or degraded with the tiers that the numbers say are down.
[[nodiscard]] EngineHealth health_of(const EngineStats& stats);

/// Asks a running engine whether it answers: its numbers, which come behind a fence through every
/// actor. Any thread. At most one question is open at a time, whoever asks: a stuck engine does not
/// collect them.
class HealthProbe {
 public:
  /// Probes of orchestrators give up after 1 s unless they are told otherwise; the answer should
  /// say why before that.
  static constexpr Duration kPatience = std::chrono::milliseconds(800);

  /// @param ask     sends one question for the engine's numbers
  /// @param failed  the name of the failed state, empty while there is none
  HealthProbe(std::function<void(Reply<EngineStats>)> ask, std::function<std::string()> failed,
              Duration patience = kPatience);

  /// Waits for the engine's answer, `patience` at most.
  [[nodiscard]] EngineHealth check();
  /// From now on the answer is shutting_down; whoever waits gets it at once.
  void begin_shutdown();

 private:
  struct Shared;
  std::function<void(Reply<EngineStats>)> ask_;
  std::function<std::string()> failed_;
  Duration patience_;
  std::shared_ptr<Shared> shared_;  // with the answer that is on its way
};

}  // namespace kv_offload
