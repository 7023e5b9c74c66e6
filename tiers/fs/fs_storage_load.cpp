// How a chunk leaves its file: opened, read, compared, and what becomes of a file that is wrong.
#include "kv_offload/messages/broken_promise.hpp"
#include "kv_offload/tiers/fs/digest_attribute.hpp"
#include "kv_offload/tiers/fs/fs_errors.hpp"
#include "kv_offload/tiers/fs/fs_storage.hpp"
#include "kv_offload/tiers/io/row_storage.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace kv_offload {

namespace {

/// Something else stands there: a pipe, a directory, a device.
bool is_no_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace

StorageStep FsStorage::begin_load(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  FsCapacity* const capacity = this->capacity();
  if (capacity != nullptr && capacity->is_leaving(*chunk.key))
    return failed_step(TransferFailure::not_found, ENOENT);
  do {
    // Not blocking: somebody may have put a pipe there, whose open would wait for a writer.
    file.fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | direct_flag());
  } while (file.fd < 0 && errno == EINTR);
  if (file.fd < 0) {
    const int error = errno;
    if (is_no_file(file.path)) return load_foreign(chunk);
    if (!is_absent(error)) return failed_step(TransferFailure::io_error, error);
    if (capacity != nullptr) capacity->gone(*chunk.key);
    return failed_step(TransferFailure::not_found, error);
  }
  if (capacity != nullptr) file.pin = capacity->pin_for_load(*chunk.key, file.fd);
  if (!config_.checksum) return StorageStep::io(IoOp::read, file.fd);

  // Before the bytes: a file that will be refused need not be read.
  switch (read_digest_attribute(file.fd, file.digest)) {
    case StoredDigest::present: file.has_digest = true; break;
    case StoredDigest::absent:
      if (config_.foreign_files == ForeignFiles::refuse) return load_foreign(chunk);
      break;
    case StoredDigest::malformed: return load_corrupt(chunk, false);
    case StoredDigest::error: {
      const int error = errno;
      if (is_no_file(file.path)) return load_foreign(chunk);
      close_file(file);
      return failed_step(TransferFailure::io_error, error);
    }
  }
  return StorageStep::io(IoOp::read, file.fd);
}

StorageStep FsStorage::finish_load(const ChunkContext& chunk, const IoEnd& io) {
  OpenFile& file = files_[chunk.slot];
  if (io.error != 0) {
    close_file(file);
    return failed_step(TransferFailure::io_error, io.error);
  }
  if (io.is_short) return load_corrupt(chunk, true);
  if (file.has_digest) {
    const bool is_same = digester_.digest(*chunk.key, chunk.row) == file.digest;
    if (!is_same && !promise_broken(1)) return load_corrupt(chunk, false);
  } else {
    zero_padding(chunk.row, payload_bytes_);
  }
  close_file(file);
  return StorageStep::over({KeyFate::done, TransferFailure::none, 0, !file.has_digest});
}

/// Takes the file out of the way: a short one is worth nothing, one with other bytes may be looked at.
StorageStep FsStorage::load_corrupt(const ChunkContext& chunk, bool is_short) {
  OpenFile& file = files_[chunk.slot];
  close_file(file);
  ++shared_->corrupt_chunks;
  FsCapacity* const capacity = this->capacity();
  bool is_gone = false;
  if (is_short) {
    is_gone = ::unlink(file.path.c_str()) == 0;
    if (is_gone && capacity != nullptr) capacity->gone(*chunk.key);
  } else {
    scratch_path_ = file.path;
    scratch_path_ += ".quarantined";
    is_gone = ::rename(file.path.c_str(), scratch_path_.c_str()) == 0;
    if (is_gone && capacity != nullptr) capacity->quarantined(*chunk.key);
  }
  if (!is_gone && !is_absent(errno)) refused_.add(*chunk.key, RefusedKeys::Reason::corrupt);
  return failed_step(TransferFailure::corrupt, EIO);
}

StorageStep FsStorage::load_foreign(const ChunkContext& chunk) {
  close_file(files_[chunk.slot]);
  ++shared_->foreign_refused;
  refused_.add(*chunk.key, RefusedKeys::Reason::foreign);
  return failed_step(TransferFailure::foreign, 0);
}

}  // namespace kv_offload
