#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/sim_tier.hpp"
#include "kv_offload/bench/sim_world.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/request.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kv_offload::bench {

/// The real actors and policies of one engine in virtual time, in one thread, with simulated tiers and no
/// memory behind its slots. Every answer comes by callback, during SimWorld::run.
class SimEngine final : public SimInhabitant {
 public:
  template <class T>
  using Then = std::function<void(Expected<T>)>;

  /// `config.secondary_tiers` is co-indexed with `tiers`. `stall`: what tiers cost the device.
  static Expected<std::unique_ptr<SimEngine>> start(SimWorld& world, const EngineConfig& config,
                                                    const std::vector<SimTierModel>& tiers,
                                                    std::uint64_t seed,
                                                    std::function<void(Duration)> stall);
  ~SimEngine() override;
  SimEngine(const SimEngine&) = delete;
  SimEngine& operator=(const SimEngine&) = delete;

  void new_request(NewRequest request, Then<OpenedRequest> then);
  void lookup(RequestHandle request, KeyList keys, LookupOptions options, Then<LookupAnswer> then);
  void allocated(RequestHandle request, std::uint64_t device_tokens);
  void prepare_load(RequestHandle request, KeyList keys, Then<LoadPlan> then);
  void complete_load(LeaseId lease);
  void prepare_store(RequestHandle request, KeyList keys, StoreOptions options,
                     Then<StorePlan> then);
  void complete_store(LeaseId lease, CompleteStoreOptions options, Then<StoreOutcome> then);
  void touch(RequestHandle request, KeyList keys);
  void finish(RequestHandle request);
  void drain(Then<Ok> then);
  void stats(Then<EngineStats> then);

  [[nodiscard]] SimTier& tier(std::size_t t);
  void settle() override;
  void advance(Duration step) override;
  [[nodiscard]] MonotonicTime next_due() const override;

 private:
  struct Impl;
  explicit SimEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Makes "sim" a tier type that configurations may name. Called by start(); any number of times.
void register_sim_tier_type();

}  // namespace kv_offload::bench
