#include "kv_offload/bench/io_floor_program.hpp"

#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/io_tier_harness.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

namespace kv_offload::bench {

OffloadError FloorProgram::failed(const std::string& what, int error) {
  return {OffloadErrc::io_error, "floor: " + what + ": " + std::strerror(error)};
}

FloorProgram::FloorProgram(const IoShape& shape, const WorkDir& dir)
    : shape_(shape), dir_(dir), slots_(shape.depth) {}

FloorProgram::~FloorProgram() {
  if (has_ring_) io_uring_queue_exit(&ring_);
}

Expected<IoFigure> FloorProgram::store() {
  if (auto ready = set_up(); !ready) return ready.error();
  auto files = io_directory(dir_, "floor-" + shape_.tier);
  if (!files) return files.error();
  root_ = files->string();
  if (auto ready = begin_set(); !ready) return ready.error();
  std::vector<std::uint32_t> order(shape_.chunks());
  std::iota(order.begin(), order.end(), 0U);
  return run(order, false);
}

Expected<IoFigure> FloorProgram::load() { return run(io_order(shape_.chunks()), true); }

Expected<Ok> FloorProgram::set_up() {
  if (has_ring_) return Ok{};
  RegionOptions options;
  // As much memory as the tier's measurement moves: a few rows would stay in the caches.
  options.num_chunks = std::max(io_window_chunks(shape_), shape_.depth);
  options.chunk_bytes = shape_.chunk_bytes;
  auto made = Region::create(options);
  if (!made) return made.error();
  region_ = std::move(*made);
  std::memset(region_->view().base, 0x5a, region_->bytes());
  int error = -io_uring_queue_init(shape_.depth, &ring_,
                                   IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
  if (error == EINVAL) error = -io_uring_queue_init(shape_.depth, &ring_, 0);
  if (error != 0) return failed("io_uring_setup", error);
  has_ring_ = true;
  const auto plan = region_->registration();
  error = -io_uring_register_buffers(&ring_, plan.buffers.data(),
                                     static_cast<unsigned>(plan.buffers.size()));
  if (error != 0) return failed("registering buffers", error);
  chunks_per_buffer_ = plan.chunks_per_buffer;
  for (ChunkId row = 0; row < region_->view().num_chunks; ++row) free_rows_.push_back(row);
  return Ok{};
}

int FloorProgram::start(std::size_t slot_idx, std::uint32_t number, bool is_load) {
  std::uint64_t offset = 0;
  if (const int error = open_chunk(slots_[slot_idx], number, is_load, offset); error != 0)
    return error;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  slots_[slot_idx].row = free_rows_.front();
  free_rows_.pop_front();
  const auto row = region_->view().row(slots_[slot_idx].row);
  const int buffer = static_cast<int>(slots_[slot_idx].row / chunks_per_buffer_);
  const auto length = static_cast<unsigned>(shape_.chunk_bytes);
  if (is_load)
    io_uring_prep_read_fixed(sqe, slots_[slot_idx].fd, row.data(), length, offset, buffer);
  else
    io_uring_prep_write_fixed(sqe, slots_[slot_idx].fd, row.data(), length, offset, buffer);
  sqe->user_data = slot_idx;
  return 0;
}

Expected<bool> FloorProgram::take_completion(std::size_t& slot_idx, std::size_t first_load_slot) {
  io_uring_cqe* cqe = nullptr;
  if (io_uring_peek_cqe(&ring_, &cqe) != 0) return false;
  slot_idx = static_cast<std::size_t>(cqe->user_data);
  const int moved = cqe->res;
  io_uring_cqe_seen(&ring_, cqe);
  free_rows_.push_back(slots_[slot_idx].row);
  if (moved != static_cast<int>(shape_.chunk_bytes))
    return failed("moving a chunk", moved < 0 ? -moved : EIO);
  if (const int error = close_chunk(slots_[slot_idx], slot_idx >= first_load_slot); error != 0)
    return failed("closing a chunk", error);
  return true;
}

Expected<IoFigure> FloorProgram::run(const std::vector<std::uint32_t>& order, bool is_load) {
  const IoStopwatch watch;
  const std::size_t first_load_slot = is_load ? 0 : slots_.size();
  std::size_t next = 0, in_flight = 0;
  for (; in_flight < slots_.size() && next < order.size(); ++in_flight)
    if (const int error = start(in_flight, order[next++], is_load); error != 0)
      return failed("opening a chunk", error);
  while (in_flight > 0) {
    const int entered = io_uring_submit_and_wait(&ring_, 1);
    if (entered < 0 && entered != -EINTR) return failed("io_uring_enter", -entered);
    std::size_t slot_idx = 0;
    while (true) {
      auto taken = take_completion(slot_idx, first_load_slot);
      if (!taken) return taken.error();
      if (!*taken) break;
      if (next == order.size()) {
        --in_flight;
      } else if (const int error = start(slot_idx, order[next++], is_load); error != 0) {
        return failed("opening a chunk", error);
      }
    }
  }
  return watch.stop(shape_);
}

}  // namespace kv_offload::bench
