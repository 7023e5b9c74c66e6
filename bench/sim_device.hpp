#pragma once

#include "kv_offload/bench/sim_hbm.hpp"
#include "kv_offload/bench/sim_world.hpp"
#include "kv_offload/messages/config_node.hpp"

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace kv_offload::bench {

/// What the serving device is made of. Every number comes from the scenario file, with its origin.
struct SimDeviceModel {
  std::uint64_t hbm_chunks = 0;      ///< KV pool; 0: no cache of its own and no bound
  double prefill_tokens_s = 10'000;  ///< of the device; one prompt at a time, in order of admission
  double decode_tokens_s = 50;       ///< of each request, beside the others
  std::uint32_t max_requests = 64;   ///< looked up, prefilling or decoding
  double to_host_bytes_s = 25e9;     ///< PCIe, one transfer at a time each way
  double to_device_bytes_s = 25e9;
  std::uint64_t min_load_tokens = 0;  ///< less than this is computed, not loaded
};
SimDeviceModel read_device_model(ConfigReader& reader);

/// The serving device in virtual time. Prefill is one server, decoding is one rate per request, and each
/// PCIe direction is one server. `stall` takes time from prefill and decode alike: nothing of either
/// moves on meanwhile. One thread.
class SimDevice {
 public:
  using Then = std::function<void()>;

  SimDevice(SimWorld& world, const SimDeviceModel& model)
      : world_(world), model_(model), hbm_(model.hbm_chunks) {}

  [[nodiscard]] const SimDeviceModel& model() const { return model_; }
  [[nodiscard]] SimHbm& hbm() { return hbm_; }
  void prefill(std::uint64_t tokens, Then then);
  void decode(std::uint64_t tokens, Then then);
  void to_host(std::uint64_t bytes, Then then);
  void to_device(std::uint64_t bytes, Then then);
  void stall(Duration duration);
  [[nodiscard]] Duration stalled() const { return stalled_; }
  [[nodiscard]] Duration prefill_busy() const { return prefill_busy_; }

 private:
  /// Something of the device's own time, which stands still during a stall.
  struct Due {
    Duration when;
    std::uint64_t sequence;
    Then then;
    friend bool operator<(const Due& a, const Due& b) {
      return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
    }
  };
  [[nodiscard]] Duration device_now() const;
  void after_device_time(Duration when, Then then);
  void arm();
  void fire();

  SimWorld& world_;
  const SimDeviceModel model_;
  SimHbm hbm_;
  std::priority_queue<Due> due_;
  std::uint64_t sequence_ = 0;
  Duration prefill_free_{};
  Duration prefill_busy_{};
  MonotonicTime to_host_free_{}, to_device_free_{};
  MonotonicTime stall_until_{};
  Duration stalled_{};
};

}  // namespace kv_offload::bench
