#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

// Copies by the engine's workers, all of them for each lease:
//
//   store_blocks ─order→ hub … WorkerReport(outcome) · WorkerReport(quiesced) → complete_store
//   load_blocks  ─order→ hub … WorkerReport(outcome) · WorkerReport(quiesced) → complete_load
//
// A failed outcome is told at once; the lease keeps its rows until no worker can touch them any more.
namespace kv_offload {
namespace {

/// Orders that the engine numbers have this bit, those that callers number have not.
constexpr std::uint64_t kNumberedHere = 1ULL << 63;

/// What is wrong with a list for so many chunks, whatever the devices are; empty if nothing.
std::string wrong_blocks(const BlockList& blocks, std::size_t chunks, std::uint64_t blocks_per_chunk) {
  const auto refuse = [](const char* field, std::size_t got, const std::string& expected) {
    return "blocks." + std::string(field) + ": " + std::to_string(got) + " are not allowed; expected " + expected;
  };
  if (blocks.first_blocks.size() != blocks.group_sizes.size())
    return refuse("first_blocks", blocks.first_blocks.size(),
                  std::to_string(blocks.group_sizes.size()) + ", one per cache group");
  std::uint64_t named = 0, rows = 0;
  for (std::size_t g = 0; g < blocks.group_sizes.size(); ++g) {
    const std::uint64_t size = blocks.group_sizes[g];
    named += size;
    if (size > 0) rows += (blocks.first_blocks[g] % blocks_per_chunk + size + blocks_per_chunk - 1) / blocks_per_chunk;
  }
  if (named != blocks.block_ids.size())
    return refuse("block_ids", blocks.block_ids.size(), std::to_string(named) + ", the sum of group_sizes");
  if (rows != chunks)
    return refuse("block_ids", blocks.block_ids.size(),
                  "what fills the lease's " + std::to_string(chunks) + " chunks of " + std::to_string(blocks_per_chunk) +
                      " blocks, group by group; these fill " + std::to_string(rows));
  return {};
}

}  // namespace

void SchedulerStepState::store_blocks(const StoreBlocksCall& m) {
  start_copy({m.lease, true, false, m.options, m.reply, {}}, m.blocks);
}
void SchedulerStepState::load_blocks(const LoadBlocksCall& m) {
  start_copy({m.lease, false, false, m.options, {}, m.reply}, m.blocks);
}

/// On an error nothing began and the lease is open as before.
void SchedulerStepState::start_copy(CopyOp op, const BlockList& blocks) {
  const auto it = leases_.find(op.lease);
  if (it == leases_.end() || it->second.is_store != op.is_store)
    return op.fail(OffloadErrc::unknown_lease,
                   "lease " + to_string(op.lease) + " is no open " + (op.is_store ? "store" : "load"));
  Lease& lease = it->second;
  if (lease.copying)
    return op.fail(OffloadErrc::invalid_argument, "lease " + to_string(op.lease) + " is being copied already");
  if (!deps_.order_workers)
    return op.fail(OffloadErrc::unsupported,
                   "workers: none are configured with a socket; copy yourself and complete the lease");
  if (op.options.told_job && (*op.options.told_job >= kNumberedHere || copies_.contains(*op.options.told_job)))
    return op.fail(OffloadErrc::invalid_argument, "told_job: " + std::to_string(*op.options.told_job) +
                                                      " is not allowed; expected a number below 2^63 that is not in use");
  if (const auto wrong = wrong_blocks(blocks, lease.chunk_ids.size(), deps_.blocks_per_chunk); !wrong.empty())
    return op.fail(OffloadErrc::invalid_argument, wrong);
  if (lease.chunk_ids.empty()) {  // all of it was there already
    op.success = true;
    ++copy_totals(op).started;
    return end_copy(std::move(op));
  }
  const std::uint64_t id = op.options.told_job.value_or(kNumberedHere | next_order_++);
  WorkerOrder order;
  order.id = id;
  order.is_load = !op.is_store;
  order.blocks = blocks;
  order.chunk_ids = lease.chunk_ids;
  order.deadline = self_->clock().now() + deps_.deadlines.copy;
  order.told_by_embedder = op.options.told_job.has_value();
  if (const auto ordered = deps_.order_workers(std::move(order)); !ordered)
    // io_error would say that a copy failed and its lease ends by itself; a missing worker may come back.
    return op.fail(ordered.error().code == OffloadErrc::io_error ? OffloadErrc::busy : ordered.error().code,
                   ordered.error().detail);
  lease.copying = true;
  auto& totals = copy_totals(op);
  ++totals.started;
  ++totals.open;
  copies_.emplace(id, std::move(op));
}

void SchedulerStepState::worker_report(const WorkerReport& m) {
  const auto it = copies_.find(m.order);
  if (it == copies_.end()) return;
  auto& op = it->second;
  if (m.outcome) {
    op.success = m.outcome->success;
    if (op.success) {
      auto& totals = copy_totals(op);
      totals.bytes += m.outcome->bytes;
      totals.time_s += to_seconds(m.outcome->time);
      totals.size.observe(static_cast<double>(m.outcome->bytes));
    } else {
      op.fail(m.outcome->errc, m.outcome->error);
    }
  }
  if (!m.quiesced) return;
  auto ended = std::move(op);
  copies_.erase(it);
  --copy_totals(ended).open;
  end_copy(std::move(ended));
}

void SchedulerStepState::end_copy(CopyOp op) {
  auto& totals = copy_totals(op);
  ++(op.success ? totals.succeeded : totals.failed);
  if (const auto it = leases_.find(op.lease); it != leases_.end()) {
    it->second.copying = false;
    it->second.copy_failed = !op.success;
  }
  // Who was told of a failure is told no more.
  if (op.is_store)
    complete_store({op.lease, {op.success, op.options.wait_cascades}, op.success ? op.store_reply : Reply<StoreOutcome>()});
  else
    complete_load({op.lease, op.success ? op.load_reply : Reply<Ok>()});
}

}  // namespace kv_offload
