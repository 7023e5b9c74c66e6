#include "kv_offload/tiers/fs/fs_storage.hpp"

#include "kv_offload/messages/broken_promise.hpp"
#include "kv_offload/tiers/fs/digest_attribute.hpp"
#include "kv_offload/tiers/fs/fs_errors.hpp"
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
    if (shared_->next_namespace && capacity() != nullptr)
      capacity()->enter(std::move(shared_->next_namespace));
    mapper_ = std::move(*shared_->next_mapper);
    shared_->next_mapper.reset();
    digester_ = ChunkDigester(mapper_.digest_namespace());
    refused_ = RefusedKeys(kRefusedKeysMax);
  }
  shared_->namespace_changed = false;
}

/// nullptr without a capacity, and before the start has made it; no job comes before that.
FsCapacity* FsStorage::capacity() {
  if (!shared_->has_capacity.load(std::memory_order_acquire)) return nullptr;
  return shared_->capacity.get();
}

LookupResult FsStorage::probe(const OffloadKey& key) {
  adopt_namespace();
  FsCapacity* const capacity = this->capacity();
  if (capacity != nullptr && capacity->is_leaving(key)) return LookupResult::miss;
  mapper_.path_of(key, scratch_path_);
  if (const auto* reason = refused_.find(key)) {
    if (*reason == RefusedKeys::Reason::corrupt) return LookupResult::miss;
    // Another engine may have replaced a foreign file by one of ours.
    const int fd = ::open(scratch_path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return LookupResult::miss;
    ChunkDigest digest;
    const bool is_ours = read_digest_attribute(fd, digest) == StoredDigest::present;
    ::close(fd);
    if (!is_ours) return LookupResult::miss;
    refused_.remove(key);
    return LookupResult::hit;
  }
  if (::faccessat(AT_FDCWD, scratch_path_.c_str(), F_OK, 0) == 0) {
    if (capacity != nullptr) capacity->seen(key, scratch_path_);
    return LookupResult::hit;
  }
  if (capacity != nullptr && is_absent(errno)) {
    capacity->gone(key);
    return LookupResult::miss;
  }
  return is_absent(errno) ? LookupResult::miss : LookupResult::retry;
}

StorageStep FsStorage::begin(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  adopt_namespace();
  mapper_.path_of(*chunk.key, file.path);
  file.temp_path.clear();
  file.stage = Stage::moving_row;
  file.has_digest = false;
  file.has_room = false;
  file.pin = kNoChunk;
  return end_of(file, chunk.is_load ? begin_load(chunk) : begin_store(chunk));
}

StorageStep FsStorage::proceed(const ChunkContext& chunk, const IoEnd& io) {
  return end_of(files_[chunk.slot],
                chunk.is_load ? finish_load(chunk, io) : proceed_store(chunk, io));
}

/// Gives back what the transfer holds of the capacity once it is over.
StorageStep FsStorage::end_of(OpenFile& file, const StorageStep& step) {
  if (!step.is_over) return step;
  if (file.has_room) capacity()->release();
  if (file.pin != kNoChunk) capacity()->unpin(file.pin);
  file.has_room = false;
  file.pin = kNoChunk;
  return step;
}

int FsStorage::direct_flag() const { return shared_->is_direct.load() ? O_DIRECT : 0; }

int FsStorage::close_file(OpenFile& file) {
  const int error = ::close(std::exchange(file.fd, -1)) == 0 ? 0 : errno;
  return error == EINTR ? 0 : error;  // Linux has closed it
}

// --- stores ---------------------------------------------------------------------------------------

StorageStep FsStorage::begin_store(const ChunkContext& chunk) {
  if (capacity() == nullptr) return try_store(chunk, false);
  zero_padding(chunk.row, payload_bytes_);  // its digest may be computed while it waits
  if (waiting_.empty()) {
    const StorageStep step = try_store(chunk, false);
    if (!step.waits) return step;
  }
  ++shared_->counters.waited_stores;
  waiting_.push_back(chunk);
  return StorageStep::wait();
}

StorageStep FsStorage::try_store(const ChunkContext& chunk, bool waited) {
  OpenFile& file = files_[chunk.slot];
  FsCapacity* const capacity = this->capacity();
  // Else the new file would go in the place of the old one.
  if (capacity != nullptr && capacity->is_leaving(*chunk.key)) return StorageStep::wait();
  // A store that waits asks for room first: at every turn, and mostly in vain.
  if (waited) {
    const FsCapacity::Room room = capacity->reserve();
    if (room == FsCapacity::Room::later) return StorageStep::wait();
    file.has_room = room == FsCapacity::Room::ready;
  }
  if (::faccessat(AT_FDCWD, file.path.c_str(), F_OK, 0) == 0) {
    if (refused_.find(*chunk.key) == nullptr) {
      if (capacity != nullptr) capacity->seen(*chunk.key, file.path);
      return StorageStep::over({KeyFate::already_present, TransferFailure::none, 0, false});
    }
  } else if (!is_absent(errno)) {
    return failed_store(errno);
  } else if (capacity != nullptr) {
    capacity->gone(*chunk.key);
  }
  if (capacity == nullptr) return write_chunk(chunk);
  file.pin = capacity->pin_for_store(*chunk.key);
  if (!waited) {
    const FsCapacity::Room room = capacity->reserve();
    file.has_room = room == FsCapacity::Room::ready;
    if (room == FsCapacity::Room::later) {
      if (file.pin != kNoChunk) capacity->unpin(std::exchange(file.pin, kNoChunk));
      return StorageStep::wait();
    }
  }
  if (!file.has_room) return failed_store(ENOSPC);
  return write_chunk(chunk);
}

StorageStep FsStorage::write_chunk(const ChunkContext& chunk) {
  OpenFile& file = files_[chunk.slot];
  if (const int error = create_temp(file); error != 0) return store_failed(file, error);
  // Without preallocation a direct write extends the file, for which the kernel takes a worker thread
  // and the inode's lock; with it the write stays in the ring. It also says early that space is out.
  if (can_preallocate_ && ::fallocate(file.fd, 0, 0, static_cast<off_t>(chunk.row.size())) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS)
      can_preallocate_ = false;
    else if (errno != EINTR)
      return store_failed(file, errno);
  }
  if (capacity() == nullptr) zero_padding(chunk.row, payload_bytes_);
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
  FsCapacity* const capacity = this->capacity();
  struct stat info {};
  if (capacity != nullptr && ::fstat(file.fd, &info) != 0) return store_failed(file, errno);
  if (const int error = close_file(file); error != 0) return store_failed(file, error);
  // Another store of the key was faster, and its file is a victim already: this one goes with it.
  if (capacity != nullptr && capacity->is_leaving(*chunk.key)) {
    ::unlink(file.temp_path.c_str());
    file.temp_path.clear();
    return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
  }
  if (::rename(file.temp_path.c_str(), file.path.c_str()) != 0) return store_failed(file, errno);
  file.temp_path.clear();
  if (capacity != nullptr) {
    file.has_room = false;
    capacity->stored(*chunk.key, static_cast<std::uint64_t>(info.st_blocks) * 512);
  }
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
  if ((error == ENOSPC || error == EDQUOT) && capacity() != nullptr) capacity()->disk_full();
  return failed_store(error);
}

