#include "kv_offload/tiers/io/chunk_transfer.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace kv_offload {

IoRequest ChunkTransfer::next() const {
  assert(!over_);
  IoRequest request;
  request.op = plan_.op;
  request.fd = plan_.fd;
  request.tag = tag_;
  request.path = plan_.path;
  if (!moves_bytes()) return request;
  request.offset = plan_.offset + cursor_;
  request.buffer = plan_.buffer + cursor_;
  request.length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(plan_.length - cursor_, plan_.request_bytes_max));
  request.buffer_index = plan_.buffer_index;
  return request;
}

bool ChunkTransfer::complete(std::int32_t result) {
  assert(!over_);
  if (result == -EAGAIN || result == -EINTR) {
    if (++retries_ > kRetriesMax) return end(-result);
    return false;
  }
  if (result < 0) return end(-result);
  if (!moves_bytes()) return end(0);

  const auto moved = static_cast<std::uint64_t>(result);
  const std::uint64_t asked = next().length;
  if (moved > asked) return end(EIO);
  const std::uint64_t reached = cursor_ + moved;
  if (reached <= bytes_done_) {
    // Meeting the same end again is the end of the file. Less than before is only slow.
    if (moved == 0 || (plan_.op == IoOp::read && reached == bytes_done_))
      return end(plan_.op == IoOp::write ? EIO : 0);
    return ++retries_ > kRetriesMax ? end(EIO) : false;
  }

  bytes_done_ = reached;
  retries_ = 0;
  if (bytes_done_ == plan_.length) return end(0);
  cursor_ = bytes_done_ - bytes_done_ % kAlignment;
  return false;
}

bool ChunkTransfer::end(int error) {
  error_ = error;
  over_ = true;
  return true;
}

}  // namespace kv_offload
