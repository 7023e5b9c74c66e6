#pragma once

#include "kv_offload/bench/io_latency.hpp"
#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/work_dir.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// The straight program that a tier is measured against: one thread, one ring, registered buffers on huge
/// pages, as much memory as the tier moves. Where the bytes of a chunk lie is its subclass's.
class FloorProgram : public IoContestant {
 public:
  FloorProgram(const IoShape& shape, const WorkDir& dir);
  ~FloorProgram() override;
  [[nodiscard]] std::string name() const override { return "floor"; }

  Expected<IoFigure> store() override;
  Expected<IoFigure> load() override;
  /// The latencies of measure_io_latency(), with `stores_in_flight` chunks kept at the device.
  Expected<IoLatencyPair> latency(double loads_per_s, double seconds,
                                  std::uint32_t stores_in_flight);

 protected:
  /// One chunk on its way: its descriptor, where its file stands and what it will be called.
  struct Slot {
    int fd = -1;
    ChunkId row = 0;
    std::string temp, path;
  };

  static OffloadError failed(const std::string& what, int error);
  virtual Expected<Ok> begin_set() = 0;
  /// 0 or errno.
  virtual int open_chunk(Slot& slot, std::uint32_t number, bool is_load, std::uint64_t& offset) = 0;
  virtual int close_chunk(Slot& slot, bool is_load) = 0;

  const IoShape shape_;
  std::string root_;

 private:
  Expected<Ok> set_up();
  int start(std::size_t slot_idx, std::uint32_t number, bool is_load);
  /// Takes one completion off the ring, if there is any, and ends its chunk.
  Expected<bool> take_completion(std::size_t& slot_idx, std::size_t first_load_slot);
  Expected<IoFigure> run(const std::vector<std::uint32_t>& order, bool is_load);
  Expected<LatencyRecorder> paced(double loads_per_s, double seconds,
                                  std::uint32_t stores_in_flight, std::uint64_t& stored);

  const WorkDir& dir_;
  std::unique_ptr<Region> region_;
  std::uint32_t chunks_per_buffer_ = 1;
  std::deque<ChunkId> free_rows_;  // used in turn
  io_uring ring_{};
  bool has_ring_ = false;
  std::vector<Slot> slots_;
  std::uint32_t next_store_ = 0;  // numbers of chunks that no load asks for
};

}  // namespace kv_offload::bench
