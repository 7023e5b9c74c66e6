#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/stress.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace kv_offload::bench {

/// Where the serving threads of a stress run belong. With --threads-per-domain each NUMA domain of the engine has as many,
/// kept on its node's CPUs where the engine's own are; else they are wherever the kernel puts them. A value.
class StressThreads {
 public:
  static constexpr std::uint32_t kMax = 1024;  ///< all domains together

  /// @param config  as the engine is started with. Errors are one line that names the option or the field.
  static Expected<StressThreads> plan(const StressOptions& options, const EngineConfig& config);

  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Unset: it belongs to none.
  [[nodiscard]] std::optional<DomainId> domain_of(std::uint32_t thread) const {
    if (per_domain_ == 0) return std::nullopt;
    return static_cast<DomainId>(thread / per_domain_);
  }
  /// What its requests have to name: nothing where the thread's node tells the engine. By the topology of another
  /// machine nobody is anywhere.
  [[nodiscard]] std::optional<DomainId> names_domain(std::uint32_t thread) const {
    return plan_.pins ? std::nullopt : domain_of(thread);
  }
  /// Takes the calling thread to its domain. Returns what failed, empty if nothing.
  [[nodiscard]] std::string enter(std::uint32_t thread) const;
  [[nodiscard]] const DomainPlan& domains() const { return plan_; }
  [[nodiscard]] std::uint32_t per_domain() const {
    return per_domain_;
  }  ///< 0: they belong to none

 private:
  std::uint32_t count_ = 0, per_domain_ = 0;
  DomainPlan plan_;
};

}  // namespace kv_offload::bench
