#pragma once

#include "kv_offload/bench/sim_device.hpp"
#include "kv_offload/bench/sim_engine.hpp"
#include "kv_offload/bench/sim_totals.hpp"
#include "kv_offload/bench/sim_workload.hpp"
#include "kv_offload/bench/sim_world.hpp"

#include <cstdint>
#include <deque>
#include <memory>

namespace kv_offload::bench {

/// What a request offers for storing.
enum class SimOffers : std::uint8_t {
  computed,   ///< what it computed, and what is on the device and was never offered
  unclaimed,  ///< every chunk of the prompt that no lookup reported, as if the save floor did not exist
};

struct SimServingOptions {
  std::uint64_t tokens_per_chunk = 0;
  std::uint64_t row_bytes = 0;
  bool hold = true;  ///< LookupOptions::hold
  std::uint64_t step_tokens =
      8192;  ///< prefill tokens per scheduler step: what one store call holds
  SimOffers offers = SimOffers::computed;
  /// Lookups begin when a request arrives, not when the device has room for it: loads from slow tiers are under
  /// way while it queues, and what landed has to stay until then.
  bool look_up_at_arrival = false;
  double from_s = 0, to_s = 0;  ///< the measured span; to_s 0: until the workload ends
};

/// A serving engine in virtual time. One request goes
///
///     arrival → queue, until the device has room → device match → new_request → lookup of the rest
///     (promotions landed) → allocated → prepare_load, PCIe, complete_load → prefill of what is missing →
///     first token; prepare_store of what was computed, PCIe, complete_store, beside decode → request_finished
///
/// Without an engine the same without its calls. One object per run, one thread.
class SimServing {
 public:
  /// `engine` null: offload off.
  SimServing(SimWorld& world, SimDevice& device, SimEngine* engine, SimWorkload& workload,
             const SimServingOptions& options);

  void start();
  [[nodiscard]] bool done() const { return open_ == 0 && exhausted_; }
  /// After the last request.
  [[nodiscard]] SimTotals take_totals();

 private:
  struct Live {
    SimRequest request;
    double arrival_s = 0;
    RequestHandle handle = kNoRequest;
    SimHbm::Lease lease;
    std::size_t prompt_chunks = 0;  ///< full chunks of the prompt
    std::size_t usable = 0;         ///< of these, before the last token, which is always computed
    std::size_t reach = 0;          ///< leading chunks that the lookup found, the device's included
    std::size_t hits = 0;           ///< of these, behind those on the device
    std::vector<std::uint32_t> tier_hits;
    std::size_t matched = 0;  ///< leading, on the device
    std::size_t loaded = 0;
    std::uint32_t stores_open = 0;
    bool ready = false;  ///< may start when the device has room
    bool decoded = false;
  };
  using Shared = std::shared_ptr<Live>;

  void arrive_next();
  void arrive(SimRequest request);
  void pump();
  void begin(const Shared& live);
  void looked_up(const Shared& live);
  void look_up(const Shared& live);
  void allocated(const Shared& live);
  void load(const Shared& live, std::size_t from, std::size_t chunks);
  void prefill(const Shared& live);
  void offer(const Shared& live);
  void store(const Shared& live, std::size_t from, std::size_t to);
  void decoded(const Shared& live);
  void end_if_over(const Shared& live);
  void count(const Live& live, double first_token_s);
  void failed(const char* call, const OffloadError& error);
  [[nodiscard]] bool measures(double now_s) const {
    return now_s >= options_.from_s && (options_.to_s == 0 || now_s <= options_.to_s);
  }

  SimWorld& world_;
  SimDevice& device_;
  SimEngine* engine_;
  SimWorkload& workload_;
  const SimServingOptions options_;
  std::deque<Shared> waiting_;
  std::uint64_t open_ = 0;    ///< arrived, not over
  std::uint32_t active_ = 0;  ///< begun, not decoded
  std::uint64_t number_ = 0;
  bool exhausted_ = false;
  double last_end_s_ = 0;
  SimTotals totals_;
};

}  // namespace kv_offload::bench
