#include "kv_offload/tiers/fs/record_saver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <new>
#include <unistd.h>

namespace kv_offload {

Duration RecordSaver::wait(MonotonicTime now) const {
  if (is_out_ || (image_ == nullptr && !is_changed_)) return Duration::max();
  return image_ != nullptr ? Duration::zero() : std::max(next_ - now, Duration::zero());
}

void RecordSaver::begin(FsNamespace& ns, const std::vector<std::string>& revisions) {
  is_changed_ = false;
  if (!piece_) piece_ = AlignedBuffer(kPieceBytes);
  ResidencyHeader header = ns.header();
  header.revisions = revisions;
  path_ = ns.record_path();
  temp_path_ = path_;
  temp_names_.append_to(temp_path_);
  offset_ = 0;
  fd_ = ::open(temp_path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd_ < 0) {
    error_ = errno;
    temp_path_.clear();
    return;
  }
  image_ = std::make_unique<ResidencyImage>(*ns.residency, header, ns.set_aside_entries());
}

bool RecordSaver::next_io(FsNamespace& ns, const std::vector<std::string>& revisions,
                          MonotonicTime now, OwnIo& io) {
  if (!is_due(now)) return false;
  if (image_ == nullptr) {
    next_ = now + kInterval;
    try {
      begin(ns, revisions);
    } catch (const std::bad_alloc&) {
      error_ = ENOMEM;
      abandon();
    }
    if (image_ == nullptr) return false;
  }
  piece_size_ = image_->next(piece_.span());
  if (piece_size_ == 0) {
    publish();
    next_ = std::max(next_, now + std::chrono::seconds(offset_ / kBytesPerSecond));
    return false;
  }
  io = {IoOp::write, fd_, offset_, piece_.data(), piece_size_, 0};
  is_out_ = true;
  return true;
}

void RecordSaver::io_over(int error) {
  is_out_ = false;
  offset_ += piece_size_;
  if (error == 0) return;
  error_ = error;
  abandon();
}

void RecordSaver::publish() {
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) error_ = errno;
  if (error_ == 0 && ::rename(temp_path_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) temp_path_.clear();
  abandon();
}

void RecordSaver::abandon() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temp_path_.empty()) ::unlink(temp_path_.c_str());
  temp_path_.clear();
  image_.reset();
}

}  // namespace kv_offload
