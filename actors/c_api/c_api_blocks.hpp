#pragma once

// Lists of device blocks from the caller's arrays.
#include "kv_offload/actors/c_api/c_api_structs.hpp"
#include "kv_offload/messages/copy_job.hpp"

namespace kv_offload::c_api {

/// More than any transfer has: beyond it a number was never set.
inline constexpr std::size_t kBlocksMax = std::size_t{1} << 24;

template <class T>
int read_numbers(const char* name, const T* given, std::size_t n, std::vector<T>& list) {
  if (n > kBlocksMax) return not_allowed(name, std::to_string(n) + " numbers", "at most " + std::to_string(kBlocksMax));
  if (n > 0 && given == nullptr) return not_allowed(name, "NULL", std::to_string(n) + " numbers");
  list.assign(given, given + n);
  return KVO_OK;
}

inline int read_blocks(const kvo_blocks* given, BlockList& blocks) {
  if (given == nullptr) return not_allowed("blocks", "NULL", "a kvo_blocks");
  kvo_blocks known;
  if (const int wrong = read_struct(given, "blocks", known)) return wrong;
  if (const int wrong = read_numbers("blocks.block_ids", known.block_ids, known.num_blocks, blocks.block_ids)) return wrong;
  if (const int wrong = read_numbers("blocks.group_sizes", known.group_sizes, known.num_groups, blocks.group_sizes)) return wrong;
  return read_numbers("blocks.first_blocks", known.first_blocks, known.num_groups, blocks.first_blocks);
}

}  // namespace kv_offload::c_api