// --- events ---------------------------------------------------------------------------------------

void FsStorage::job_ended(const TransferJob& job, const JobResult& result) {
  if (!config_.enable_kv_events || job.is_promotion || !result.success || job.keys.empty()) return;
  OffloadingEvent event;
  event.keys = job.keys;
  event.medium = Medium::storage;
  event.locality = config_.locality;
  if (FsCapacity* const capacity = this->capacity(); capacity != nullptr) {
    // What was evicted before its job ended has been told as removed, or will be.
    std::erase_if(event.keys, [&](const OffloadKey& key) { return !capacity->knows(key); });
    if (event.keys.empty()) return;
  }
  shared_->events.add(std::move(event));
}

// --- the capacity ---------------------------------------------------------------------------------

bool FsStorage::next_own_io(OwnIo& io) {
  adopt_namespace();
  return capacity() != nullptr && capacity()->next_io(io);
}

void FsStorage::own_io_over(std::uint64_t id, const IoEnd& io) { capacity()->io_over(id, io); }

Duration FsStorage::own_work_wait() const {
  if (!shared_->has_capacity.load(std::memory_order_acquire)) return Duration::max();
  return shared_->capacity->work_wait();
}

bool FsStorage::next_resumed(TransferSlot& slot, StorageStep& step) {
  if (waiting_.empty()) return false;
  const ChunkContext& chunk = waiting_.front();
  slot = chunk.slot;
  step = end_of(files_[slot], try_store(chunk, true));
  if (step.waits) return false;
  waiting_.pop_front();
  return true;
}

}  // namespace kv_offload
