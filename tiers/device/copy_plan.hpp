#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/kv_layout.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"
#include "kv_offload/tiers/device/page_runs.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <cstdint>
#include <vector>

namespace kv_offload {

/// What one job copies, in order. Nothing of it overlaps but what the job itself names twice.
struct CopyPlan {
  std::vector<CopyFragment> fragments;
  std::uint64_t bytes = 0;
};

/// Turns jobs into copies. Everything that does not depend on the job is worked out once: a block
/// costs an addition per fragment. Immutable; any thread.
class CopyPlanner {
 public:
  /// Of one job: beyond it the caller splits. 400 MB of fragments; 8192 blocks of 64 layers in 32
  /// fragments each.
  static constexpr std::uint64_t kFragmentsMax = std::uint64_t{1} << 24;

  CopyPlanner() = default;
  /// `layout` was made of `caches`.
  CopyPlanner(const KvCaches& caches, const WorkerLayout& layout, const PrimaryView& rows);

  /// Checks all of the job before the first fragment is made: groups, sums, blocks, rows. The error
  /// names what is wrong, its value and what is allowed.
  [[nodiscard]] Expected<Ok> check(const CopyJob& job) const;
  /// The copies of a job, checked. A store leaves out what other ranks write: everything, if rows
  /// are replicated and this is not rank 0; and pages whose turn is another's. Copies that touch on
  /// both sides are one.
  [[nodiscard]] Expected<CopyPlan> plan(const CopyJob& job) const;
  /// Tensors whose pages `job` touches, each once, ascending. Of a checked job.
  [[nodiscard]] std::vector<std::uint32_t> tensors_of(const CopyJob& job) const;

 private:
  /// One layer of a group.
  struct Share {
    std::uint32_t tensor = 0;
    std::byte* device = nullptr;
    std::uint64_t device_page_bytes = 0;  ///< from one block to the next
    std::uint64_t num_blocks = 0;
    std::uint64_t row_offset = 0;  ///< of the first block of a chunk
    std::uint64_t row_page_bytes = 0;
    std::vector<PageFragment> fragments = {};
    std::uint32_t num_writers = 1, writer = 0;
  };
  void add_group(const CopyJob& job, std::size_t group, std::size_t first_block,
                 std::size_t first_chunk, CopyPlan& plan) const;
  /// Rows that a group of the job takes.
  [[nodiscard]] std::uint64_t rows_of(const BlockList& blocks, std::size_t group) const;

  std::vector<std::vector<Share>> groups_;
  std::vector<std::string> tensor_names_;
  PrimaryView rows_;
  std::uint32_t blocks_per_chunk_ = 1;
  bool stores_nothing_ = false;
};

}  // namespace kv_offload
