#include "kv_offload/bench/stress_threads.hpp"

#include "kv_offload/actors/engine_config_domains.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/tiers/topology/pin_thread.hpp"

#include <utility>

namespace kv_offload::bench {

Expected<StressThreads> StressThreads::plan(const StressOptions& options,
                                            const EngineConfig& config) {
  StressThreads threads;
  threads.count_ = options.threads;
  if (!options.threads_per_domain) return threads;
  auto plan = planned_domains(config);
  if (!plan) return plan.error();
  threads.plan_ = std::move(plan).value();
  threads.per_domain_ = *options.threads_per_domain;
  const auto domains = threads.plan_.num_domains();
  if (threads.per_domain_ < 1 || threads.per_domain_ > kMax / domains)
    return OffloadError{OffloadErrc::invalid_argument,
                        "--threads-per-domain: " + std::to_string(threads.per_domain_) +
                            " is not allowed with " + std::to_string(domains) +
                            " domains; expected 1 to " + std::to_string(kMax / domains)};
  threads.count_ = threads.per_domain_ * domains;
  return threads;
}

std::string StressThreads::enter(std::uint32_t thread) const {
  const auto domain = domain_of(thread);
  if (!domain || !plan_.pins) return {};
  return pin_thread(plan_.domains[*domain]);
}

}  // namespace kv_offload::bench
