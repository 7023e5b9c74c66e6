#pragma once

#include "kv_offload/tiers/io/active_job.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"
#include "kv_offload/tiers/io/chunk_transfer.hpp"
#include "kv_offload/tiers/io/inflight_cap.hpp"
#include "kv_offload/tiers/io/io_backend.hpp"
#include "kv_offload/tiers/io/lane_faults.hpp"
#include "kv_offload/tiers/io/lane_inbox.hpp"
#include "kv_offload/tiers/io/lane_options.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"
#include "kv_offload/tiers/io/sink_gate.hpp"
#include "kv_offload/tiers/io/write_joiner.hpp"

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// What a lane's thread does. One turn: answer probes, start transfers as far as the caps allow, hand
/// them to the device, then do a bounded piece of the work that needs the CPU (digests, renames), then
/// reap. So the device is refilled before anything is computed, and probes never wait for a batch.
class LaneWorker {
 public:
  enum class End : std::uint8_t { stopped, killed, failed };

  LaneWorker(const LaneOptions& options, IoBackend& backend, LaneStorage& storage, LaneInbox& inbox,
             SinkGate& sink, LaneCounters& counters, const std::atomic<bool>& abandoned);
  ~LaneWorker();

  /// Works until the inbox is closed and nothing is left to do, or until the backend fails.
  End run();
  /// Why run() answered `failed`.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  /// One key of a job on its way. Its slot and buffers belong to it until its last completion.
  struct Transfer {
    ActiveJob* job = nullptr;
    std::size_t key_idx = 0;
    ChunkId chunk = kNoChunk;
    bool is_load = false;
    bool moves_row = false;  // the present step's I/O counts against the bytes in flight
    ChunkTransfer::Plan plan;
    bool owes_overlap = false;  // its overlap is in work_
    int injected_error = 0;
    ChunkTransfer io;
    MonotonicTime io_started;
    Duration io_time{};
    AlignedBuffer scratch;  // only when a fault corrupts the row
  };
  /// I/O of the storage itself.
  struct Own {
    bool is_out = false;
    std::uint64_t id = 0;
    ChunkTransfer io;
  };
  struct Work {
    TransferSlot slot = 0;
    bool is_overlap = false;
  };
  struct Held {
    TransferSlot slot = 0;
    MonotonicTime finished;
  };
  struct Direction {
    explicit Direction(const LaneOptions& options)
        : cap(options.primary.row_bytes, options.inflight_bytes_max) {}
    ActiveJob* current = nullptr;  // its keys are being started
    InflightCap cap;
    std::uint64_t bytes_in_flight = 0;
    std::uint32_t transfers = 0;
    std::deque<Work> work;  // at most two entries per slot
  };

  Direction& direction(bool is_load) { return directions_[is_load ? 1 : 0]; }
  [[nodiscard]] bool has_room(bool is_load) const;
  [[nodiscard]] bool is_alone(bool is_load) const;
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] std::uint64_t turn_budget_us() const;
  [[nodiscard]] bool is_waiting(bool is_load) const;
  [[nodiscard]] std::optional<bool> next_start(bool stores_may = true) const;
  [[nodiscard]] ChunkContext context(TransferSlot slot);

  End work_until_closed();
  bool answer_probes();
  bool start_transfers();
  bool start_next(bool is_load);
  void start_key(ActiveJob& job, std::size_t key_idx);
  void follow(TransferSlot slot, const StorageStep& step);
  void start_io(TransferSlot slot, const StorageStep& step);
  void corrupt_on_the_way(TransferSlot slot, ChunkTransfer::Plan& plan);
  void resume_waiting();
  void start_own_io();
  [[nodiscard]] ChunkTransfer& io_of(std::uint32_t tag);
  bool push_waiting();
  bool join_next();
  void completed(const IoCompletion& completion);
  void row_completed(TransferSlot slot, std::int32_t result);
  void join_completed(std::uint32_t write);
  void io_over(TransferSlot slot);
  [[nodiscard]] MonotonicTime due(const Held& held) const;
  void release_held(MonotonicTime now);
  void do_work(bool store_begun);
  std::uint64_t do_next_work(Direction& d);
  void key_ended(TransferSlot slot, const KeyEnd& end);
  void finish(ActiveJob& job);
  bool reap(Duration wait);
  [[nodiscard]] Duration time_to_wait();
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool is_done() const;
  void give_up_probes();
  void drain_silently();
  bool fail(const char* what, int error);

  const LaneOptions& options_;
  IoBackend& backend_;
  LaneStorage& storage_;
  LaneInbox& inbox_;
  SinkGate& sink_;
  LaneCounters& counters_;
  const std::atomic<bool>& abandoned_;
  LaneFaults faults_;

  std::vector<Transfer> transfers_;  // 2 * queue_depth, indexed by slot
  std::vector<TransferSlot> free_slots_;
  std::array<Direction, 2> directions_;                                 // stores, loads
  absl::flat_hash_map<ActiveJob*, std::unique_ptr<ActiveJob>> active_;  // at most jobs_max
  // Tags of requests: slots of transfers, then own I/O, then joined writes.
  std::uint32_t own_tag_ = 0;
  std::uint32_t join_tag_ = 0;
  std::vector<Own> own_;  // as many as the storage asked for
  std::size_t own_out_ = 0;
  WriteJoiner joiner_;
  std::vector<ChunkTransfer> joined_;      // of the joiner's writes, by their number
  std::deque<std::uint32_t> to_push_;      // at most one entry per tag
  std::vector<Held> held_;                 // at most one entry per slot
  std::vector<IoCompletion> completions_;  // scratch of reap()
  std::vector<LookupResult> verdicts_;
  StorageCosts costs_;
  std::uint32_t loads_since_store_ = 0;
  MonotonicTime loads_until_{};  // loads are taken to come until then
  bool loads_come_ = false;      // seen in this turn
  std::string failure_;
};

}  // namespace kv_offload
