// A lane's requests on their way to the device and back: what is handed over, joined, completed, and held by a fault.
#include "kv_offload/tiers/io/lane_worker.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace kv_offload {

// --- to the device --------------------------------------------------------------------------------

void LaneWorker::start_own_io() {
  if (own_.empty() || is_over()) return;
  for (std::size_t i = 0; i < own_.size() && own_out_ < own_.size(); ++i) {
    Own& own = own_[i];
    if (own.is_out) continue;
    OwnIo io;
    if (!storage_.next_own_io(io)) return;
    ChunkTransfer::Plan plan;
    plan.op = io.op;
    plan.fd = io.fd;
    plan.offset = io.offset;
    plan.buffer = io.buffer;
    plan.length = io.length;
    plan.path = io.path;
    const auto tag = own_tag_ + static_cast<std::uint32_t>(i);
    own = {true, io.id, ChunkTransfer(plan, tag)};
    ++own_out_;
    to_push_.push_back(tag);
  }
}

void LaneWorker::start_io(TransferSlot slot, const StorageStep& step) {
  Transfer& t = transfers_[slot];
  ChunkTransfer::Plan& plan = t.plan;
  plan = {};
  plan.op = step.op;
  plan.fd = step.fd;
  t.moves_row = step.op == IoOp::read || step.op == IoOp::write;
  if (t.moves_row) {
    const auto row = options_.primary.row(t.chunk);
    plan.offset = step.offset;
    plan.buffer = row.data();
    plan.length = row.size();
    plan.buffer_index = backend_.buffer_index(plan.buffer, plan.length);
    direction(t.is_load).bytes_in_flight += row.size();
    if (step.op == IoOp::write && faults_.corrupts_next_store()) corrupt_on_the_way(slot, plan);
  }
  t.io = ChunkTransfer(plan, slot);
  t.io_started = options_.now();
  if (step.may_join && joiner_.takes(plan.length))
    joiner_.add(slot, plan);
  else
    to_push_.push_back(slot);
}

/// Fault: the device gets a copy of the row with one byte flipped, its digest does not.
void LaneWorker::corrupt_on_the_way(TransferSlot slot, ChunkTransfer::Plan& plan) {
  Transfer& t = transfers_[slot];
  t.scratch = AlignedBuffer::try_make(plan.length);
  if (!t.scratch) return;
  std::memcpy(t.scratch.data(), plan.buffer, plan.length);
  t.scratch.data()[plan.length / 2] ^= std::byte{0x01};
  plan.buffer = t.scratch.data();
  plan.buffer_index = -1;
}

ChunkTransfer& LaneWorker::io_of(std::uint32_t tag) {
  if (tag < own_tag_) return transfers_[tag].io;
  if (tag < join_tag_) return own_[tag - own_tag_].io;
  return joined_[tag - join_tag_];
}

/// Hands requests to the backend while it has room. True: it took some.
bool LaneWorker::push_waiting() {
  bool pushed = false;
  while (true) {
    while (!to_push_.empty() && backend_.push(io_of(to_push_.front()).next())) {
      to_push_.pop_front();
      pushed = true;
    }
    if (!to_push_.empty() || !join_next()) return pushed;
  }
}

/// False: no rows wait to be joined, or enough such writes are out.
bool LaneWorker::join_next() {
  const auto write = joiner_.begin_next();
  if (!write) return false;
  const MonotonicTime now = options_.now();
  for (const TransferSlot slot : joiner_.members(*write)) transfers_[slot].io_started = now;
  const std::uint32_t tag = join_tag_ + *write;
  joined_[*write] = ChunkTransfer(joiner_.plan(*write), tag);
  to_push_.push_back(tag);
  return true;
}

// --- and back -------------------------------------------------------------------------------------

bool LaneWorker::reap(Duration wait) {
  completions_.clear();
  const int error = backend_.reap(completions_, wait);
  if (wait > Duration::zero()) inbox_.woke_up();
  for (const IoCompletion& completion : completions_) completed(completion);
  if (error != 0) return fail("wait", error);
  if (!held_.empty()) release_held(options_.now());
  return true;
}

void LaneWorker::completed(const IoCompletion& completion) {
  const auto tag = static_cast<std::uint32_t>(completion.tag);
  if (tag < own_tag_) return row_completed(tag, completion.result);
  if (!io_of(tag).complete(completion.result)) return to_push_.push_back(tag);
  if (tag >= join_tag_) return join_completed(tag - join_tag_);
  Own& own = own_[tag - own_tag_];
  own.is_out = false;
  --own_out_;
  storage_.own_io_over(own.id, {own.io.error(), own.io.is_short()});
}

/// Each row of a joined write ends as the whole did.
void LaneWorker::join_completed(std::uint32_t write) {
  const int error = joined_[write].error();
  for (const TransferSlot slot : joiner_.members(write))
    row_completed(slot,
                  error != 0 ? -error : static_cast<std::int32_t>(transfers_[slot].plan.length));
  joiner_.end(write);
}

void LaneWorker::row_completed(TransferSlot slot, std::int32_t result) {
  Transfer& t = transfers_[slot];
  assert(t.job != nullptr);
  if (!t.io.complete(result)) return to_push_.push_back(slot);
  if (!t.moves_row || !options_.faults) return io_over(slot);

  const Held held{slot, options_.now()};
  if (faults_.hangs() || due(held) > held.finished)
    held_.push_back(held);
  else
    io_over(slot);
}

MonotonicTime LaneWorker::due(const Held& held) const {
  return faults_.due(transfers_[held.slot].io_started, held.finished);
}

void LaneWorker::release_held(MonotonicTime now) {
  if (faults_.hangs()) return;
  const auto still_held =
      std::partition(held_.begin(), held_.end(), [&](const Held& held) { return due(held) > now; });
  for (auto it = still_held; it != held_.end(); ++it) io_over(it->slot);
  held_.erase(still_held, held_.end());
}

/// The device is done with the transfer's buffer; the rest is the CPU's.
void LaneWorker::io_over(TransferSlot slot) {
  Transfer& t = transfers_[slot];
  const MonotonicTime now = options_.now();
  const Duration took = now - t.io_started;
  t.io_time += took;
  if (t.moves_row) {
    Direction& d = direction(t.is_load);
    // An error comes at once, or after a timeout: it says nothing of the queue.
    if (t.io.error() == 0 && is_alone(t.is_load))
      d.cap.completed(options_.primary.row_bytes, d.bytes_in_flight, took, now);
    d.bytes_in_flight -= options_.primary.row_bytes;
  }
  t.scratch = {};
  direction(t.is_load).work.push_back({slot, false});
}

}  // namespace kv_offload
