#pragma once

#include "kv_offload/tiers/io/active_job.hpp"
#include "kv_offload/tiers/obj/obj_core.hpp"
#include "kv_offload/tiers/obj/obj_keeper.hpp"
#include "kv_offload/tiers/obj/row_sink.hpp"

#include <absl/container/flat_hash_map.h>
#include <asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kv_offload {

/// Moves the chunks of jobs: one PUT or GET per key, many at once, loads before stores. A slot is touched from the
/// start of its request until its end and never after it, whatever becomes of the connection. Lane thread.
class ObjTransfers {
 public:
  ObjTransfers(ObjCore& core, ObjKeeper& keeper);

  /// Begins what may begin.
  void pump();
  /// Whether a job of that direction could begin, were there one.
  [[nodiscard]] bool has_room(bool is_load) const;
  [[nodiscard]] bool is_idle() const { return active_.empty(); }
  /// Ends every transfer at once: their keys have failed, as cancelled.
  void cut();

 private:
  using Slot = std::uint32_t;
  struct Transfer {
    ActiveJob* job = nullptr;
    std::size_t key_idx = 0;
    ChunkId chunk = kNoChunk;
    bool is_load = false;
    bool has_room = false;  // of a capacity
    S3Client::CallId call = 0;
    MonotonicTime started;
    RowSink sink;
    std::vector<std::byte> scratch;  // only when a fault corrupts the row
  };
  /// Over, and not told yet, because a fault says so.
  struct Held {
    Slot slot = 0;
    KeyEnd end;
    MonotonicTime finished;
  };

  [[nodiscard]] std::uint32_t limit(bool is_load) const;
  bool next_job(bool is_load);
  bool start_next(bool is_load);
  [[nodiscard]] bool is_known_stored(const OffloadKey& key) const;
  void wait_for_room();
  void start_key(ActiveJob& job, std::size_t key_idx, bool has_room);
  void start_load(Slot slot);
  void start_store(Slot slot);
  [[nodiscard]] S3Call call_of(const Transfer& t, S3Op op) const;
  [[nodiscard]] KeyEnd end_of_load(Transfer& t, const S3Reply& reply);
  [[nodiscard]] KeyEnd end_of_store(Transfer& t, const S3Reply& reply);
  [[nodiscard]] KeyEnd failed(const Transfer& t, const S3Reply& reply) const;
  KeyEnd corrupt(const OffloadKey& key);
  [[nodiscard]] const OffloadKey& key_of(const Transfer& t) const { return t.job->job().keys[t.key_idx]; }
  void over(Slot slot, const KeyEnd& end);
  void tell(Slot slot, const KeyEnd& end, MonotonicTime finished);
  void key_ended(ActiveJob& job, std::size_t key_idx, const KeyEnd& end, Duration io_time);
  void finish(ActiveJob& job);
  void release_held();

  ObjCore& core_;
  ObjKeeper& keeper_;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // 2 * max_inflight
  std::vector<Slot> free_;
  std::array<ActiveJob*, 2> current_{};               // stores, loads: its keys are being started
  std::array<std::uint32_t, 2> in_flight_{};
  absl::flat_hash_map<ActiveJob*, std::unique_ptr<ActiveJob>> active_;  // bounded by jobs_max
  std::vector<Held> held_;
  asio::steady_timer held_timer_;
  asio::steady_timer room_timer_;
  bool waits_for_room_ = false;  // the present store's next key; looked at again by every pump
  bool wait_counted_ = false;
};

}  // namespace kv_offload
