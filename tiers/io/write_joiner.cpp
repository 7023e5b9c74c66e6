#include "kv_offload/tiers/io/write_joiner.hpp"

#include <algorithm>
#include <cstring>

namespace kv_offload {

WriteJoiner::WriteJoiner(std::uint32_t writes_max, std::uint64_t bytes_max)
    : bytes_max_(bytes_max) {
  writes_.resize(std::max(writes_max, 1U));
  for (auto write = static_cast<std::uint32_t>(writes_.size()); write > 0; --write)
    free_.push_back(write - 1);
}

std::size_t WriteJoiner::count_neighbours() const {
  const ChunkTransfer::Plan& first = waiting_.front().plan;
  std::uint64_t length = 0;
  std::size_t count = 0;
  for (const Row& row : waiting_) {
    const bool fits = row.plan.fd == first.fd && row.plan.offset == first.offset + length &&
                      length + row.plan.length <= bytes_max_;
    if (!fits) break;
    length += row.plan.length;
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

bool WriteJoiner::has_memory(Write& write) const {
  if (!write.copy) write.copy = AlignedBuffer::try_make(bytes_max_);
  return static_cast<bool>(write.copy);
}

std::optional<std::uint32_t> WriteJoiner::begin_next() {
  if (waiting_.empty() || free_.empty()) return std::nullopt;
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Write& write = writes_[number];
  std::size_t count = count_neighbours();
  if (count > 1 && !has_memory(write)) count = 1;
  write.plan = waiting_.front().plan;
  write.members.clear();
  if (count > 1) {
    write.plan.buffer = write.copy.data();
    write.plan.buffer_index = -1;
    write.plan.length = 0;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = waiting_.front();
    if (count > 1) {
      std::memcpy(write.copy.data() + write.plan.length, row.plan.buffer, row.plan.length);
      write.plan.length += row.plan.length;
    }
    write.members.push_back(row.slot);
    waiting_.pop_front();
  }
  return number;
}

void WriteJoiner::leak() {
  for (Write& write : writes_) write.copy.leak();
}

}  // namespace kv_offload
