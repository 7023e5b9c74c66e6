#pragma once

#include "kv_offload/bench/sim_device.hpp"
#include "kv_offload/bench/sim_engine.hpp"
#include "kv_offload/bench/sim_totals.hpp"
#include "kv_offload/bench/sim_world.hpp"
#include "kv_offload/bench/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace kv_offload::bench {

struct SimSequentialOptions {
  bool head_most_recent = true;  ///< as ReplayMode
  std::uint64_t tokens_per_chunk = 512;
  std::uint64_t row_bytes = 0;
  std::uint64_t window_chunks = 0;  ///< cascade_chunks_max; 0: no secondary tier
};

/// One caller in virtual time, call for call what `replay` does: look every chunk up, load the leading
/// hits, store the missing, touch every key; own cascades kept below the smallest pin share. The device
/// has no cache of its own. With equal settings hits, refusals and bytes are those of a replay.
class SimSequential {
 public:
  SimSequential(SimWorld& world, SimDevice& device, SimEngine& engine, const Trace& trace,
                std::size_t requests, const SimSequentialOptions& options);

  void start() { next(); }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] SimTotals take_totals();

 private:
  using Then = std::function<void()>;
  void next();
  void look_up();
  void load(std::size_t hits);
  void compute();
  void store(std::size_t from);
  void store_piece(std::size_t from, std::size_t to, bool again);
  void end();
  /// Runs `then` once no more than `chunks` of the own cascades are open.
  void when_open_at_most(std::uint64_t chunks, Then then);
  void cascades_ended(std::uint64_t chunks);
  [[nodiscard]] KeyList keys(std::size_t from, std::size_t to) const;
  void failed(const char* call, const OffloadError& error);

  SimWorld& world_;
  SimDevice& device_;
  SimEngine& engine_;
  const Trace& trace_;
  const std::size_t requests_;
  const SimSequentialOptions options_;
  std::size_t at_ = 0;
  const TraceRequest* request_ = nullptr;
  RequestHandle handle_{};
  double arrived_s_ = 0;
  std::size_t loaded_ = 0;
  std::uint64_t cascades_open_ = 0;
  std::uint64_t wait_limit_ = 0;
  Then waiting_;
  bool done_ = false;
  SimTotals totals_;
};

}  // namespace kv_offload::bench
