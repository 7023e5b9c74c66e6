#include "kv_offload/tiers/device/host_crew.hpp"

#include "kv_offload/tiers/device/host_copy.hpp"
#include "kv_offload/tiers/io/io_thread.hpp"

#include <algorithm>

namespace kv_offload {
namespace {

/// What a thread takes at once: large beside the 1 to 2 us that a lock handed between cores costs,
/// small enough that all end together.
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

}  // namespace

HostCrew::HostCrew(std::uint32_t helpers, const std::string& label) {
  const SignalsBlocked blocked;
  try {
    for (std::uint32_t i = 0; i < helpers; ++i)
      helpers_.emplace_back([this, label] { help(label); });
  } catch (...) {
    end();
    throw;
  }
}

HostCrew::~HostCrew() { end(); }

void HostCrew::end() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  has_work_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

bool HostCrew::take_piece(std::vector<CopyFragment>& piece) {
  piece.clear();
  for (std::uint64_t taken = 0; next_ < batch_.size() && taken < kPieceBytes;) {
    CopyFragment f = batch_[next_];
    f.from += next_offset_;
    f.to += next_offset_;
    f.bytes -= next_offset_;
    const std::uint64_t bytes = std::min(f.bytes, kPieceBytes - taken);
    next_offset_ = bytes < f.bytes ? next_offset_ + bytes : 0;
    if (next_offset_ == 0) ++next_;
    f.bytes = bytes;
    taken += bytes;
    piece.push_back(f);
  }
  return !piece.empty();
}

void HostCrew::copy_pieces(std::unique_lock<std::mutex>& lock) {
  std::vector<CopyFragment> piece;
  while (take_piece(piece)) {
    ++copying_;
    lock.unlock();
    copy_fragments(piece);
    lock.lock();
    --copying_;
  }
  if (copying_ == 0) is_done_.notify_all();
}

void HostCrew::copy(std::span<const CopyFragment> fragments) {
  if (helpers_.empty()) return copy_fragments(fragments);
  std::unique_lock lock(mutex_);
  batch_ = fragments;
  next_ = 0;
  next_offset_ = 0;
  has_work_.notify_all();
  copy_pieces(lock);
  is_done_.wait(lock, [this] { return copying_ == 0; });
  batch_ = {};
}

void HostCrew::help(const std::string& label) {
  name_this_thread(label);
  std::unique_lock lock(mutex_);
  for (;;) {
    has_work_.wait(lock, [this] { return is_over_ || next_ < batch_.size(); });
    if (is_over_) return;
    copy_pieces(lock);
  }
}

}  // namespace kv_offload
