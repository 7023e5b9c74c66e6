#include "kv_offload/tiers/fs/fs_storage.hpp"

#include "kv_offload/messages/broken_promise.hpp"
#include "kv_offload/tiers/fs/digest_attribute.hpp"
#include "kv_offload/tiers/io/row_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

/// Refused files remembered; 64 Ki keys are about 10 MiB.
constexpr std::size_t kRefusedKeysMax = 1U << 16;
constexpr int kTempTries = 4;  ///< a taken temporary name is a wonder; four are an error
constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

bool is_absent(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace

FsStorage::FsStorage(FileMapper mapper, FsConfig config, std::uint64_t payload_bytes,
                     std::shared_ptr<FsShared> shared)
    : mapper_(std::move(mapper)),
      config_(std::move(config)),
      payload_bytes_(payload_bytes),
      shared_(std::move(shared)),
      digester_(mapper_.digest_namespace()),
      refused_(kRefusedKeysMax) {}

/// Only a lane that died leaves files open.
FsStorage::~FsStorage() {
  for (OpenFile& file : files_) {
    if (file.fd >= 0) close_file(file);
    if (!file.temp_path.empty()) ::unlink(file.temp_path.c_str());
  }
}

void FsStorage::adopt_namespace() {
  if (!shared_->namespace_changed.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->next_mapper) {
    mapper_ = std::move(*shared_->next_mapper);
    shared_->next_mapper.reset();
    digester_ = ChunkDigester(mapper_.digest_namespace());
    refused_ = RefusedKeys(kRefusedKeysMax);
  }
  shared_->namespace_changed = false;
}

LookupResult FsStorage::probe(const OffloadKey& key) {
  adopt_namespace();
  mapper_.path_of(key, scratch_path_);
  if (const auto* reason = refused_.find(key)) {
    if (*reason == RefusedKeys::Reason::corrupt) return LookupResult::miss;
    // Another engine may have replaced a foreign file by one of ours.
    const int fd = ::open(scratch_path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return LookupResult::miss;
    ChunkDigest digest;
    const bool is_ours = read_digest_attribute(fd, digest) == StoredDigest::present;
    ::close(fd);
    if (!is_ours) return LookupResult::miss;
    refused_.remove(key);
    return LookupResult::hit;
  }
  if (::faccessat(AT_FDCWD, scratch_path_.c_str(), F_OK, 0) == 0) return LookupResult::hit;
  return is_absent(errno) ? LookupResult::miss : LookupResult::retry;
}

StorageStep FsStorage::begin(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  adopt_namespace();
  mapper_.path_of(*chunk.key, file.path);
  file.temp_path.clear();
  file.stage = Stage::moving_row;
  file.has_digest = false;
  return chunk.is_load ? begin_load(chunk) : begin_store(chunk);
}

StorageStep FsStorage::proceed(const ChunkContext& chunk, const IoEnd& io) {
  return chunk.is_load ? finish_load(chunk, io) : proceed_store(chunk, io);
}

int FsStorage::direct_flag() const { return shared_->is_direct.load() ? O_DIRECT : 0; }

int FsStorage::close_file(OpenFile& file) {
  const int error = ::close(std::exchange(file.fd, -1)) == 0 ? 0 : errno;
  return error == EINTR ? 0 : error;  // Linux has closed it
}

// --- stores ---------------------------------------------------------------------------------------

StorageStep FsStorage::begin_store(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  if (::faccessat(AT_FDCWD, file.path.c_str(), F_OK, 0) == 0) {
    if (refused_.find(*chunk.key) == nullptr)
      return StorageStep::over({KeyFate::already_present, TransferFailure::none, 0, false});
  } else if (!is_absent(errno)) {
    return failed_store(errno);
  }
  if (const int error = create_temp(file); error != 0) return failed_store(error);
  // Without preallocation a direct write extends the file, for which the kernel takes a worker thread
  // and the inode's lock; with it the write stays in the ring. It also says early that space is out.
  if (can_preallocate_ && ::fallocate(file.fd, 0, 0, static_cast<off_t>(chunk.row.size())) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS)
      can_preallocate_ = false;
    else if (errno != EINTR)
      return store_failed(file, errno);
  }
  zero_padding(chunk.row, payload_bytes_);
  return StorageStep::io(IoOp::write, file.fd);
}

/// Opens a new temporary file beside the destination. 0 or errno.
int FsStorage::create_temp(OpenFile& file) {
  const int flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | direct_flag();
  int error = 0;
  for (int i = 0; i < kTempTries; ++i) {
    file.temp_path = file.path;
    temp_names_.append_to(file.temp_path);
    file.fd = ::open(file.temp_path.c_str(), flags, kFileMode);
    if (file.fd >= 0) return 0;
    error = errno;
    if (error == ENOENT) error = make_parents(file.path);
    if (error != 0 && error != EEXIST && error != EINTR) break;
  }
  file.temp_path.clear();
  return error != 0 ? error : ENOENT;
}

/// Creates the directories between the root and `path` that are missing, also after somebody cleared
/// the root while the engine ran. Never the root itself. 0 or errno.
int FsStorage::make_parents(const std::string& path) {
  const std::size_t top = mapper_.chunk_dir().size();
  std::size_t at = path.rfind('/');
  // From the innermost outwards: usually only that one is missing.
  while (true) {
    scratch_path_.assign(path, 0, at);
    if (::mkdir(scratch_path_.c_str(), kDirectoryMode) == 0 || errno == EEXIST) break;
    if (errno != ENOENT || at <= top) return errno;
    at = path.rfind('/', at - 1);
  }
  while ((at = path.find('/', at + 1)) != std::string::npos) {
    scratch_path_.assign(path, 0, at);
    if (::mkdir(scratch_path_.c_str(), kDirectoryMode) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

void FsStorage::overlap(const ChunkContext& chunk) {
  if (!config_.checksum) return;
  OpenFile& file = files_[chunk.slot];
  file.digest = digester_.digest(*chunk.key, chunk.row);
  file.has_digest = true;
}

StorageStep FsStorage::proceed_store(const ChunkContext& chunk, const IoEnd& io) {
  OpenFile& file = files_[chunk.slot];
  if (io.error != 0 || io.is_short) return store_failed(file, io.error != 0 ? io.error : EIO);
  switch (file.stage) {
    case Stage::moving_row:
      if (config_.checksum) {
        const int error = write_digest_attribute(file.fd, file.digest);
        if (error != 0) return store_failed(file, error);
      }
      if (config_.durability == Durability::none) return publish(chunk);
      file.stage = Stage::syncing_file;
      return StorageStep::io(
          config_.durability == Durability::data ? IoOp::sync_data : IoOp::sync_file, file.fd);
    case Stage::syncing_file: return publish(chunk);
    case Stage::syncing_directory: break;
  }
  close_file(file);
  return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
}

/// The file is whole: gives it its name.
StorageStep FsStorage::publish(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  if (const int error = close_file(file); error != 0) return store_failed(file, error);
  if (::rename(file.temp_path.c_str(), file.path.c_str()) != 0) return store_failed(file, errno);
  file.temp_path.clear();
  if (refused_.size() != 0) refused_.remove(*chunk.key);
  if (config_.durability == Durability::full) return sync_directory(file);
  return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
}

StorageStep FsStorage::sync_directory(OpenFile& file) {
  scratch_path_.assign(file.path, 0, file.path.rfind('/'));
  file.fd = ::open(scratch_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file.fd < 0) return failed_store(errno);
  file.stage = Stage::syncing_directory;
  return StorageStep::io(IoOp::sync_file, file.fd);
}

StorageStep FsStorage::store_failed(OpenFile& file, int error) {
  if (file.fd >= 0) close_file(file);
  if (!file.temp_path.empty()) ::unlink(file.temp_path.c_str());
  file.temp_path.clear();
  return failed_store(error);
}

// --- loads ----------------------------------------------------------------------------------------

StorageStep FsStorage::begin_load(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  do {
    file.fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | direct_flag());
  } while (file.fd < 0 && errno == EINTR);
  if (file.fd < 0)
    return failed_step(is_absent(errno) ? TransferFailure::not_found : TransferFailure::io_error, errno);
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
  bool is_gone = false;
  if (is_short) {
    is_gone = ::unlink(file.path.c_str()) == 0;
  } else {
    scratch_path_ = file.path;
    scratch_path_ += ".quarantined";
    is_gone = ::rename(file.path.c_str(), scratch_path_.c_str()) == 0;
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

// --- events ---------------------------------------------------------------------------------------

void FsStorage::job_ended(const TransferJob& job, const JobResult& result) {
  if (!config_.enable_kv_events || job.is_promotion || !result.success || job.keys.empty()) return;
  OffloadingEvent event;
  event.keys = job.keys;
  event.medium = Medium::storage;
  event.locality = config_.locality;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->events.size() < FsShared::kEventsMax)
    shared_->events.push_back(std::move(event));
  else
    ++shared_->events_dropped;
}

}  // namespace kv_offload
